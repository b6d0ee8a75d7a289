"""The log holds everything: a store rebuilt from the log alone equals the store that wrote it, row by row."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from cast import START_MS
from edges import edge_of
from store_copies import copy_store
from store_histories import StoreHistory, content, joined

from kith.core.clock import hlc_of
from kith.core.errors import Conflict, StoreMismatch
from kith.core.events import Event
from kith.engines.embedded import rebuild as rebuilding
from kith.engines.embedded import runs, segments, sorted_changes
from kith.engines.embedded.changes import announced, edge_changed, note_changed, record_changed
from kith.engines.embedded.environment import LOG_WHOLE_AFTER, Environment
from kith.engines.embedded.event_log import LogWriter, bounds, newest_version, read_logged
from kith.engines.embedded.rebuild import rebuild
from kith.engines.embedded.record_store import every_record
from kith.engines.embedded.retention import LogBounds, Retention
from kith.engines.embedded.sorted_changes import apply_events
from kith.records.store import Record, RecordKind

_HISTORIES, _STEPS = 12, 250
_CLAIMS = (128, 129)
_COMPUTED = {b"suggestions"}
"""Databases of computed data, which the log does not hold."""


def kept(opened: Environment) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Every row that the rebuilt store must have. Of the log only the events: which events share a row may differ."""
    found = {name: rows for name, rows in content(opened).items() if name not in _COMPUTED}
    found[b"meta"] = [(key, note) for key, note in found[b"meta"] if key != b"format"]
    del found[b"log-open"]
    with opened.lmdb.begin() as txn:
        events = [
            (str(event.sequence).encode(), event.logged_ms + event.change)
            for event in read_logged(txn, opened.log, 0, 10**9)
        ]
        found[b"log"] = [*events, (b"newest", str(newest_version(txn, opened.log)).encode())]
    found[b"objects"] = [(key, row) for key, row in found[b"objects"] if key[0] not in _CLAIMS]
    return found


def last_of(opened: Environment) -> int:
    """The sequence number of the last event."""
    with opened.lmdb.begin() as txn:
        return bounds(txn, opened.log)[1]


@pytest.mark.parametrize(("few", "bytes_a_segment"), [(10**9, 2_000), (0, 2_000), (0, 1 << 20)])
def test_a_store_rebuilt_from_the_log_alone_equals_the_one_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, bytes_a_segment: int
) -> None:
    """Events applied one by one give the same bytes. Applied in the order of keys they give the same lists."""
    monkeypatch.setattr(rebuilding, "BYTES_A_SEGMENT", bytes_a_segment)
    monkeypatch.setattr(sorted_changes, "FEW", few)
    compared = (lambda found: found) if few else joined
    for seed in range(_HISTORIES):
        with Environment(tmp_path / f"{seed}") as source, Environment(tmp_path / f"{seed}-again") as target:
            history = StoreHistory(source, seed, repairs=False)
            try:
                for _ in range(random.Random(seed).randrange(_STEPS)):
                    history.step()
                rebuild(source, target)  # the events so far
                for _ in range(20):
                    history.step()
                rebuild(source, target)  # resumes
                assert compared(kept(target)) == compared(kept(source)), f"history {seed}"
                check_lists(target)
                assert rebuild(source, target) == 0
            finally:
                history.close()


def check_lists(opened: Environment) -> None:
    """Check that every list has as many entries as its tail says, in order, and that no block has too many."""
    with opened.lmdb.begin() as txn:
        for number in opened.graph_numbers().values():
            cursor = txn.cursor(opened.graph_db(number))
            assert all(stored == real for _, stored, real in runs.lengths(cursor))
            entries = []
            for key, block in runs.blocks(txn.cursor(opened.graph_db(number)), b""):
                assert len(block) <= runs.BLOCK_ROWS * runs.ROW
                entries += [key[:9] + block[at : at + runs.ROW] for at in range(0, len(block), runs.ROW)]
            assert entries == sorted(set(entries))


def test_an_event_that_adds_an_existing_edge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_changes, "FEW", 0)
    with Environment(tmp_path / "one") as one:
        one.declare(["follows"])
        event = edge_changed(None, edge_of(1, 2))
        with one.commit() as write:
            sorted_changes.apply_events(write.txn, [event], one.rows, one.graph_db)
        before = content(one)
        with pytest.raises(StoreMismatch, match="is new"), one.commit() as write:
            sorted_changes.apply_events(write.txn, [edge_changed(None, edge_of(1, 1)), event], one.rows, one.graph_db)
        assert content(one) == before


def test_a_store_with_its_own_events_cannot_be_rebuilt_from_another(tmp_path: Path) -> None:
    with Environment(tmp_path / "one") as one, Environment(tmp_path / "other") as other:
        for opened, seed in ((one, 1), (other, 2)):
            history = StoreHistory(opened, seed, repairs=False)
            for _ in range(30):
                history.step()
            history.close()
        before = kept(other)
        with pytest.raises(Conflict, match="events of its own"):
            rebuild(one, other)
        assert kept(other) == before


def test_a_rebuild_from_an_incomplete_log_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    with Environment(tmp_path / "source") as source, Environment(tmp_path / "target") as target:
        history = StoreHistory(source, 3, repairs=False)
        for _ in range(30):
            history.step()
        history.close()
        source.put_note(LOG_WHOLE_AFTER, b"7")
        with pytest.raises(Conflict, match=r"after event 7 only.*restore a backup"):
            rebuild(source, target)
        assert kept(target)[b"log"] == [(b"newest", b"0")]


def test_a_backup_brought_up_to_date_has_the_positions_and_keys_of_the_store(tmp_path: Path) -> None:
    with Environment(tmp_path / "source") as source:
        history = StoreHistory(source, 4, repairs=False)
        for _ in range(30):
            history.step()
        source.put_note("server-key/of-a-server-that-was-let-go", b"1")
        copy_store(source, tmp_path / "backup")
        source.put_note("server-key/of-a-server-that-was-let-go", None)
        source.put_note("server-key/of-today", b"1")
        for _ in range(30):
            history.step()
        history.close()
        last = last_of(source)
        with Environment(tmp_path / "backup") as backup:
            backup.begin_history()
            assert not backup.positions.covers(backup.positions.of(last), source.positions.of(last)), (
                "the backup lacks this event"
            )
            rebuild(source, backup)
            assert backup.positions.of(last) == source.positions.of(last)
            assert kept(backup) == kept(source)


def test_a_segment_may_be_repeated_but_a_damaged_or_early_one_is_refused(tmp_path: Path) -> None:
    with Environment(tmp_path / "source") as source, Environment(tmp_path / "target") as target:
        history = StoreHistory(source, 6, repairs=False)
        for _ in range(60):
            history.step()
        first = segments.pack(segments.next_segment(source, 0, 500))
        middle = segments.replay(target, segments.unpack(first, "first"))
        second = segments.pack(segments.next_segment(source, middle, 1 << 20))
        history.close()
        with (
            Environment(tmp_path / "empty") as empty,
            pytest.raises(Conflict, match=f"events 1 to {middle} are missing"),
        ):
            segments.replay(empty, segments.unpack(second, "second"))
        for raw in (first, second, first, second):
            segments.replay(target, segments.unpack(raw, "again"))
        assert kept(target) == kept(source)
    for at in random.Random(7).sample(range(len(second)), 50):
        altered = bytearray(second)
        altered[at] ^= 1 + at % 255
        with pytest.raises(StoreMismatch, match="increment 2"):
            segments.unpack(bytes(altered), "increment 2")
        with pytest.raises(StoreMismatch, match="increment 2"):
            segments.unpack(second[:at], "increment 2")


def test_a_rebuild_fails_if_the_server_deletes_events_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "BYTES_A_SEGMENT", 0)
    with Environment(tmp_path / "source") as source, Environment(tmp_path / "target") as target:
        history = StoreHistory(source, 5, repairs=False)
        while last_of(source) < 200:
            history.step()
        history.close()

        def forget(done: int) -> None:
            with source.commit() as write:
                writer = LogWriter(write.txn, source.log)
                writer.append(note_changed("another", b"1"))
                writer.flush()
                Retention(LogBounds(50), source.log, source.notes_db).forget(write.txn, writer.last, 0)

        with pytest.raises(Conflict, match="events that were forgotten"):
            rebuild(source, target, forget)


def test_unknown_events_and_fields_of_a_newer_kith_are_kept(tmp_path: Path) -> None:
    """Events of unknown kinds and unknown fields of records: a rebuild, like a standby, keeps their bytes."""
    post, version = 7, hlc_of(START_MS)
    unknown = announced(Event(1, None, 200, 5, 6, 7, version)) + b"what only that one reads"
    record = Record(RecordKind.POST, post, version, msgspec.msgpack.encode([post, "fields", {"of": "tomorrow"}]))
    with Environment(tmp_path / "source") as source, Environment(tmp_path / "target") as target:
        with source.commit() as write:
            writer = LogWriter(write.txn, source.log, START_MS)
            for event in (unknown, record_changed(record)):
                writer.append(event)
            apply_events(write.txn, [unknown, record_changed(record)], source.rows, source.graph_db)
            writer.flush()
        rebuild(source, target)
        assert kept(target) == kept(source)
        (found,) = every_record(target, RecordKind.POST)
        assert found == record
