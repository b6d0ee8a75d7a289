"""A log that ends in the middle of an event, and one of a newer Kith: a clear error, and nothing is built from it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from coroutines import Run
from edges import edge_of, writes_of
from embedded_engine import open_embedded

from kith.core.errors import StoreMismatch
from kith.engines.embedded import segments
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_rows import EVENTS_PER_ROW
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.rebuild import rebuild

Damage = Callable[[bytes], bytes]


def damaged(folder: Path, run: Run, damage: Damage, row_number: int) -> None:
    """Make a store of some follows, and damage a row of its log."""
    with open_embedded(folder) as (environment, store):
        run(store.declare(["follows"]))
        for at in range(0, 100, 10):
            run(store.apply(writes_of(*(edge_of(1 + at, 10_000 + number) for number in range(10)))))
    with Environment(folder) as environment, environment.lmdb.begin(write=True) as txn:
        if row_number < 0:  # the open row, behind its number
            ((key, row),) = txn.cursor(environment.log.open)
            txn.put(key, row[:8] + damage(row[8:]), db=environment.log.open)
        else:
            key, row = list(txn.cursor(environment.log.closed))[row_number]
            txn.put(key, damage(row), db=environment.log.closed)


def cut(row: bytes) -> bytes:
    return row[:-17]


def newer(row: bytes) -> bytes:
    """The row in a form that is not known yet."""
    return row[:8] + b"\x63" + row[9:]


def garbled(row: bytes) -> bytes:
    return row[:12] + random.Random(3).randbytes(len(row) - 12)


@pytest.mark.parametrize("row_number", [0, -1])
@pytest.mark.parametrize("damage", [cut, newer])
def test_a_row_that_is_cut_or_of_a_newer_kith_is_an_error_for_all_readers(
    tmp_path: Path, run: Run, damage: Damage, row_number: int
) -> None:
    damaged(tmp_path / "data", run, damage, row_number)
    says = "newer Kith" if damage is newer else "damaged"
    with open_embedded(tmp_path / "data") as (environment, store), Environment(tmp_path / "again") as target:
        log = EmbeddedLog(environment, store._commits)
        with pytest.raises(StoreMismatch, match=says):
            run(log.read(environment.positions.of(0), 1_000))
        with pytest.raises(StoreMismatch, match=says):
            rebuild(environment, target)
        assert segments.last_event(target) == 0


def test_a_deflated_row_whose_bytes_changed_is_an_error(tmp_path: Path, run: Run) -> None:
    damaged(tmp_path / "data", run, garbled, 0)
    with open_embedded(tmp_path / "data") as (environment, store), pytest.raises(StoreMismatch, match="damaged"):
        run(EmbeddedLog(environment, store._commits).read(environment.positions.of(0), 1_000))


def test_an_append_to_a_row_that_is_cut_is_refused_and_writes_nothing(tmp_path: Path, run: Run) -> None:
    damaged(tmp_path / "data", run, cut, -1)
    with open_embedded(tmp_path / "data") as (_, store):
        with pytest.raises(StoreMismatch, match="damaged"):
            run(store.apply(writes_of(edge_of(5, 6))))
        assert run(store.exists_many(1, [(5, 6)])) == [False]


def test_a_log_whose_open_row_is_gone_overwrites_no_closed_row(tmp_path: Path, run: Run) -> None:
    damaged(tmp_path / "data", run, cut, 0)
    with Environment(tmp_path / "data") as environment, environment.lmdb.begin(write=True) as txn:
        txn.drop(environment.log.open, delete=False)
    with open_embedded(tmp_path / "data") as (environment, store):
        with pytest.raises(StoreMismatch, match="behind its open one"):
            run(store.apply(writes_of(*(edge_of(7, 20_000 + number) for number in range(EVENTS_PER_ROW)))))
        assert segments.last_event(environment) == 0
