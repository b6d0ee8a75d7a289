"""Bells: each commit wakes the processes that wait for events, by a byte into the FIFO of each.

    bells/<random>   the FIFO of a waiting process; deleted when the process stops waiting

If a FIFO is full, its process will wake anyway. The FIFO of a killed process is deleted by the next process that makes
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

_FOLDER = "bells"
CONFIRMATIONS_FOLDER = "confirmed"
"""The folder of FIFOs for threads that wait for a standby (see `confirmations`)."""
_GRAIN_NS = 1_000_000_000
"""Granularity of a folder's time. A folder that changed less than this before it was read may change again without a
newer time, so it is read again."""
_POLL_S = 0.02
"""Seconds between polls of the log where the file system has no FIFOs."""
_READ_BYTES = 1 << 16
_log = structlog.get_logger("kith.log")


class Bells:
    """The ringing side, in every process that commits. Used by one thread only."""

    def __init__(self, folder: Path, name: str = _FOLDER) -> None:
        self._folder = folder / name
        self._read_ns = 0
        self._open_fifos: dict[str, int] = {}

    def ring(self) -> None:
        """Wake all waiting processes. Takes microseconds; never blocks, never fails."""
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            return  # no process ever waited
        if changed_ns != self._read_ns:
            self._read_ns = changed_ns if time.time_ns() - changed_ns > _GRAIN_NS else 0
            self._read_folder()
        for name, fifo in list(self._open_fifos.items()):
            try:
                os.write(fifo, b"\0")
            except BlockingIOError:  # full
                pass
            except OSError:  # no process has it open any more
                os.close(self._open_fifos.pop(name))

    def close(self) -> None:
        """Close the FIFOs."""
        for fifo in self._open_fifos.values():
            os.close(fifo)
        self._open_fifos.clear()

    def _read_folder(self) -> None:
        with contextlib.suppress(OSError):
            for name in set(os.listdir(self._folder)) - set(self._open_fifos):
                with contextlib.suppress(OSError):  # the FIFO is gone, or its process is
                    self._open_fifos[name] = os.open(self._folder / name, os.O_WRONLY | os.O_NONBLOCK)


class Doorbell:
    """The waiting side of a process. All bells of one thread, and so of one event loop, share a FIFO."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._fifos: dict[int, _Fifo] = {}  # by thread

    @contextlib.contextmanager
    def bell(self) -> Iterator[FifoBell]:
        """A bell that every commit of events rings, while the context is open."""
        thread = threading.get_ident()
        fifo = self._fifos.get(thread)
        if fifo is None:
            try:
                fifo = self._fifos[thread] = _Fifo(*_make_fifo(self._folder))
            except OSError as error:
                _log.warning(
                    "no FIFO can be made here; polling for new events", folder=str(self._folder), error=str(error)
                )
                yield FifoBell(None)
                return
        bell = FifoBell(fifo)
        fifo.bells.add(bell)
        try:
            yield bell
        finally:
            fifo.bells.discard(bell)
            if not fifo.bells:
                self._fifos.pop(thread, None)
                fifo.close()


class _Fifo:
    """A FIFO and the bells that share it. The event loop listens to the FIFO only while a bell waits. At other times
    the FIFO stores the rings, so all commits made meanwhile wake the process once.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self._loop: asyncio.AbstractEventLoop | None = None
        self.bells = set[FifoBell]()

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen in this loop, and in no other, until the next ring."""
        if loop is not self._loop:
            self._stop_listening()
            self._loop = loop
            loop.add_reader(self._descriptor, self._ring)

    def close(self) -> None:
        self._stop_listening()
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _stop_listening(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._descriptor)

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, _READ_BYTES)
        for bell in self.bells:
            bell.ring()
        self._stop_listening()  # all bells have rung; the next one that waits listens again


class FifoBell:
    """See `log.store.Bell`. `fifo`: None where the file system has no FIFOs; then `rung` returns every 0.02 s."""

    def __init__(self, fifo: _Fifo | None) -> None:
        self._fifo = fifo
        self._has_rung = False
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the waiting consumer, or the next one that waits."""
        self._has_rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def rung(self, within_s: float) -> None:
        if self._fifo is None:
            await asyncio.sleep(min(within_s, _POLL_S))
            return
        if not self._has_rung:
            loop = asyncio.get_running_loop()
            self._fifo.listen(loop)
            self._waiting = loop.create_future()
            timeout = loop.call_later(within_s, _time_out, self._waiting)
            try:
                await self._waiting
            finally:
                timeout.cancel()
                self._waiting = None
        self._has_rung = False


def _time_out(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@contextlib.contextmanager
def fifo_of_thread(folder: Path, name: str) -> Iterator[int]:
    """A FIFO for a thread that waits with `select`. OSError where the file system has no FIFOs."""
    path, fifo = _make_fifo(folder / name)
    try:
        yield fifo
    finally:
        path.unlink(missing_ok=True)
        os.close(fifo)


def _make_fifo(folder: Path) -> tuple[Path, int]:
    """Make and open a FIFO, and delete the FIFOs that no process has open."""
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # otherwise another process could delete the new FIFO before it is open
        for other in folder.iterdir():
            try:
                os.close(os.open(other, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno == errno.ENXIO:  # no process has it open; any other error says nothing about it
                    other.unlink(missing_ok=True)
        path = folder / secrets.token_hex(8)
        os.mkfifo(path, 0o600)
        return path, os.open(path, os.O_RDWR | os.O_NONBLOCK)  # with a writer of its own it never reports its end
    finally:
        os.close(lock)
