"""How much the log, and the tables beside it, may hold, on a primary and its standbys."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from edges import edge_of, writes_of
from store_copies import copy_store

from kith.core.clock import Hlc, wall_ms
from kith.core.errors import Conflict
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_rows import EVENTS_PER_ROW
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.retention import LEASE_PREFIX, LogBounds, Retention, lease_row
from kith.records.store import Claim, Record, RecordKind

CLAIM_ROWS = (128, 129)
A_DAY_MS = 86_400_000


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Environment]:
    with Environment(tmp_path / "primary", durability="relaxed") as environment:
        environment.declare(["follows"])
        yield environment


def standby_of(primary: Environment, folder: Path) -> Environment:
    copy_store(primary, folder)
    with Environment(folder, create=False) as store:
        store_role.close_to_writes(store, ClosedNote("standby", "http://primary"))
        store.sync()
    return Environment(folder, create=False, follows=True, durability="relaxed")


@pytest.mark.parametrize(("data_bytes", "together"), [(400, 200), (2_000, 50), (0, 200)])
def test_a_log_of_events_with_data_keeps_its_bounds(primary: Environment, data_bytes: int, together: int) -> None:
    """Rows with data hold few events each, so there are many rows."""
    bounds = LogBounds(events_max=500, bytes_max=1 << 20)
    commits = CommitQueue(primary, log_bounds=bounds)
    records, log = EmbeddedRecords(primary, commits), EmbeddedLog(primary, commits)

    async def write() -> None:
        for turn in range(20):
            ids = range(turn * together, (turn + 1) * together)
            records_made = [Record(RecordKind.POST, id_, Hlc(1_000_000 + id_), os.urandom(data_bytes)) for id_ in ids]
            await asyncio.gather(*(records.put([record]) for record in records_made))

    asyncio.run(write())
    first, last = log.bounds()
    commits.close()
    assert last == 20 * together
    assert last - first + 1 <= bounds.events_max + 2 * together
    assert Retention(bounds, primary.log, primary.notes_db).size(primary.lmdb.begin()) <= 2 * bounds.bytes_max


def test_a_standby_forgets_expired_claims(
    primary: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = CommitQueue(primary)
    records, now_ms = EmbeddedRecords(primary, commits), 1_800_000_000_000
    monkeypatch.setattr(segments, "wall_ms", lambda: now_ms)

    async def claim(count: int) -> None:
        claims = [Claim(os.urandom(16), b"a value", now_ms, 1_000) for _ in range(count)]
        await asyncio.gather(*(records.put([], claim=taken_claim) for taken_claim in claims))

    def rows(store: Environment) -> int:
        with store.lmdb.begin(store.records) as txn:
            return sum(key[0] in CLAIM_ROWS for key in txn.cursor().iternext(values=False))

    with standby_of(primary, tmp_path / "standby") as standby:
        keep = Retention(LogBounds(), standby.log, standby.notes_db)
        for _ in range(10):
            asyncio.run(claim(50))
            while (replayed := segments.last_event(standby)) < segments.last_event(primary):
                segments.replay(standby, segments.next_segment(primary, replayed, 1 << 18), retention=keep)
            assert rows(standby) <= 200, "two rows for each live claim, and for each of the last ones"
            now_ms += A_DAY_MS
        rows_kept = rows(standby)
    with Environment(tmp_path / "standby", create=False, follows=True) as reopened:
        assert rows(reopened) == rows_kept
    commits.close()


def test_a_diverged_store_is_refused_where_the_log_begins_right_after_it(tmp_path: Path) -> None:
    """The last event that both have was dropped, so it cannot be compared."""
    with Environment(tmp_path / "primary") as primary, Environment(tmp_path / "other") as other:
        for store, source, keep in ((primary, 1, LogBounds(events_max=30)), (other, 2, LogBounds())):
            store.declare(["follows"])
            commits = CommitQueue(store, log_bounds=keep)
            edges = EmbeddedEdges(store, commits)
            for number in range(28 if store is other else 70):
                asyncio.run(edges.apply(writes_of(edge_of(source, 1_000 + number))))
            commits.close()
        first, _ = EmbeddedLog(primary, commits).bounds()
        assert first == segments.last_event(other) + 1
        with pytest.raises(Conflict):
            segments.replay(other, segments.next_segment(primary, segments.last_event(other), 1 << 20))


def test_the_last_event_of_a_standby_is_kept_for_it(primary: Environment) -> None:
    """The standby compares it with its own last event, and a row of the log may end with it."""
    commits = CommitQueue(primary, log_bounds=LogBounds(events_max=30))
    edges = EmbeddedEdges(primary, commits)
    for number in range(100):
        asyncio.run(edges.apply(writes_of(edge_of(1, 1_000 + number))))
        if number == EVENTS_PER_ROW:
            primary.put_note(f"{LEASE_PREFIX}standby", lease_row(EVENTS_PER_ROW, wall_ms()))
    commits.close()
    assert segments.last_event(primary) == 100
    assert segments.next_segment(primary, EVENTS_PER_ROW, 1 << 20).after == EVENTS_PER_ROW
