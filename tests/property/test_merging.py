"""Merging the writes of a call together gives the same answers, store and log as merging each write alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cast import START_MS
from coroutines import run_coroutine
from store_histories import content, joined

from kith.core.clock import Hlc, hlc_of
from kith.core.ids import NodeId
from kith.engines.embedded import merging
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.edge import Direction, Edge, EdgeLimit, EdgeWrite, State

_CALLS, _SINGLY = 40, 10**9
_POSITIONS = (0, -(2**63), 2**63 - 1, 1 << 48)


class _Calls:
    """Random calls: few ids, so that writes meet on the same edges, and hubs whose lists have several blocks."""

    def __init__(self, seed: int) -> None:
        self._chosen, self._version = random.Random(seed), 0
        self._ids = self._chosen.choice((4, 30, 10_000))
        self._conditions = self._chosen.choice((0.0, 0.02, 0.3))

    def writes(self) -> list[EdgeWrite]:
        return [self._write() for _ in range(self._chosen.choice((1, 3, 40, 300)))]

    def node(self) -> tuple[int, State, bool]:
        return self._id(), self._chosen.choice(list(State)[:3]), self._chosen.random() < 0.5

    def _id(self) -> NodeId:
        return NodeId(self._chosen.choice((1, 2, self._chosen.randrange(1, self._ids))))

    def _edge(self, graph: int) -> Edge:
        chosen = self._chosen
        self._version += chosen.choice((0, 1, 1, 1, 5, -30))
        version = Hlc(hlc_of(START_MS) + max(0, self._version))
        state = State.NORMAL if chosen.random() < 0.8 else chosen.choice(list(State))
        position = chosen.choice(_POSITIONS) if chosen.random() < 0.05 else START_MS + max(0, self._version)
        expires_ms = START_MS + chosen.choice((-1_000, 1_000)) if chosen.random() < 0.03 else 0
        return Edge(graph, self._id(), NodeId(self._id() + 500), state, position, version, expires_ms)

    def _limit(self) -> EdgeLimit:
        chosen = self._chosen
        states = chosen.sample(list(State), chosen.randint(1, 2))
        return EdgeLimit(chosen.choice((0, 3, 100)), chosen.choice(list(Direction)), tuple(states))

    def _write(self) -> EdgeWrite:
        chosen = self._chosen
        edge = self._edge(1 if chosen.random() < 0.99 else 2)
        supersede, kept = chosen.random() < 0.5, chosen.randrange(4)
        states = frozenset(chosen.sample(list(State), 2))
        write = EdgeWrite(
            edge, supersede, kept == 1, kept == 2, False, chosen.random() < 0.1, kept == 3,
            states if chosen.random() < 0.1 else None, as_is=chosen.random() < 0.1,
        )  # fmt: skip
        if chosen.random() >= self._conditions:
            return write
        return EdgeWrite(
            edge, supersede, kept == 1, kept == 2, chosen.random() < 0.5, chosen.random() < 0.5, kept == 3,
            states if chosen.random() < 0.1 else None,
            if_public=chosen.random() < 0.2,
            while_node=(self._id(), chosen.choice(list(State))) if chosen.random() < 0.2 else None,
            unless=((1, edge.source, self._id() + 500),) if chosen.random() < 0.2 else (),
            limit=self._limit() if chosen.random() < 0.3 else None,
            counted=chosen.choice((None, Direction.OUT, Direction.IN)),
            any_of=((1, self._id(), Direction.OUT, chosen.choice(list(State))),) if chosen.random() < 0.2 else (),
            as_is=chosen.random() < 0.1,
            while_edge=(1, edge.source, self._id(), chosen.random() < 0.5) if chosen.random() < 0.2 else None,
        )  # fmt: skip


def test_random_writes_cover_every_condition() -> None:
    """A new condition must be handled by `_parts`, or depend only on the edge's own row and the states of its ends."""
    rng = _Calls(1)
    rng._conditions = 1.0
    tried = [rng._write() for _ in range(2_000)]
    for field, default in zip(EdgeWrite.__struct_fields__[1:], EdgeWrite.__struct_defaults__, strict=True):
        assert any(getattr(write, field) != default for write in tried), field


@pytest.mark.parametrize("seed", range(24))
def test_writes_merged_together_give_the_same_result_as_merged_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    calls, found = _Calls(seed), []
    asked = [calls.node() if calls.node()[0] == 1 else calls.writes() for _ in range(_CALLS)]
    for many in (_SINGLY, 2):
        monkeypatch.setattr(merging, "MANY", many)
        with Environment(tmp_path / str(many)) as opened:
            commits = CommitQueue(opened, now_ms=lambda: START_MS)
            store = EmbeddedEdges(opened, commits)
            run_coroutine(store.declare(["one", "two"]))
            answers = [run_coroutine(_done(store, one)) for one in asked]
            commits.close()
            found.append((answers, joined(content(opened))))
    (singly, singly_left), (together, together_left) = found
    assert together == singly
    assert together_left == singly_left


async def _done(store: EmbeddedEdges, asked: list[EdgeWrite] | tuple[int, State, bool]) -> object:
    if isinstance(asked, list):
        return await store.apply(asked)
    node, state, private = asked
    return await store.change_node(node, state=state, private=private)
