"""Wakes the processes that wait for events: once a commit, a byte into the FIFO of each.

    bells/<random>   the FIFO of a waiting process; deleted when it stops waiting

A full FIFO was rung already. The FIFO of a killed process is deleted by the next process that opens one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

_FOLDER = "bells"
CONFIRMED = "confirmed"
"""The folder of FIFOs for threads that wait for a standby (see `confirmations`)."""
_GRAIN_NS = 1_000_000_000
"""A folder that changed less than this before it was read may change again without a newer time."""
_DEAF_S = 0.02
"""How often to look where there can be no FIFO."""
_READ_BYTES = 1 << 16
_log = structlog.get_logger("kith.log")


class Bells:
    """The ringing side, in every process that commits. Only one thread uses it."""

    def __init__(self, folder: Path, name: str = _FOLDER) -> None:
        self._folder = folder / name
        self._read_ns = 0
        self._open: dict[str, int] = {}

    def ring(self) -> None:
        """Wake all that wait. Takes microseconds; never waits, never fails."""
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            return  # nobody ever waited
        if changed_ns != self._read_ns:
            self._read_ns = changed_ns if time.time_ns() - changed_ns > _GRAIN_NS else 0
            self._read_folder()
        for name, fifo in list(self._open.items()):
            try:
                os.write(fifo, b"\0")
            except BlockingIOError:  # full
                pass
            except OSError:  # nobody has it open any more
                os.close(self._open.pop(name))

    def close(self) -> None:
        """Let go of the FIFOs."""
        for fifo in self._open.values():
            os.close(fifo)
        self._open.clear()

    def _read_folder(self) -> None:
        with contextlib.suppress(OSError):
            for name in set(os.listdir(self._folder)) - set(self._open):
                with contextlib.suppress(OSError):  # it is gone, or its process is
                    self._open[name] = os.open(self._folder / name, os.O_WRONLY | os.O_NONBLOCK)


class Doorbell:
    """The waiting side of a process: the bells of a thread, and so of an event loop, hear one FIFO."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._heard: dict[int, _Fifo] = {}  # by thread

    @contextlib.contextmanager
    def bell(self) -> Iterator[FifoBell]:
        """A bell, which every commit of events rings until it is closed."""
        thread = threading.get_ident()
        fifo = self._heard.get(thread)
        if fifo is None:
            try:
                fifo = self._heard[thread] = _Fifo(*_made(self._folder))
            except OSError as error:
                _log.warning(
                    "no FIFO can be made here; new events are looked for", folder=self._folder, error=str(error)
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
                self._heard.pop(thread, None)
                fifo.close()


class _Fifo:
    """A FIFO, and the bells that hear it. It is listened to while one of them waits, and keeps the ring otherwise: so a
    process is woken once by all commits that came while its consumers worked or rested.
    """

    def __init__(self, path: Path, number: int) -> None:
        self._path, self._number = path, number
        self._loop: asyncio.AbstractEventLoop | None = None
        self.bells = set[FifoBell]()

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear it in this loop, and in no other any more, until it rings."""
        if loop is not self._loop:
            self._stop_listening()
            self._loop = loop
            loop.add_reader(self._number, self._ring)

    def close(self) -> None:
        self._stop_listening()
        self._path.unlink(missing_ok=True)
        os.close(self._number)

    def _stop_listening(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._number)

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._number, _READ_BYTES)
        for bell in self.bells:
            bell.ring()
        self._stop_listening()  # all of them have rung; who waits next listens again


class FifoBell:
    """See `log.store.Bell`. `fifo`: None where the file system has none; then it looks often."""

    def __init__(self, fifo: _Fifo | None) -> None:
        self._fifo = fifo
        self._has_rung = False
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake who waits, now or later."""
        self._has_rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def rung(self, within_s: float) -> None:
        if self._fifo is None:
            await asyncio.sleep(min(within_s, _DEAF_S))
            return
        if not self._has_rung:
            loop = asyncio.get_running_loop()
            self._fifo.listen(loop)
            self._waiting = loop.create_future()
            late = loop.call_later(within_s, _give_up, self._waiting)
            try:
                await self._waiting
            finally:
                late.cancel()
                self._waiting = None
        self._has_rung = False


def _give_up(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


@contextlib.contextmanager
def fifo_of_thread(folder: Path, name: str) -> Iterator[int]:
    """A FIFO for a thread that waits for it with `select`. OSError where the file system has none."""
    path, fifo = _made(folder / name)
    try:
        yield fifo
    finally:
        path.unlink(missing_ok=True)
        os.close(fifo)


def _made(folder: Path) -> tuple[Path, int]:
    """A new FIFO, open; those that nobody has open are removed."""
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that nobody takes ours for one that is left over
        for old in folder.iterdir():
            try:
                os.close(os.open(old, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                old.unlink(missing_ok=True)
        path = folder / secrets.token_hex(8)
        os.mkfifo(path, 0o600)
        return path, os.open(path, os.O_RDWR | os.O_NONBLOCK)  # as a writer too, so that it never is at its end
    finally:
        os.close(lock)
