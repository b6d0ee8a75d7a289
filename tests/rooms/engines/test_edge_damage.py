"""The embedded store, damaged through its own files: the audit finds it, repair fixes it, writes make it no worse."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run
from edges import OUT, G, edge_of, fill, marks_of, state_of, writes_of

from kith.core.paging import Mark
from kith.engines.embedded import edge_scans, runs
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.keys import list_prefix, list_row, pair_key
from kith.graph.audit import audit
from kith.graph.edge import Direction, State
from kith.graph.shapes import Listing


class Damaged:
    """An embedded store with Alice's list of 130 and a few others, and the means to break it."""

    def __init__(self, opened: tuple[Environment, EmbeddedEdges], run: Run) -> None:
        self.environment, self.store = opened
        self._run = run
        run(self.store.declare(["follows"]))
        self.marks = run(fill(self.store, 130))
        run(self.store.apply(writes_of(edge_of(BOB, CAROL, 1), edge_of(BOB, ALICE, 2, State.ARCHIVED))))
        self.sound = run(state_of(self.store, [ALICE, BOB, CAROL]))

    def unlist(self, listing: Listing, mark: Mark, *, count_too: bool = True) -> None:
        """Take an entry out of a list; the row of the edge stays."""
        with self.environment.lmdb.begin(write=True) as txn:
            cursor, prefix = txn.cursor(self.environment.graph_db(G)), list_prefix(listing)
            before = runs.length(txn, self.environment.graph_db(G), prefix)
            assert runs.remove(cursor, prefix, list_row(*mark))
            if not count_too:
                runs.set_length(cursor, prefix, before)

    def list_ghost(self, listing: Listing, mark: Mark) -> None:
        """Put an entry into a list without a row to match."""
        with self.environment.lmdb.begin(write=True) as txn:
            assert runs.insert(txn.cursor(self.environment.graph_db(G)), list_prefix(listing), list_row(*mark))

    def set_count(self, listing: Listing, count: int) -> None:
        """Store a wrong count."""
        with self.environment.lmdb.begin(write=True) as txn:
            runs.set_length(txn.cursor(self.environment.graph_db(G)), list_prefix(listing), count)

    def lose_tail(self, listing: Listing) -> None:
        """Lose the newest block of a list, and its count with it."""
        with self.environment.lmdb.begin(write=True) as txn:
            assert txn.delete(list_prefix(listing) + b"\1", db=self.environment.graph_db(G))

    def lose_row(self, source: int, destination: int) -> None:
        """Lose the row of an edge; its lists stay."""
        with self.environment.lmdb.begin(write=True) as txn:
            assert txn.delete(pair_key(source, destination), db=self.environment.graph_db(G))

    def state(self) -> dict[str, Any]:
        return self._run(state_of(self.store, [ALICE, BOB, CAROL]))

    def disagreeing(self) -> list[tuple[int, int]]:
        async def scan() -> list[tuple[int, int]]:
            chunks = [chunk async for chunk in self.store.edges(G)]
            return [(ends.edge.source, ends.edge.destination) for chunk in chunks for ends in chunk if not ends.agree]

        return self._run(scan())


@pytest.fixture
def damaged(embedded: tuple[Environment, EmbeddedEdges], run: Run) -> Damaged:
    """A store to break."""
    return Damaged(embedded, run)


@pytest.mark.parametrize("index", [0, 60, 129])
def test_repair_puts_back_an_entry_that_one_list_lost(damaged: Damaged, run: Run, index: int) -> None:
    mark = damaged.marks[index]
    damaged.unlist(OUT, mark)
    assert damaged.disagreeing() == [(ALICE, mark.id)]
    run(damaged.store.repair([edge_of(ALICE, mark.id)]))
    assert damaged.disagreeing() == []
    assert damaged.state() == damaged.sound


def test_the_audit_finds_and_mends_lost_entries_at_both_ends(damaged: Damaged, run: Run) -> None:
    lost = damaged.marks[::13]
    for mark in lost:
        damaged.unlist(OUT, mark)
        damaged.unlist(Listing(G, mark.id, Direction.IN), Mark(mark.position, ALICE))
    report = run(audit(damaged.store, "follows", G))
    assert (report.edges, report.disagreeing, report.repaired) == (132, len(lost), 0)
    assert report.consistent_share == 1 - len(lost) / 132
    run(audit(damaged.store, "follows", G, repair=True))
    assert run(audit(damaged.store, "follows", G)).clean
    assert damaged.state() == damaged.sound


def test_wrong_counts_are_found_and_mended(damaged: Damaged, run: Run) -> None:
    wrong = {OUT: 131, Listing(G, CAROL, Direction.IN): 0}
    for listing, count in wrong.items():
        damaged.set_count(listing, count)
    reported = run(damaged.store.check_counts(G, False))
    assert reported == [(OUT, 131, 130), (Listing(G, CAROL, Direction.IN), 0, 2)]
    assert run(damaged.store.check_counts(G, True)) == reported
    assert run(damaged.store.check_counts(G, False)) == []
    assert damaged.state() == damaged.sound


def test_counts_are_read_while_others_write_and_only_wrong_ones_are_corrected(
    damaged: Damaged, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that writes and reads a whole graph would block every writer for as long."""
    lengths = runs.lengths

    def changing(cursor: runs.RunCursor) -> list[runs.Length]:
        assert threading.current_thread().name != "kith-commits", "this would block all writers"
        all_lengths = list(lengths(cursor))
        monkeypatch.setattr(runs, "lengths", lengths)
        asyncio.run(damaged.store.apply(writes_of(edge_of(CAROL, BOB))))
        return all_lengths

    damaged.set_count(OUT, 131)
    damaged.set_count(Listing(G, CAROL, Direction.OUT), 7)
    monkeypatch.setattr(runs, "lengths", changing)
    assert len(run(damaged.store.check_counts(G, True))) == 2
    assert run(audit(damaged.store, "follows", G)).clean
    assert run(damaged.store.count_many([OUT, Listing(G, CAROL, Direction.OUT)])) == [130, 1]


def test_counts_are_checked_in_short_transactions(damaged: Damaged, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long one would keep all pages that writers free meanwhile. So a list is read as it is when its turn comes."""
    lengths, last = runs.lengths, Listing(G, DANA, Direction.OUT)

    def changing(cursor: runs.RunCursor) -> list[runs.Length]:
        monkeypatch.setattr(runs, "lengths", lengths)
        first_lengths = list(lengths(cursor))
        asyncio.run(damaged.store.apply(writes_of(edge_of(DANA, BOB))))
        damaged.set_count(last, 7)
        return first_lengths

    monkeypatch.setattr(runs, "lengths", changing)
    monkeypatch.setattr(edge_scans, "_SCAN_LISTS", 1)
    assert run(damaged.store.check_counts(G, False)) == [(last, 7, 1)]


@pytest.mark.parametrize("count", [0, 1, 8, 9, 61, 129, 10_000])
def test_a_lost_entry_under_a_wrong_count_is_put_back_in_its_place(damaged: Damaged, run: Run, count: int) -> None:
    """Whatever the stored count is; 8 and 9 are near the length of the tail, which was once derived from the count."""
    damaged.unlist(OUT, damaged.marks[-1])
    damaged.set_count(OUT, count)
    run(audit(damaged.store, "follows", G, repair=True))
    assert run(audit(damaged.store, "follows", G)).clean
    assert damaged.state() == damaged.sound


def test_a_lost_tail_does_not_spoil_the_count_of_the_next_list(damaged: Damaged, run: Run) -> None:
    damaged.lose_tail(OUT)
    assert [row for row in run(damaged.store.check_counts(G, True)) if row[0] != OUT] == []


def test_the_audit_mends_a_lost_tail(damaged: Damaged, run: Run) -> None:
    damaged.lose_tail(OUT)
    run(audit(damaged.store, "follows", G, repair=True))
    assert run(audit(damaged.store, "follows", G)).clean
    assert damaged.state() == damaged.sound


def test_the_audit_finds_and_mends_an_entry_left_in_the_list_of_another_state(damaged: Damaged, run: Run) -> None:
    damaged.list_ghost(OUT._replace(state=State.ARCHIVED), damaged.marks[5])
    report = run(audit(damaged.store, "follows", G, repair=True))
    assert not report.clean
    assert damaged.state() == damaged.sound


def test_the_audit_finds_and_mends_an_entry_left_at_another_position(damaged: Damaged, run: Run) -> None:
    damaged.list_ghost(OUT, Mark(-1, damaged.marks[5].id))
    report = run(audit(damaged.store, "follows", G, repair=True))
    assert not report.clean
    assert damaged.state() == damaged.sound


def test_the_audit_finds_entries_whose_row_is_lost(damaged: Damaged, run: Run) -> None:
    damaged.lose_row(BOB, CAROL)
    assert not run(audit(damaged.store, "follows", G)).clean


def test_a_write_to_a_list_with_a_wrong_count_leaves_it_in_order(damaged: Damaged, run: Run) -> None:
    damaged.set_count(OUT, 1)
    run(damaged.store.apply(writes_of(edge_of(ALICE, 500, START_MS - 1))))
    run(damaged.store.check_counts(G, True))
    assert run(marks_of(damaged.store, OUT)) == [*damaged.marks, Mark(START_MS - 1, 500)]


@pytest.mark.parametrize("count", [0, 1, 2, 129])
@pytest.mark.parametrize("index", [0, 129])
def test_a_removal_from_a_list_with_a_wrong_count_loses_no_other_entry(
    damaged: Damaged, run: Run, count: int, index: int
) -> None:
    removed = damaged.marks[index]
    damaged.set_count(OUT, count)
    run(damaged.store.apply(writes_of(edge_of(ALICE, removed.id, removed.position, State.REMOVED, 1))))
    run(damaged.store.check_counts(G, True))
    assert run(marks_of(damaged.store, OUT)) == [mark for mark in damaged.marks if mark != removed]
    assert run(damaged.store.count_many([OUT])) == [129]
