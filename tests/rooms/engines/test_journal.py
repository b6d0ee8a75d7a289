"""The journal of a store, driven as its writers do: the ring, its bases, and what dead writers leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kith.engines.embedded import journal as journals
from kith.engines.embedded.journal import RING_BYTES, Journal

META = b"meta page"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.journal"


@pytest.fixture
def journal(file: Path) -> Iterator[Journal]:
    """A journal that starts at transaction 10."""
    opened = Journal(file)
    opened.enter()
    opened.begin(10, META, relaxed=False)
    opened.share()
    yield opened
    opened.close()


def chain(journal: Journal) -> list[tuple[int, bytes]]:
    base = journal.adopt_base()
    assert base is not None
    return list(journal.entries(base))


def test_entries_come_back_in_order_also_across_the_end_of_the_ring(journal: Journal) -> None:
    size = RING_BYTES // 5
    for txn in range(11, 60):
        assert journal.append(txn, bytes([txn]) * size)
        if txn % 3 == 0:
            journal.publish(txn - 1, journal.end(txn - 1), META)
            assert chain(journal) == [(txn, bytes([txn]) * size)]
    assert chain(journal) == [(number, bytes([number]) * size) for number in range(57, 60)]


def test_a_full_ring_takes_no_entry_until_a_checkpoint_covers_the_missing_ones(journal: Journal) -> None:
    assert journal.append(11, b"a" * (RING_BYTES // 2))
    assert not journal.append(12, b"b" * (RING_BYTES // 2))
    assert not journal.append(13, b"c"), "nothing after a missing entry can be replayed"
    assert [txn for txn, _ in chain(journal)] == [11]
    journal.publish(13, journal.end(13), META)
    assert journal.append(14, b"d" * (RING_BYTES // 2))
    assert [txn for txn, _ in chain(journal)] == [14]


def test_a_change_larger_than_the_ring_waits_for_a_checkpoint(journal: Journal) -> None:
    assert not journal.append(11, bytes(RING_BYTES))
    journal.publish(11, journal.end(11), META)
    assert journal.append(12, b"small")
    assert chain(journal) == [(12, b"small")]


def test_a_commit_without_an_entry_is_reported_until_a_checkpoint_covers_it(journal: Journal) -> None:
    journal.append(11, b"described")
    before = journal.adopt_base()
    assert before is not None
    assert not journal.lacks_entries(before)
    journal.append(12, None)
    assert journal.lacks_entries(before)
    journal.publish(12, journal.end(12), META)
    after = journal.adopt_base()
    assert after is not None
    assert not journal.lacks_entries(after)


def test_a_commit_without_an_entry_waits_for_a_checkpoint_where_entries_are_not_synced(file: Path) -> None:
    """Otherwise a kill of all processes would lose later writes that were acknowledged."""
    journal = Journal(file, relaxed=True)
    journal.enter()
    journal.begin(10, META, relaxed=True)
    assert journal.append(11, b"described")
    assert not journal.append(12, None)
    assert not journal.append(13, b"described")
    journal.close()


def test_a_refused_transaction_is_not_in_the_chain(journal: Journal) -> None:
    journal.append(11, b"kept")
    journal.append(12, b"refused")
    journal.cancel(12)
    assert chain(journal) == [(11, b"kept")]
    assert journal.append(12, b"the next")
    assert chain(journal) == [(11, b"kept"), (12, b"the next")]


@pytest.mark.parametrize("payload", [b"b", b"of a writer that lives", b"x" * 500])
def test_the_entry_of_a_writer_that_was_killed_before_its_commit_is_replaced(
    journal: Journal, file: Path, payload: bytes
) -> None:
    journal.append(11, b"kept")
    journal.append(12, b"of a writer that was killed")
    other = Journal(file)
    assert not other.enter()
    assert other.append(12, payload)
    assert other.append(13, b"after it")
    assert chain(other) == [(11, b"kept"), (12, payload), (13, b"after it")]
    other.close()


def test_entries_from_before_a_restart_of_the_journal_are_in_no_chain(journal: Journal) -> None:
    journal.append(11, b"old")
    journal.append(12, b"old")
    journal.begin(10, META, relaxed=False)
    assert chain(journal) == []
    journal.append(11, b"new")
    assert chain(journal) == [(11, b"new")]


def test_a_damaged_entry_ends_the_chain(journal: Journal, file: Path) -> None:
    for txn in (11, 12, 13):
        journal.append(txn, b"%d" % txn * 50)
    flip(file, journals._RING_AT + 24 + 100 + 24 + 50)
    assert [txn for txn, _ in chain(journal)] == [11]


@pytest.mark.parametrize("slot", [1, 2])
def test_one_damaged_base_of_a_settled_journal_is_no_loss(journal: Journal, file: Path, slot: int) -> None:
    journal.append(11, b"entry")
    journal.publish(11, journal.end(11), META)
    journal.settle(lambda: 11)
    flip(file, slot * journals._SLOT + 3)
    base = journal.adopt_base()
    assert base is not None
    assert (base.txn, base.start) == (11, 0)


def test_a_journal_is_not_settled_behind_the_store_or_while_others_have_it_open(journal: Journal, file: Path) -> None:
    journal.append(11, b"entry")
    journal.settle(lambda: 11)
    assert chain(journal) == [(11, b"entry")]
    journal.share()
    other = Journal(file)
    other.enter()
    other.publish(11, other.end(11), META)
    other.settle(lambda: 11)
    base = journal.adopt_base()
    assert base is not None
    assert base.start > 0
    other.close()


@pytest.mark.parametrize("content", [b"", b"\0" * 100, os.urandom(1 << 19)], ids=["empty", "zeroes", "noise"])
def test_a_file_that_is_no_journal_has_no_base(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    journal = Journal(file)
    assert journal.enter()
    assert journal.adopt_base() is None
    journal.close()


class Syncs:
    """Counts syncs, or lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.failing = 0, False
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, _: int) -> None:
        self.count += 1
        if self.failing:
            raise OSError(5, "Input/output error")


def test_a_process_with_full_durability_syncs_beside_relaxed_ones(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relaxed, full = Journal(file, relaxed=True), Journal(file)
    relaxed.enter()
    relaxed.begin(10, META, relaxed=True)
    relaxed.share()
    full.enter()
    syncs = Syncs(monkeypatch)
    assert relaxed.append(11, b"entry")
    assert syncs.count == 0
    assert full.append(12, b"entry")
    assert syncs.count == 1
    relaxed.close()
    full.close()


def test_after_a_failed_sync_of_a_base_all_must_reopen_the_store(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise processes would read a base that is not on the disk."""
    journal.append(11, b"entry")
    syncs = Syncs(monkeypatch)
    syncs.failing = True
    with pytest.raises(OSError, match="Input/output"):
        journal.publish(11, journal.end(11), META)
    assert journal.store_failed


def test_the_base_of_a_process_that_died_before_its_sync_is_synced_by_its_reader(
    journal: Journal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Journal(file)
    other.enter()
    journal.append(11, b"entry")
    journal.publish(11, journal.end(11), META)
    syncs = Syncs(monkeypatch)
    other.adopt_base()
    assert syncs.count == 1
    other.adopt_base()
    assert syncs.count == 1
    other.close()


def test_an_entry_that_could_not_be_synced_is_not_in_the_chain(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(11, b"kept")
    syncs = Syncs(monkeypatch)
    syncs.failing = True
    with pytest.raises(OSError, match="Input/output"):
        journal.append(12, b"refused")
    assert chain(journal) == [(11, b"kept")]


def flip(file: Path, offset: int) -> None:
    """Damage one byte."""
    raw = bytearray(file.read_bytes())
    raw[offset] ^= 0x55
    file.write_bytes(raw)
