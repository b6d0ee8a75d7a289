"""Suggestions for all users: what the job stores, how that is served, and how the job resumes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from edges import edge_of, writes_of
from reference_suggestions import ReferenceSuggestions
from services import Services

from kith.core.errors import StoreFull
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.suggestions import batch
from kith.suggestions.batch import BatchResult, suggest_everyone
from kith.suggestions.store import RankingRow
from kith.suggestions.suggestions import RANKING_CACHED_MS, Suggestions

DAY_MS = 24 * 3_600_000
FIRST = 3
USERS, LONERS = range(1, 61), range(1_000, 1_030)


class Watched:
    """A report that records its calls."""

    def __init__(self) -> None:
        self.users: list[int] = []
        self.done: list[tuple[int, int]] = []

    def counted(self, users: int) -> None:
        self.users.append(users)

    def ranked(self, done: int, users: int) -> None:
        self.done.append((done, users))


class Breaking(ReferenceSuggestions):
    """A store that is full after `room` puts."""

    room = 1 << 30

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        if self.puts >= self.room:
            raise StoreFull("no room")
        await super().put_many(rows, now_ms)


class BatchScene:
    """Users who follow each other at random, and loners whom some follow and who follow nobody."""

    def __init__(self, run: Run, services: Services) -> None:
        self.run, self.graph, self.clock = run, services.graph, services.clock
        self.kept = Breaking()
        self.suggestions = Suggestions(self.graph, self.kept, now_ms=self.clock)
        self.report = Watched()
        chosen = random.Random(7)
        edges = [edge_of(user, other) for user in USERS for other in chosen.sample([*USERS, *LONERS], 12)]
        run(self.graph.write(writes_of(*(edge for edge in edges if edge.source != edge.destination))))

    def job(self) -> BatchResult:
        self.report = Watched()
        job = suggest_everyone(self.suggestions, first=FIRST, fresh_ms=DAY_MS, report=self.report)
        return self.run(job)  # type: ignore[no-any-return]

    def shown(self, user: int, limit: int = 20) -> list[int]:
        return [one.id for one in self.run(self.suggestions.page(NodeId(user), Window(limit))).items]


@pytest.fixture
def scene(run: Run, services: Services, monkeypatch: pytest.MonkeyPatch) -> BatchScene:
    monkeypatch.setattr(batch, "USERS_A_CHUNK", 7)
    monkeypatch.setattr(batch, "_NODES_A_CHUNK", 11)
    return BatchScene(run, services)


def test_everyone_who_follows_somebody_is_ranked_once(scene: BatchScene) -> None:
    assert scene.job() == BatchResult(ranked=len(USERS), ranked_before=0)
    assert sorted(scene.kept.rows) == list(USERS)
    assert {row.until_ms for row in scene.kept.rows.values()} == {scene.clock.ms + DAY_MS}
    assert scene.report.users[-1] == len(USERS)
    assert scene.report.done[-1] == (len(USERS), len(USERS))
    assert [done for done, _ in scene.report.done] == sorted(done for done, _ in scene.report.done)


def test_stored_rankings_are_served_for_their_time_and_equal_fresh_ones(scene: BatchScene) -> None:
    fresh = {user: scene.shown(user) for user in USERS}
    scene.kept.rows.clear()
    scene.job()
    puts = scene.kept.puts
    scene.clock.ms += DAY_MS - 1
    assert {user: scene.shown(user, limit=FIRST - 1) for user in USERS} == {u: f[: FIRST - 1] for u, f in fresh.items()}
    assert scene.kept.puts == puts, "somebody was ranked again"
    scene.clock.ms += 1
    scene.shown(ALICE)
    assert scene.kept.puts == puts + 1


def test_a_reader_who_scrolls_past_the_stored_ranking_sees_the_rest(scene: BatchScene) -> None:
    fresh = scene.shown(ALICE, 100)
    assert len(fresh) > FIRST
    scene.clock.ms += RANKING_CACHED_MS
    scene.job()
    assert scene.shown(ALICE, 100) == fresh


def test_users_who_follow_nobody_get_the_most_followed(scene: BatchScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "POPULAR_MAX", 5)
    scene.job()
    counts: dict[int, int] = {}

    async def count() -> None:
        async for chunk in scene.graph.store.edges(scene.suggestions.follows):
            for ends in chunk:
                counts[int(ends.edge.destination)] = counts.get(int(ends.edge.destination), 0) + 1

    scene.run(count())
    page = scene.run(scene.suggestions.page(NodeId(LONERS[0]), Window(20)))
    best = sorted(counts, key=lambda user: (counts[user], user), reverse=True)[:5]
    assert [one.id for one in page.items] == [one for one in best if one != LONERS[0]]
    assert page.source == "popular"


@pytest.mark.parametrize("room", [0, 1, 4, 8], ids="room for {}".format)
def test_a_job_that_met_a_full_store_resumes_there(scene: BatchScene, room: int) -> None:
    scene.kept.room = room
    with pytest.raises(StoreFull):
        scene.job()
    kept = dict(scene.kept.rows)
    scene.kept.room = 1 << 30
    scene.clock.ms += 60_000
    found = scene.job()
    assert found.ranked_before == len(kept)
    assert found.ranked + found.ranked_before == len(USERS)
    assert sorted(scene.kept.rows) == list(USERS)
    assert {user: row for user, row in scene.kept.rows.items() if user in kept} == kept, "some were ranked twice"
    assert scene.report.users == [], "the users were counted again"
    assert scene.job().ranked_before == 0, "a whole run leaves nothing to resume"


def test_a_job_interrupted_so_long_ago_that_its_results_expired_restarts(scene: BatchScene) -> None:
    scene.kept.room = 3
    with pytest.raises(StoreFull):
        scene.job()
    scene.kept.room = 1 << 30
    scene.clock.ms += DAY_MS
    assert scene.job() == BatchResult(ranked=len(USERS), ranked_before=0)


def test_an_empty_graph_is_done_at_once(scene: BatchScene, run: Run) -> None:
    run(scene.graph.write([scene.graph.remove_write(1, BOB, CAROL)]))
    empty = Suggestions(scene.graph, ReferenceSuggestions(), now_ms=scene.clock)
    empty.follows = scene.graph.graphs.number("views")
    report = Watched()
    assert run(suggest_everyone(empty, first=1, fresh_ms=1, report=report)) == BatchResult(0, 0)
    assert report.done == []
