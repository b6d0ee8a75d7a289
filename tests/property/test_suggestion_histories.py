"""For any history of follows, blocks, mutes, hides and departures, suggestions equal a naive model.

The model reads stored rows only, never a list, and counts in dictionaries. It caches rankings like the service: until
they expire, or until the user's own followees change.
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from cast import FakeClock
from coroutines import answer, run_coroutine, without_waits
from engines import Engine
from reference_leases import own_leases
from services import service_over
from store_types import EngineStores

from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT, SENSITIVE
from kith.core.paging import Window
from kith.graph.edge import FORBIDDING_STATES, State
from kith.graph.graphs import BLOCKS, BUILT_IN, FOLLOW_REQUESTS, FOLLOWS, MUTES, SUGGESTION_HIDES
from kith.graph.node_jobs import NodeOperation
from kith.graph.store import EdgeStore
from kith.people.removal import account_jobs
from kith.suggestions.discovery import WalkLimits
from kith.suggestions.suggestions import RANKING_CACHED_MS, Suggestion, Suggestions

PORT = "whole"
PEOPLE = [NodeId(user) for user in range(1, 10)]
TIGHT = WalkLimits(followees=4, per_followee=3, candidates=2)
MOMENTS = 120


class Row(NamedTuple):
    """A candidate of the model, with the followees through whom it was found, the newest first."""

    id: int
    count: int
    faces: list[int]


class Model:
    """Suggestions in the most obvious form."""

    def __init__(self, store: EdgeStore, numbers: dict[str, int], walk_limits: WalkLimits, clock: FakeClock) -> None:
        self.store, self.numbers, self.walk_limits, self.clock = store, numbers, walk_limits, clock
        self.kept: dict[int, tuple[int, list[int], list[Row]]] = {}

    async def look(self) -> None:
        """Read every stored row."""
        self.rows = {
            (name, int(ends.edge.source), int(ends.edge.destination)): ends.edge
            for name, number in self.numbers.items()
            async for chunk in self.store.edges(number)
            for ends in chunk
        }
        self.nodes = dict(zip(PEOPLE, await self.store.nodes(PEOPLE), strict=True))

    def holds(self, graph: str, source: int, destination: int, states: frozenset[State] = FORBIDDING_STATES) -> bool:
        edge = self.rows.get((graph, source, destination))
        return edge is not None and edge.state in states

    def follows(self, user: int) -> list[int]:
        """The accounts that a user follows, newest first."""
        edges = [
            edge
            for (graph, source, _), edge in self.rows.items()
            if (graph, source, edge.state) == (FOLLOWS, user, State.NORMAL)
        ]
        return [int(edge.destination) for edge in sorted(edges, key=lambda e: (e.position, e.destination))[::-1]]

    def is_raised(self, user: int, other: int) -> bool:
        """Whether `other` is active, and neither of the two blocks the other."""
        blocked = self.holds(BLOCKS, user, other) or self.holds(BLOCKS, other, user)
        node = self.nodes[NodeId(other)]
        return node.state == State.NORMAL and not node.labels & HIDE and not blocked

    def held_back(self, user: int, other: int) -> bool:
        own = (FOLLOW_REQUESTS, BLOCKS, MUTES, SUGGESTION_HIDES)
        return any(self.holds(graph, user, other) for graph in own) or self.holds(BLOCKS, other, user)

    def rank(self, user: int) -> list[Row]:
        who: dict[int, list[int]] = {}
        followees = self.follows(user)
        for followee in followees[: self.walk_limits.followees]:
            if self.is_raised(user, followee):
                for other in self.follows(followee)[: self.walk_limits.per_followee]:
                    who.setdefault(other, []).append(followee)
        order = sorted((-len(faces), -other) for other, faces in who.items() if other not in [user, *followees])
        found: list[Row] = []
        for count, other in order[: 2 * self.walk_limits.candidates]:
            free = sum(not self.held_back(user, row.id) for row in found)
            if free < self.walk_limits.candidates:
                found.append(Row(-other, -count, who[-other][:3]))
        return found

    def suggestions(self, user: int) -> list[Suggestion]:
        followees = self.follows(user)
        made_at, then, ranking = self.kept.get(user, (0, [], []))
        if self.clock.ms >= made_at + RANKING_CACHED_MS or then != followees:
            ranking = self.rank(user)
            self.kept[user] = (self.clock.ms, followees, ranking)
        found = []
        for other, ranked, known in ranking:
            faces = [
                face
                for face in known
                if self.is_raised(user, face) and self.holds(FOLLOWS, face, other, frozenset({State.NORMAL}))
            ]
            count = ranked - (len(known) - len(faces))
            barred = self.held_back(user, other) or self.holds(FOLLOWS, user, other)
            node = self.nodes[NodeId(other)]
            if count and not barred and node.state == State.NORMAL and not node.labels & (HIDE | LIMIT):
                found.append(Suggestion(other, count, faces))
        return found


class History:
    """Random actions on the service. The model reads the same store."""

    def __init__(self, chosen: random.Random, walk_limits: WalkLimits) -> None:
        self.chosen, self.walk_limits, self.clock = chosen, walk_limits, FakeClock()

    async def begin(self, whole: EngineStores) -> None:
        self.whole, numbers = whole, dict(await whole.edges.declare(BUILT_IN))
        self.graph = await service_over(whole.edges, self.clock)
        self.suggestions = Suggestions(self.graph, whole.suggestions, walk_limits=self.walk_limits, now_ms=self.clock)
        self.jobs = account_jobs(self.graph, own_leases())
        self.model = Model(whole.edges, numbers, self.walk_limits, self.clock)

    async def act(self) -> None:
        """Do one random action. Some are refused by the rules."""
        one, other = self.chosen.sample(PEOPLE, 2)
        graph, kind = self.graph, self.chosen.randrange(27)
        match kind:
            case 7 | 8:
                await graph.people.unfollow(one, other)
            case 9:
                await graph.people.block(one, other)
            case 10 | 11:
                await graph.people.unblock(one, other)
            case 12:
                await graph.people.mute(one, other)
            case 13:
                await graph.people.unmute(one, other)
            case 14 | 15:
                await self.suggestions.hide(one, other)
            case 16:
                await self.suggestions.unhide(one, other)
            case 17:
                await graph.store.change_node(other, private=self.chosen.random() < 0.5)
            case 18 | 19:
                left = [user for user in PEOPLE if self.model.nodes[user].state != State.NORMAL]
                back = len(left) > 2 or (bool(left) and kind == 18)
                operation = NodeOperation.RESTORE if back else NodeOperation.ARCHIVE
                await self.jobs.start(operation, self.chosen.choice(left) if back else one)
                await self.jobs.wait()
            case 20:  # an app that writes edges itself follows no rules: this block drops no follow
                await graph.write([graph.add_write(graph.graphs.number(BLOCKS), one, other)])
            case 21:
                await graph.store.change_node(other, labels=self.chosen.choice((0, 0, 0, HIDE, LIMIT, SENSITIVE)))
            case _:
                await answer(graph.people.follow(one, other))

    async def shown(self, user: NodeId) -> list[Suggestion]:
        """A user's suggestions on all pages, with random limits. Also reads each page again backwards."""
        window, found, pages = Window(self.chosen.randrange(1, 5)), [], []
        while True:
            part = await self.suggestions.page(user, window)
            assert part.source in ("network", "none")
            assert [mark.id for mark in part.page.items] == [one.id for one in part.items]
            found += part.items
            pages.append(part)
            if not part.page.more_after:
                break
            assert part.page.oldest is not None
            window = Window(self.chosen.randrange(1, 5), after=part.page.oldest)
        for before, part in pairwise(pages):
            assert part.page.newest is not None
            back = await self.suggestions.page(user, Window(len(before.items), before=part.page.newest))
            assert back.items == before.items
            assert back.page.more_after
        return found


@pytest.mark.parametrize("walk_limits", [WalkLimits(), TIGHT], ids=["whole", "tight"])
@pytest.mark.parametrize("seed", range(8))
def test_suggestions_equal_a_naive_model(engine: Engine, tmp_path: Path, walk_limits: WalkLimits, seed: int) -> None:
    history = History(random.Random(seed), walk_limits)
    met = 0

    async def live(whole: EngineStores) -> None:
        nonlocal met
        await history.begin(whole)
        await history.model.look()
        for _ in range(MOMENTS):
            history.clock.ms += history.chosen.choice((0, 5, 40_000, RANKING_CACHED_MS // 2))
            await history.act()
            whole.settle()
            await history.model.look()
            for user in history.chosen.sample(PEOPLE, 3):
                found = await history.shown(user)
                assert found == history.model.suggestions(user), f"seed {seed}, user {user}"
                met += len(found)

    assert engine.whole
    with engine.whole(tmp_path, now_ms=history.clock) as whole, without_waits():
        run_coroutine(live(whole))
    assert met > 100, "too few suggestions to be a test"
