"""Members whose edges move while a set program reads their lists come once."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, run_coroutine
from edges import edge_of, leaf, writes_of
from reference_edges import ReferenceEdges
from scrambled_edges import ScrambledEdges

from kith.core.paging import Mark, Window
from kith.graph import programs as set_programs
from kith.graph.edge import Direction, State
from kith.graph.ordered_lists import OrderedLists
from kith.graph.programs import Evaluator, Union
from kith.graph.shapes import Chunk, Listing
from kith.graph.store import EdgeStore


def evaluator(store: EdgeStore) -> Evaluator:
    return Evaluator(store, OrderedLists(store))


def test_an_id_that_moves_between_two_lists_is_answered_once() -> None:
    """In an engine without transactions, an edge that changes state may be in two lists for a moment."""

    async def answers(seed: int) -> list[list[int]]:
        store = ScrambledEdges(seed)
        await store.apply(writes_of(*(edge_of(ALICE, other) for other in (BOB, CAROL, DANA))))
        store.settle()
        await store.apply(writes_of(*(edge_of(ALICE, other, 1, State.ARCHIVED, 1) for other in (BOB, CAROL, DANA))))
        program = leaf(ALICE, Direction.OUT, State.NORMAL, State.ARCHIVED)
        return [(await evaluator(store).page(program, None, 10)).ids.tolist() for _ in range(6)]

    for seed in range(10):
        for found in run_coroutine(answers(seed)):
            assert len(found) == len(set(found)), f"seed {seed}"


def test_an_id_whose_edge_moves_while_its_list_is_read_is_a_member_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves down, and is met again: engines read lists by position."""

    class Moving(ReferenceEdges):
        async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
            place = None if after is None else Mark(*msgspec.msgpack.decode(after))
            page = await self.page(listing, Window(limit, after=place))
            await self.apply(writes_of(edge_of(ALICE, DANA, -1, version=2)))
            ids = np.array([mark.id for mark in page.items], np.int64)
            return Chunk(ids, msgspec.msgpack.encode(page.items[-1]) if page.more_after else None)

    async def answers(store: Moving) -> tuple[list[int], int]:
        await store.apply(writes_of(*(edge_of(ALICE, id_) for id_ in (BOB, CAROL, DANA))))
        program = Union((leaf(ALICE),))
        page = await evaluator(store).page(leaf(ALICE), None, 10)
        return page.ids.tolist(), await evaluator(store).count(program)

    monkeypatch.setattr(set_programs, "READ_MAX", 2)
    assert run(answers(Moving())) == ([DANA, CAROL, BOB], 3)
