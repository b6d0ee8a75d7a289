"""What every EdgeStore must do about the ids of a list: read it whole or in chunks, and check many ids at once."""

from __future__ import annotations

import numpy as np
import pytest
from cast import ALICE, BOB, DANA, START_MS
from coroutines import Run
from edges import OUT, SIZES, G, edge_of, fill, writes_of

from kith.core.ids import ID_MAX
from kith.graph.edge import Direction, State
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore

PORT = "edges"


@pytest.mark.parametrize("size", [0, 1, 61, 62, 125, 1000])
def test_ids_are_the_newest_part_of_a_list_in_its_order(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    for newest in (0, 1, 2, 60, 61, 62, 123, size, size + 1, 10**6):
        ids = run(store.ids(OUT, newest))
        assert ids.dtype == np.int64
        assert ids.shape == (min(size, newest),)
        assert ids.tolist() == [mark.id for mark in marks][:newest]


async def _ids_in_chunks(store: EdgeStore, limit: int) -> list[int]:
    all_ids, after = [], None
    for _ in range(2_000):
        ids, after = await store.chunk(OUT, after, limit)
        assert ids.dtype == np.int64
        assert len(ids) <= limit
        all_ids += ids.tolist()
        if after is None:
            return all_ids
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("size", SIZES)
def test_chunks_hold_every_id_of_a_list_once(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    run(store.apply(writes_of(edge_of(ALICE, ID_MAX, state=State.ARCHIVED), edge_of(ALICE - 1, 7), edge_of(DANA, 8))))
    for limit in (1, 7, 61, size or 1, 30_000) if size < 1000 else (61, 999, 1000):
        assert sorted(run(_ids_in_chunks(store, limit))) == sorted(mark.id for mark in marks)


def test_chunks_hold_once_each_id_that_is_in_the_list_throughout(store: EdgeStore, run: Run) -> None:
    async def check() -> None:
        await fill(store, 150)
        chunk_ids, after = await store.chunk(OUT, None, 10)
        seen = chunk_ids.tolist()
        for version in range(1, 15):  # edges are added, removed and moved on both sides of the cursor
            removed = edge_of(ALICE, 10 * version, START_MS + 10 * version // 3, State.REMOVED, version)
            await store.apply(writes_of(removed, edge_of(ALICE, 1_000 + version, START_MS + 7 * version)))
            assert after is not None
            chunk_ids, after = await store.chunk(OUT, after, 10)
            seen += chunk_ids.tolist()
        throughout = {id_ for id_ in range(150) if id_ == 0 or id_ % 10}
        for _ in range(100):
            if after is not None:
                chunk_ids, after = await store.chunk(OUT, after, 10)
                seen += chunk_ids.tolist()
        assert after is None
        assert [id_ for id_ in sorted(seen) if id_ in throughout] == sorted(throughout)

    run(check())


def test_ids_at_the_greatest_id_are_whole(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, ID_MAX, 5), edge_of(ALICE, 0, 4))))
    assert run(store.ids(OUT, 9)).tolist() == [ID_MAX, 0]


def test_contains_checks_ids_in_any_order_and_repetition(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, 0), edge_of(ALICE, ID_MAX), edge_of(ALICE, 5, state=State.ARCHIVED))))
    queried = np.array([ID_MAX, 5, 0, 4, ID_MAX, 0], np.int64)
    contained = run(store.contains(OUT, queried))
    assert contained.dtype == np.bool_
    assert contained.tolist() == [True, False, True, False, True, True]
    assert run(store.contains(OUT._replace(state=State.ARCHIVED), queried)).tolist() == [False, True] + 4 * [False]
    assert run(store.contains(Listing(G, 0, Direction.IN), np.array([ALICE, BOB], np.int64))).tolist() == [True, False]
    assert run(store.contains(Listing(G, ALICE, Direction.IN), queried)).tolist() == [False] * 6


def test_contains_takes_arrays_that_are_views(store: EdgeStore, run: Run) -> None:
    run(fill(store, 100))
    queried = run(store.ids(OUT, 100))[::-3]
    assert run(store.contains(OUT, queried)).all()
    assert len(queried) == 34


@pytest.mark.parametrize("length", [1, 50, 400, 2_000])
def test_many_ids_are_checked_in_lists_of_any_length(store: EdgeStore, run: Run, length: int) -> None:
    run(fill(store, length))
    listed = run(store.ids(OUT, length))
    queried = np.concatenate([listed[::-7], np.arange(10**9, 10**9 + 100), listed[:30], np.array([0, ID_MAX])])
    assert run(store.contains(OUT, queried)).tolist() == np.isin(queried, listed).tolist()
