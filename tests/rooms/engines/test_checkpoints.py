"""The thread that makes checkpoints."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lmdb
import pytest
from servers import eventually

from kith.core.errors import StoreUnavailable
from kith.engines.embedded import checkpoints
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.journal import RING_BYTES
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.transaction import Transaction


def test_closing_a_process_just_as_a_checkpoint_begins_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close` sets its two events at the worst moment: after one was last checked, before the other is cleared."""
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 0.0)
    environment = Environment(tmp_path / "data")
    checkpoints_of_process = environment._checkpoints  # this moment cannot be hit from outside
    wakes = _Waking(checkpoints_of_process)
    monkeypatch.setattr(checkpoints_of_process, "_uncovered", wakes)
    environment.put_note("a write", b"1")
    assert wakes.cleared.wait(10)
    closing = threading.Thread(target=environment.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


def test_many_changes_do_not_wait_for_the_interval_so_freed_pages_are_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)

    def rewrite(batch: Transaction) -> int:
        for number in range(checkpoints.CHANGES_MAX):
            batch.put_note(f"note {number}", bytes(300))
        return batch.txn.id()

    async def write(environment: Environment, commits: CommitQueue) -> int:
        answer = await commits.run(rewrite)
        async with asyncio.timeout(10):
            while _base(environment) < answer:  # noqa: ASYNC110
                await asyncio.sleep(0)
        return environment.bytes_used()

    async def rounds(environment: Environment, commits: CommitQueue) -> list[int]:
        return [await write(environment, commits) for _ in range(12)]

    with Environment(tmp_path / "data") as environment:
        commits = CommitQueue(environment)
        bytes_used = asyncio.run(rounds(environment, commits))
        commits.close()
    a_round = bytes_used[1] - bytes_used[0]
    assert bytes_used[-1] - bytes_used[0] <= 4 * a_round, bytes_used  # 11, if no page were reused


def test_a_write_after_a_pause_syncs_the_commits_of_others_while_they_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)
    with Environment(tmp_path / "data") as environment, _other_process(tmp_path / "data") as other:
        other.write()
        _slow_down(environment, other.write)
        environment.put_note("a write", b"1")
        environment.put_note("a write", b"2")  # which needs no sync any more
        assert other.written == 2


def test_commits_that_another_process_has_synced_are_not_synced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "YIELD_S", 3_600.0)
    with _other_process(tmp_path / "data") as other:
        with Environment(tmp_path / "data") as environment:
            syncs: list[None] = []
            _slow_down(environment, lambda: syncs.append(None))
            environment.put_note("a write", b"1")
            other.write()
            other.sync()
            last_commit = environment.last_commit()
        assert not syncs
        assert other.base() >= last_commit


def test_a_process_waits_for_the_next_sync_of_one_that_syncs_regularly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _other_process(tmp_path / "data") as other:
        with Environment(tmp_path / "data") as environment:
            other.write()
            other.sync()
            syncs: list[None] = []
            _slow_down(environment, lambda: syncs.append(None))
            due_event = _Due(other)
            monkeypatch.setattr(environment._checkpoints, "_due", due_event)
            environment.put_note("a write", b"1")
            last_commit = environment.last_commit()
            eventually(lambda: len(due_event.waits_s) > 1 and _base(environment) >= last_commit)
        assert not syncs, "one process syncs for all"
    assert sum(due_event.waits_s[:2]) <= 0.25, "a base is made several times a second"


def test_commits_that_no_other_process_synced_in_time_are_synced_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "YIELD_S", 0.01)
    with _other_process(tmp_path / "data") as other, Environment(tmp_path / "data") as environment:
        synced = threading.Event()
        _slow_down(environment, synced.set)
        environment.put_note("a write", b"1")
        other.write()
        assert synced.wait(10)


def test_a_checkpoint_releases_its_turn_while_the_store_is_copied(tmp_path: Path) -> None:
    """LMDB cannot abort a transaction while another thread copies the store, as for a standby that reads slowly."""
    with Environment(tmp_path / "data") as environment, _other_process(tmp_path / "data") as other:
        environment.put_note("large", bytes(1 << 20))  # more than a pipe holds
        reads, writes = os.pipe()
        copying = threading.Thread(target=_copy, args=(environment, writes), daemon=True)
        copying.start()
        try:
            assert select.select([reads], [], [], 10)[0]
            syncing = threading.Thread(target=environment.sync, daemon=True)
            syncing.start()
            syncing.join(5)
            assert not syncing.is_alive()
            other.write()
        finally:
            os.close(reads)  # which ends the copy
            copying.join(10)


def test_after_a_sync_that_failed_no_thread_makes_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a failed page write only once, so the next sync of the same file seems to succeed."""
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)
    with Environment(tmp_path / "data") as environment:
        environment.put_note("a write", b"1")
        failures = [lmdb.Error("mdb_env_sync: Input/output error")]
        _slow_down(environment, lambda: _raise(failures.pop()) if failures else None)
        base = _base(environment)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                environment.sync()
        assert environment.broken
        assert _base(environment) == base


def test_the_journal_is_never_synced_by_two_threads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads that sync one file, either may get the error for what the other wrote."""
    with Environment(tmp_path / "data") as environment, _other_process(tmp_path / "data") as other:
        environment.put_note("a write", b"1")
        other.write()
        other.sync()
        other.write()
        alone, sync = list[bool](), os.fdatasync

        def noted(descriptor: int) -> None:
            alone.append(environment._turns._lock.locked())
            sync(descriptor)

        monkeypatch.setattr(os, "fdatasync", noted)
        environment.put_note("a write", b"2")
        environment.sync()
        assert alone
        assert all(alone)


def _copy(environment: Environment, to: int) -> None:
    with contextlib.suppress(lmdb.Error, OSError):  # the reader is gone
        environment.lmdb.copyfd(to)
    os.close(to)


def _raise(error: Exception) -> None:
    raise error


def _slow_down(environment: Environment, meanwhile: Callable[[], object]) -> None:
    """Call `meanwhile` each time the process syncs its store for a checkpoint."""
    checkpoints_of_process = environment._checkpoints
    checkpoints_of_process._store = _SlowStore(checkpoints_of_process._store, meanwhile)  # type: ignore[assignment]


class _SlowStore:
    def __init__(self, store: Any, meanwhile: Callable[[], object]) -> None:
        self._store, self._meanwhile = store, meanwhile

    def sync(self, force: bool) -> None:
        self._meanwhile()
        self._store.sync(force)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _OtherProcess:
    """Another process with the same store open, which makes no checkpoint unless it is asked to."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self.written = connection, 0

    def write(self) -> None:
        """Have it commit a change."""
        self.written += 1
        self._ask("write")

    def sync(self) -> None:
        """Have it make a checkpoint."""
        self._ask("sync")

    def base(self) -> int:
        """The transaction of the last checkpoint."""
        return self._ask("base")

    def _ask(self, request: str) -> int:
        self._connection.send(request)
        assert self._connection.poll(10), "it waits for a turn that is never released"
        return int(self._connection.recv())


@contextmanager
def _other_process(folder: Path) -> Iterator[_OtherProcess]:
    context = multiprocessing.get_context("spawn")
    near_end, far_end = context.Pipe()
    process = context.Process(target=_serve_requests, args=(folder, far_end))
    process.start()
    far_end.close()
    assert near_end.poll(30)
    assert near_end.recv() == 0
    try:
        with near_end:
            yield _OtherProcess(near_end)
    finally:
        process.join(30)
        process.kill()


def _serve_requests(folder: Path, connection: Connection) -> None:
    checkpoints.INTERVAL_S = 3_600.0
    with Environment(folder) as environment:
        connection.send(0)
        while True:
            try:
                request = connection.recv()
            except EOFError:
                return
            if request == "write":
                environment.put_note("another write", b"1")
            elif request == "sync":
                environment.sync()
            connection.send(_base(environment))


def _base(environment: Environment) -> int:
    base = environment.journal.adopt_base()
    assert base is not None
    return base.txn


class _Due(threading.Event):
    """Lets no time pass. Another process commits when the first wait ends, and syncs the commit within its interval."""

    def __init__(self, other: _OtherProcess) -> None:
        super().__init__()
        self._other, self.waits_s = other, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits_s.append(timeout)
        if len(self.waits_s) == 1:
            self._other.write()
        elif timeout > checkpoints.INTERVAL_S:
            self._other.sync()
        return self.is_set()


class _Waking(threading.Event):
    """Behaves as if `close` had set it once more directly before it is cleared."""

    def __init__(self, checkpoints_of_process: checkpoints.Checkpoints) -> None:
        super().__init__()
        self._checkpoints_of_process, self.cleared = checkpoints_of_process, threading.Event()

    def clear(self) -> None:
        self._checkpoints_of_process._closing.set()
        super().clear()
        self.cleared.set()


@pytest.mark.parametrize("commit", ["no changes", "the removal of a missing note", "the release of a missing lease"])
def test_a_process_that_committed_nothing_keeps_no_old_pages(tmp_path: Path, commit: str) -> None:
    """As after a follow that exists already. A pin that stays keeps all pages that others free from then on."""
    with Environment(tmp_path / "data") as environment:
        environment.put_note("a write", b"1")
        environment.sync()
        if commit == "no changes":
            with environment.commit() as write:
                write.changes = b""
        elif commit == "the removal of a missing note":
            environment.put_note("missing", None)
        else:
            commits = CommitQueue(environment)
            asyncio.run(EmbeddedLog(environment, commits).release("missing"))
            commits.close()
        eventually(lambda: environment._checkpoints._pin is None)


@pytest.mark.parametrize("before", ["a full ring", "a commit without an entry"])
def test_a_commit_is_durable_before_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Otherwise a reader could pass on what a power cut takes back. A change larger than the ring is the exception."""
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)
    with Environment(tmp_path / "data") as environment:
        environment.put_note("a write", b"1")
        if before == "a full ring":
            for number in range(4):
                environment.put_note(f"a large one {number}", bytes(RING_BYTES // 5))
        else:
            with environment.commit() as write:
                write.txn.put(b"not described", b"1", db=environment.notes_db)
        late: list[None] = []
        monkeypatch.setattr(environment._checkpoints, "make", lambda: late.append(None))
        for number in range(20):
            environment.put_note(f"the next {number}", bytes(RING_BYTES // 5))
            base = environment.journal.adopt_base()
            assert base is not None
            chain = [txn for txn, _ in environment.journal.entries(base)]
            assert environment.last_commit() in (base.txn, *chain)
        assert not late
