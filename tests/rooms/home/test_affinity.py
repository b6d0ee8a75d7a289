"""Affinity comes from what a reader really did, fades, and follows a change at once."""

from __future__ import annotations

from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from home_scene import HomeScene, open_home
from store_types import EngineStores

from kith.core.ids import NodeId
from kith.graph.graphs import HIDES, LIKES, SAVES, SHARES, VIEWS
from kith.home.rank.affinity import AFFINITY_CACHED_MS, AFFINITY_HALF_WORTH, HALF_LIFE_MS, NEWEST_MAX, Affinities
from kith.home.rank.facts import FACTS_STALE_MS


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    made: HomeScene = run(open_home(whole, clock))
    return made


def to(run: Run, home: HomeScene, *authors: NodeId, reader: NodeId = ALICE) -> list[float]:
    found: dict[int, float] = run(home.affinity.by_author(reader))
    return [found.get(author, 0.0) for author in authors or (BOB,)]


def of_worth(worth: float) -> float:
    return worth / (worth + AFFINITY_HALF_WORTH)


@pytest.mark.parametrize(("graph", "worth"), [(LIKES, 1), (SHARES, 3), (SAVES, 2), (VIEWS, 0), (HIDES, 0)])
def test_what_a_reader_does_counts_by_its_kind_and_undo_takes_it_back(
    run: Run, home: HomeScene, graph: str, worth: float
) -> None:
    post = run(home.post(BOB))
    assert to(run, home) == [0]
    run(home.engagement.add(graph, ALICE, post.id))
    assert to(run, home) == pytest.approx([of_worth(worth)])
    assert to(run, home, CAROL, DANA) == [0, 0]
    assert to(run, home, reader=CAROL) == [0], "the affinity is Alice's alone"
    run(home.engagement.drop(graph, ALICE, post.id))
    assert to(run, home) == [0]


def test_a_comment_counts_and_deleting_it_takes_it_back(run: Run, home: HomeScene) -> None:
    post = run(home.post(BOB))
    comment, _ = run(home.comments.create(ALICE, post.id, "well said"))
    reply, _ = run(home.comments.create(ALICE, post.id, "and again", comment.id))
    assert to(run, home) == pytest.approx([of_worth(6)])
    run(home.comments.delete(ALICE, reply.id))
    assert to(run, home) == pytest.approx([of_worth(3)])
    run(home.comments.delete(BOB, comment.id))
    assert to(run, home) == [0], "whoever deletes it"


def test_affinity_grows_with_each_interaction_and_stays_below_1(run: Run, home: HomeScene) -> None:
    known = [0.0]
    for _ in range(30):
        run(home.engagement.add(SHARES, ALICE, run(home.post(BOB)).id))
        known += to(run, home)
    assert known == sorted(set(known))
    assert known[-1] < 1


def test_affinity_fades_with_its_half_life(run: Run, home: HomeScene) -> None:
    run(home.engagement.add(LIKES, ALICE, run(home.post(BOB)).id))
    home.clock.ms += HALF_LIFE_MS
    assert to(run, home) == pytest.approx([of_worth(0.5)], rel=1e-4)
    home.clock.ms += HALF_LIFE_MS
    assert to(run, home) == pytest.approx([of_worth(0.25)], rel=1e-4)
    home.clock.ms -= 4 * HALF_LIFE_MS
    assert to(run, home) == pytest.approx([of_worth(1)]), "what was done in the future counts as done now"


def test_a_like_in_place_of_another_is_noticed_though_the_count_is_the_same(run: Run, home: HomeScene) -> None:
    bobs, carols = run(home.post(BOB)), run(home.post(CAROL))
    run(home.engagement.add(LIKES, ALICE, bobs.id))
    assert to(run, home, BOB, CAROL) == pytest.approx([of_worth(1), 0])
    home.clock.ms += 5
    run(home.engagement.drop(LIKES, ALICE, bobs.id))
    run(home.engagement.add(LIKES, ALICE, carols.id))
    assert to(run, home, BOB, CAROL) == pytest.approx([0, of_worth(1)])


def test_affinity_is_cached_until_the_reader_does_another_thing_or_an_hour_passes(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    real = home.affinity.of_interactions

    def counted(*args: Any) -> Affinities:
        reads.append(1)
        return real(*args)

    monkeypatch.setattr(home.affinity, "of_interactions", counted)
    post = run(home.post(BOB))
    for _ in range(3):
        to(run, home)
    assert len(reads) == 1
    run(home.engagement.add(LIKES, CAROL, post.id))
    to(run, home)
    assert len(reads) == 1, "what others do does not change Alice's affinity"
    run(home.engagement.add(LIKES, ALICE, post.id))
    to(run, home)
    assert len(reads) == 2
    home.clock.ms += AFFINITY_CACHED_MS - 1
    to(run, home)
    assert len(reads) == 2
    home.clock.ms += 1
    to(run, home)
    assert len(reads) == 3
    home.clock.ms -= 10 * AFFINITY_CACHED_MS
    to(run, home)
    assert len(reads) == 4, "a clock that was put back caches nothing for longer"


def test_only_the_newest_interactions_of_each_kind_count(run: Run, home: HomeScene) -> None:
    old = run(home.post(BOB))
    run(home.engagement.add(LIKES, ALICE, old.id))
    for _ in range(NEWEST_MAX):
        run(home.engagement.add(LIKES, ALICE, run(home.post(CAROL)).id))
    bob, carol = to(run, home, BOB, CAROL)
    assert bob == 0
    assert carol > 0.9


def test_a_deleted_post_gives_no_affinity(run: Run, home: HomeScene) -> None:
    post = run(home.post(BOB))
    run(home.engagement.add(LIKES, ALICE, post.id))
    assert to(run, home)[0] > 0
    run(home.posts.delete(BOB, post.id))
    home.clock.ms += max(AFFINITY_CACHED_MS, FACTS_STALE_MS) + 1
    assert to(run, home) == [0]


def test_positions_at_the_ends_of_time_do_no_harm(run: Run, home: HomeScene) -> None:
    likes = home.graph.graphs.number(LIKES)
    for position in (-(2**63), 2**63 - 1):
        post = run(home.post(BOB))
        write = home.graph.add_write(likes, ALICE, post.id)
        edge = write.edge
        run(home.graph.write([type(write)(type(edge)(likes, ALICE, post.id, edge.state, position, edge.updated_at))]))
    assert to(run, home) == pytest.approx([of_worth(1)])
