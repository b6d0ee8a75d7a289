"""Suggestions for all users: what the job keeps, what is served of it, and how it resumes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run
from edges import edge_of, writes_of
from reference_suggestions import ReferenceSuggestions
from services import service_over

from kith.core.errors import StoreFull
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN
from kith.graph.store import EdgeStore
from kith.suggestions import batch
from kith.suggestions.batch import BatchResult, suggest_everyone
from kith.suggestions.store import RankingRow
from kith.suggestions.suggestions import KEEP_MS, Suggestions

DAY_MS = 24 * 3_600_000
FIRST = 3
USERS, LONERS = range(1, 61), range(1_000, 1_030)


class Watched:
    """A report that remembers."""

    def __init__(self) -> None:
        self.users: list[int] = []
        self.done: list[tuple[int, int]] = []

    def counted(self, users: int) -> None:
        self.users.append(users)

    def ranked(self, done: int, users: int) -> None:
        self.done.append((done, users))


class Breaking(ReferenceSuggestions):
    """A store that is full after some puts."""

    room = 1 << 30

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        if self.puts >= self.room:
            raise StoreFull("no room")
        await super().put_many(rows, now_ms)


class Town:
    """Users who follow each other at random, and loners whom some follow and who follow nobody."""

    def __init__(self, run: Run, graph: Graph, clock: FakeClock) -> None:
        self.run, self.graph, self.clock = run, graph, clock
        self.kept = Breaking()
        self.suggestions = Suggestions(graph, self.kept, now_ms=clock)
        self.report = Watched()
        chosen = random.Random(7)
        edges = [edge_of(user, other) for user in USERS for other in chosen.sample([*USERS, *LONERS], 12)]
        run(graph.write(writes_of(*(edge for edge in edges if edge.source != edge.destination))))

    def job(self) -> BatchResult:
        self.report = Watched()
        job = suggest_everyone(self.suggestions, first=FIRST, fresh_ms=DAY_MS, report=self.report)
        return self.run(job)  # type: ignore[no-any-return]

    def shown(self, user: int, limit: int = 20) -> list[int]:
        return [one.id for one in self.run(self.suggestions.page(NodeId(user), Window(limit))).items]


@pytest.fixture
def town(run: Run, store: EdgeStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setattr(batch, "USERS_A_CHUNK", 7)
    monkeypatch.setattr(batch, "_NODES_A_CHUNK", 11)
    run(store.declare(BUILT_IN))
    return Town(run, run(service_over(store, clock)), clock)


def test_everyone_who_follows_somebody_is_ranked_once(town: Town) -> None:
    assert town.job() == BatchResult(ranked=len(USERS), before=0)
    assert sorted(town.kept.rows) == list(USERS)
    assert {row.until_ms for row in town.kept.rows.values()} == {town.clock.ms + DAY_MS}
    assert town.report.users[-1] == len(USERS)
    assert town.report.done[-1] == (len(USERS), len(USERS))
    assert [done for done, _ in town.report.done] == sorted(done for done, _ in town.report.done)


def test_what_the_job_kept_is_served_for_its_time_and_is_what_a_reader_would_have_got(town: Town) -> None:
    fresh = {user: town.shown(user) for user in USERS}
    town.kept.rows.clear()
    town.job()
    puts = town.kept.puts
    town.clock.ms += DAY_MS - 1
    assert {user: town.shown(user, limit=FIRST - 1) for user in USERS} == {u: f[: FIRST - 1] for u, f in fresh.items()}
    assert town.kept.puts == puts, "somebody was ranked again"
    town.clock.ms += 1
    town.shown(ALICE)
    assert town.kept.puts == puts + 1


def test_who_scrolls_past_what_the_job_kept_sees_it_all(town: Town) -> None:
    fresh = town.shown(ALICE, 100)
    assert len(fresh) > FIRST
    town.clock.ms += KEEP_MS
    town.job()
    assert town.shown(ALICE, 100) == fresh


def test_the_most_followed_are_for_those_who_follow_nobody(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "POPULAR_MAX", 5)
    town.job()
    counts: dict[int, int] = {}

    async def count() -> None:
        async for chunk in town.graph.store.edges(town.suggestions.follows):
            for ends in chunk:
                counts[int(ends.edge.destination)] = counts.get(int(ends.edge.destination), 0) + 1

    town.run(count())
    page = town.run(town.suggestions.page(NodeId(LONERS[0]), Window(20)))
    best = sorted(counts, key=lambda user: (counts[user], user), reverse=True)[:5]
    assert [one.id for one in page.items] == [one for one in best if one != LONERS[0]]
    assert page.source == "popular"


@pytest.mark.parametrize("room", [0, 1, 4, 8], ids="room for {}".format)
def test_a_job_that_met_a_full_store_goes_on_there(town: Town, room: int) -> None:
    town.kept.room = room
    with pytest.raises(StoreFull):
        town.job()
    kept = dict(town.kept.rows)
    town.kept.room = 1 << 30
    town.clock.ms += 60_000
    found = town.job()
    assert found.before == len(kept)
    assert found.ranked + found.before == len(USERS)
    assert sorted(town.kept.rows) == list(USERS)
    assert {user: row for user, row in town.kept.rows.items() if user in kept} == kept, "some were ranked twice"
    assert town.report.users == [], "the users were counted again"
    assert town.job().before == 0, "a whole run leaves nothing to go on with"


def test_a_job_interrupted_so_long_ago_that_its_results_are_over_begins_anew(town: Town) -> None:
    town.kept.room = 3
    with pytest.raises(StoreFull):
        town.job()
    town.kept.room = 1 << 30
    town.clock.ms += DAY_MS
    assert town.job() == BatchResult(ranked=len(USERS), before=0)


def test_an_empty_graph_is_done_at_once(town: Town, run: Run, store: EdgeStore) -> None:
    run(town.graph.write([town.graph.dropping(1, BOB, CAROL)]))
    empty = Suggestions(town.graph, ReferenceSuggestions(), now_ms=town.clock)
    empty.follows = town.graph.graphs.number("views")
    report = Watched()
    assert run(suggest_everyone(empty, first=1, fresh_ms=1, report=report)) == BatchResult(0, 0)
    assert report.done == []
