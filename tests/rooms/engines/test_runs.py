"""Runs of packed blocks are sorted lists, whatever the order of inserts and removals.

The real block size needs long lists to split; blocks of one to four rows show the same in few steps.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import lmdb
import numpy as np
import pytest
from cast import DANA
from edges import G
from hypothesis import given, settings
from hypothesis import strategies as st

from kith.engines.embedded import runs
from kith.engines.embedded.keys import list_prefix, list_row, pair_key, read_mark
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction, State
from kith.graph.shapes import Listing

PREFIXES = [
    list_prefix(Listing(G, node, direction, state))
    for node, direction, state in [
        (0, Direction.OUT, State.NORMAL),
        (1, Direction.OUT, State.NORMAL),
        (1, Direction.OUT, State.NEGATIVE),
        (DANA, Direction.IN, State.REMOVED),  # the greatest prefix there is
    ]
]
ROWS = sorted(list_row(position, other_end) for position in (-3, -2, -1, 0, 1, 2, 3) for other_end in (0, 1, 2, 5))
ENDS = [bytes(16), b"\xff" * 16]

Model = dict[bytes, list[bytes]]
step = st.tuples(
    st.sampled_from(["insert", "insert", "remove"]), st.sampled_from(PREFIXES), st.sampled_from(ROWS + ENDS)
)
operations = st.lists(step, max_size=20) | st.lists(step, min_size=80, max_size=160)


OTHER_KEYS = [pair_key(source, other_end) for source in (0, 1, 2, DANA) for other_end in (0, 1, DANA)]
"""Edges of the same nodes; their keys lie between the runs."""


class Opened:
    """One LMDB database, in a transaction that is never committed."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self.db = environment.open_db(b"lists")
        self.txn = environment.begin(write=True)
        self.cursor = self.txn.cursor(self.db)
        for key in OTHER_KEYS:
            self.txn.put(key, b"an edge", db=self.db)

    def dump(self) -> list[tuple[bytes, bytes]]:
        """All keys of runs with their values. Checks that the keys between the runs are unchanged."""
        rows = list(self.txn.cursor(self.db).iternext())
        assert [key for key, value in rows if value == b"an edge"] == OTHER_KEYS
        return [(key, value) for key, value in rows if value != b"an edge"]

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.txn.abort()


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[lmdb.Environment]:
    """An LMDB file."""
    with lmdb.Environment(str(tmp_path / "runs.mdb"), subdir=False, max_dbs=2, map_size=1 << 26) as opened:
        yield opened


def check(opened: Opened, model: Model, block_rows: int) -> None:
    """Every read of every run has the answer of the sorted list."""
    cursor = opened.cursor
    for prefix in PREFIXES:
        rows = model[prefix]
        assert runs.length(opened.txn, opened.db, prefix) == len(rows)
        for newest in (None, 0, 1, 2, block_rows, block_rows + 1, len(rows), len(rows) + 1):
            start = 0 if newest is None else max(0, len(rows) - newest)
            assert runs.rows_newest(cursor, prefix, newest) == b"".join(rows[start:])
        for limit in (1, 2, block_rows + 1, len(rows) + 1):
            assert runs.below(cursor, prefix, None, limit) == rows[::-1][:limit]
            for row in [*ROWS[::5], *ENDS, *rows[::3]]:
                assert runs.below(cursor, prefix, row, limit) == rows[: bisect_left(rows, row)][::-1][:limit]
                assert runs.above(cursor, prefix, row, limit) == rows[bisect_right(rows, row) :][:limit]
        for row in (*ROWS, *ENDS):
            assert runs.contains(cursor, prefix, row) == (row in rows)
    expected = [(prefix, len(model[prefix]), len(model[prefix])) for prefix in sorted(PREFIXES) if model[prefix]]
    assert list(runs.lengths(opened.txn.cursor(opened.db))) == expected
    check_blocks(opened.dump(), block_rows)


def check_blocks(dump: list[tuple[bytes, bytes]], block_rows: int) -> None:
    """Blocks hold 1 to `block_rows` rows under the key of their greatest; each run ends in one tail."""
    for key, value in dump:
        rows = value if key[9:10] == b"\0" else value[4:]
        cut = [rows[offset : offset + 16] for offset in range(0, len(rows), 16)]
        assert len(cut) <= block_rows
        assert all(row < next_row for row, next_row in pairwise(cut))
        if key[9:10] == b"\0":
            assert key[10:] == cut[-1]
        else:
            assert len(key) == 10
    assert {key[:9] for key, _ in dump} == {key[:9] for key, _ in dump if key[9:] == b"\1"}


@pytest.mark.parametrize("block_rows", [1, 2, 3, 4, 61], ids="{} a block".format)
@settings(max_examples=100)
@given(steps=operations)
def test_runs_answer_like_sorted_lists(
    environment: lmdb.Environment, block_rows: int, steps: list[tuple[str, bytes, bytes]]
) -> None:
    with Opened(environment) as opened, patch.object(runs, "BLOCK_ROWS", block_rows):
        model: Model = {prefix: [] for prefix in PREFIXES}
        for name, prefix, row in steps:
            rows, is_member = model[prefix], row in model[prefix]
            if name == "insert":
                assert runs.insert(opened.cursor, prefix, row) is not is_member
                if not is_member:
                    insort(rows, row)
            else:
                assert runs.remove(opened.cursor, prefix, row) is is_member
                if is_member:
                    rows.remove(row)
        check(opened, model, block_rows)


@pytest.mark.parametrize("order", ["ascending", "descending", "random", "inside out"])
@pytest.mark.parametrize("size", [1, 61, 62, 122, 123, 1000], ids="{} rows".format)
def test_long_runs_at_the_real_block_size(environment: lmdb.Environment, order: str, size: int) -> None:
    rows = [list_row(number // 2, number) for number in range(size)]
    inserted = {
        "ascending": rows,
        "descending": rows[::-1],
        "random": random.Random(5).sample(rows, size),
        "inside out": sorted(rows, key=lambda row: abs(rows.index(row) - size // 2)),
    }[order]
    with Opened(environment) as opened:
        prefix = PREFIXES[1]
        for row in inserted:
            assert runs.insert(opened.cursor, prefix, row)
        check_blocks(opened.dump(), runs.BLOCK_ROWS)
        assert runs.rows_newest(opened.cursor, prefix, None) == b"".join(rows)
        for number in sorted({min(near, size - 1) for near in (0, 1, 60, 61, 62, 121, 122, size)}):
            row = rows[number]
            assert runs.below(opened.cursor, prefix, row, 70) == rows[max(0, number - 70) : number][::-1]
            assert runs.above(opened.cursor, prefix, row, 70) == rows[number + 1 : number + 71]
        for row in random.Random(6).sample(rows, size):
            assert runs.remove(opened.cursor, prefix, row)
        assert opened.dump() == []


def test_appends_leave_full_blocks(environment: lmdb.Environment) -> None:
    with Opened(environment) as opened:
        for number in range(200):
            runs.insert(opened.cursor, PREFIXES[0], list_row(number, number))
        sizes = [len(value) // 16 for _, value in opened.dump()]
    assert sizes == [61, 61, 61, 17]


def test_a_row_lands_in_its_place_after_the_tail_was_emptied(environment: lmdb.Environment) -> None:
    with Opened(environment) as opened, patch.object(runs, "BLOCK_ROWS", 2):
        for row in ROWS[:6:2]:
            runs.insert(opened.cursor, PREFIXES[0], row)
        runs.remove(opened.cursor, PREFIXES[0], ROWS[4])  # alone in the tail
        for row in (ROWS[1], ROWS[9], ROWS[8]):
            assert runs.insert(opened.cursor, PREFIXES[0], row)
        expected = [ROWS[0], ROWS[1], ROWS[2], ROWS[8], ROWS[9]]
        assert runs.rows_newest(opened.cursor, PREFIXES[0], None) == b"".join(expected)


@pytest.mark.parametrize("block_rows", [1, 3, 61], ids="{} a block".format)
@given(lists=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 300)), max_size=8, unique_by=lambda pair: pair[0]))
def test_packing_has_the_result_of_inserting_in_order(
    environment: lmdb.Environment, block_rows: int, lists: list[tuple[int, int]]
) -> None:
    entries = [
        (list_prefix(Listing(G, node, Direction.IN)), list_row(number * 3 - 100, number % 7))
        for node, size in sorted(lists)
        for number in range(size)
    ]
    with Opened(environment) as opened, patch.object(runs, "BLOCK_ROWS", block_rows):
        for prefix, row in entries:
            runs.insert(opened.cursor, prefix, row)
        prefixes = np.frombuffer(b"".join(prefix for prefix, _ in entries), np.uint8).reshape(-1, 9)
        rows = np.frombuffer(b"".join(row for _, row in entries), np.uint8).reshape(-1, 16)
        assert list(runs.pack(prefixes, rows)) == opened.dump()


@given(st.integers(POSITION_MIN, POSITION_MAX), st.integers(0, DANA), st.integers(POSITION_MIN, POSITION_MAX))
def test_rows_sort_like_positions_and_ids(position: int, other_end: int, position_too: int) -> None:
    row = list_row(position, other_end)
    assert read_mark(row) == (position, other_end)
    for second in ((position_too, other_end), (position, other_end // 2)):
        assert (row < list_row(*second)) == ((position, other_end) < second)
