"""The commit thread continues, or reports that it cannot, whatever fails around a commit."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from coroutines import Run

from kith.core.errors import NotPrimary, StoreUnavailable
from kith.engines.embedded import commits, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.journal import RING_BYTES
from kith.engines.embedded.retention import LogBounds
from kith.engines.embedded.transaction import Transaction

HOUR_MS = 3_600_000
WITHIN_S = 10.0


def test_a_store_closed_to_writes_drops_no_events_and_refuses_writes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the log has a maximum age, each process checks for expired events while nothing is written."""
    monkeypatch.setattr(commits, "_IDLE_CHECK_S", 0.02)
    checked = threading.Event()

    with Environment(tmp_path) as store:
        store.declare(["follows"])
        queue = CommitQueue(store, log_bounds=LogBounds(age_ms_max=HOUR_MS))
        store_role.close_to_writes(store, ClosedNote("fenced", "http://other", 7))
        is_due = queue.retention.due

        def noticed(now_ms: int) -> bool:
            checked.set()
            return is_due(now_ms)

        monkeypatch.setattr(queue.retention, "due", noticed)
        for _ in range(3):
            checked.clear()
            assert checked.wait(WITHIN_S)
        with pytest.raises(NotPrimary):
            run(asyncio.wait_for(queue.run(lambda batch: None), WITHIN_S))
        queue.close()


def test_large_writes_that_waited_together_are_durable_before_a_read_sees_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one commit they would exceed the journal, so only a checkpoint after the commit would make them durable."""
    late: list[None] = []
    wait = threading.Event()

    async def write_together(queue: CommitQueue) -> None:
        first = asyncio.create_task(queue.run(lambda batch: wait.wait(WITHIN_S)))
        large = [queue.run(lambda batch, key=key: _put_large(batch, key)) for key in range(12)]
        together = asyncio.gather(first, *large)
        await asyncio.sleep(0)  # until all of them wait
        wait.set()
        assert await together == [True, *range(12)]

    with Environment(tmp_path) as store:
        queue = CommitQueue(store)
        monkeypatch.setattr(store._checkpoints, "make", lambda: late.append(None))
        run(write_together(queue))
        assert sorted(store.notes("large/")) == sorted(map(str, range(12)))
        assert not late
        queue.close()


def _put_large(batch: Transaction, key: int) -> int:
    batch.put_note(f"large/{key}", bytes(RING_BYTES // 5))
    return key


def test_a_failure_around_a_commit_is_reported_and_the_process_is_replaced(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "PAUSED_S", 0.05)
    replaced = threading.Event()

    def defect() -> None:
        raise ValueError("a defect")

    with Environment(tmp_path) as store:
        queue = CommitQueue(store, on_pause=defect, on_fatal=replaced.set)
        with pytest.raises(StoreUnavailable):
            run(asyncio.wait_for(queue.run(lambda batch: time.sleep(0.1)), WITHIN_S))
        assert replaced.wait(WITHIN_S)
        assert queue.failed
        with pytest.raises(StoreUnavailable):
            run(asyncio.wait_for(queue.run(lambda batch: None), WITHIN_S))
        queue.close()
