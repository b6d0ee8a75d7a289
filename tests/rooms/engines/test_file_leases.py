"""What the leases of one machine do beyond their port: a process that ends, however it does, frees its leases."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from coroutines import run_coroutine

from kith.engines.embedded.file_leases import FOLDER, FileLeases
from kith.leases.store import Lease


async def acquire(folder: Path, name: str = "a job") -> Lease | None:
    """The lease that another store over the folder gets; it is not released."""
    return await FileLeases(folder).acquire(name, "another", 1.0)


def hold(folder: Path, holds: Event) -> None:
    """A process that holds a lease until it is killed."""
    assert run_coroutine(acquire(folder)) is not None
    holds.set()
    signal.pause()


def test_a_killed_process_frees_its_lease_and_a_paused_one_does_not(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    holds = context.Event()
    process = context.Process(target=hold, args=(tmp_path, holds))
    process.start()
    assert process.pid is not None
    assert holds.wait(30)
    os.kill(process.pid, signal.SIGSTOP)
    assert run_coroutine(acquire(tmp_path)) is None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert run_coroutine(acquire(tmp_path)) is not None


def test_tokens_grow_where_the_clock_goes_back_and_where_they_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = []
    for name, now_ns in enumerate((7_000, 6_000, 6_000, 9_000)):
        monkeypatch.setattr(time, "time_ns", lambda now_ns=now_ns: now_ns)
        if now_ns == 9_000:  # the folder comes from a backup, which has no leases
            shutil.rmtree(tmp_path / FOLDER)
        lease = run_coroutine(acquire(tmp_path, str(name)))
        assert lease is not None
        tokens.append(lease.token)
    assert tokens == [7_000, 7_001, 7_002, 9_000]


def test_leases_are_given_where_a_power_cut_left_the_token_empty_or_zeros(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for content in (b"", bytes(20)):
        (tmp_path / FOLDER / "tokens").write_bytes(content)
        assert run_coroutine(acquire(tmp_path, f"{len(content)} bytes")) is not None


def test_no_file_is_left_of_a_lease_that_was_released(tmp_path: Path) -> None:
    async def play() -> None:
        store = FileLeases(tmp_path)
        lease = await store.acquire("job/archive-7", "first", 1.0)
        assert lease is not None
        assert len(list((tmp_path / FOLDER).iterdir())) == 2
        await store.release(lease)
        assert [file.name for file in (tmp_path / FOLDER).iterdir()] == ["tokens"]

    run_coroutine(play())


def test_a_process_that_waited_for_a_deleted_lock_file_locks_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its open and its lock, the holder releases the lease, and a third process acquires it."""
    real, stores = os.open, [FileLeases(tmp_path) for _ in range(3)]

    async def play() -> None:
        first = await stores[0].acquire("a job", "first", 1.0)
        assert first is not None
        opened: list[int] = []

        def overtaken(path: os.PathLike[str], *arguments: int) -> int:
            descriptor = real(path, *arguments)
            if not opened and str(path).endswith(".lock"):
                opened.append(descriptor)
                (tmp_path / FOLDER / "a%20job.lock").unlink()
                os.close(stores[0]._held.pop(first))
                assert stores[2]._file("a job") == Path(path)
                os.close(real(path, *arguments))  # there is another file now
            return descriptor

        monkeypatch.setattr(os, "open", overtaken)
        assert await stores[1].acquire("a job", "second", 1.0) is not None
        monkeypatch.setattr(os, "open", real)
        assert await stores[2].acquire("a job", "third", 1.0) is None

    run_coroutine(play())


def test_a_lease_whose_file_cannot_be_deleted_is_released(tmp_path: Path) -> None:
    async def play() -> None:
        store = FileLeases(tmp_path)
        lease = await store.acquire("a job", "first", 1.0)
        assert lease is not None
        descriptor = store._held[lease]
        file = store._file("a job")
        file.unlink()
        file.mkdir()  # cannot be deleted like a file
        await store.release(lease)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

    run_coroutine(play())
