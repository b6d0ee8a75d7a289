"""Confirmations: writes are answered only once a standby has them, where the settings ask for that.

    standby.confirmed   name of the history u64 | number of the last event that a standby has durably u64

A standby reports to some API process, which writes this file. All processes that commit map the file, and a thread of
each waits for it. The file is valid for one history, because event numbers of another history mean other events. It
need not be durable: standbys report again.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import queue
import select
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kith.core.errors import KithError, NotConfirmed
from kith.engines.embedded import bells
from kith.engines.embedded.bells import Bells
from kith.engines.embedded.driver_errors import translate_errors

FILE = "standby.confirmed"
_HEAD = struct.Struct("<QQ")
_POLL_S = 0.05
"""Seconds between checks of the file without a ring of the bell, because a ring may be lost."""
_READ_BYTES = 1 << 16


class ConfirmedEvent:
    """How far the furthest standby is. `history`: the name of this store's history."""

    def __init__(self, folder: Path, history: int) -> None:
        self._history = history
        self._fd = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with translate_errors(f"write {FILE}", folder):
            os.posix_fallocate(self._fd, 0, _HEAD.size)  # writing to a map on a full disk would kill the process
        self._map = mmap.mmap(self._fd, _HEAD.size)
        self._bells = Bells(folder, bells.CONFIRMATIONS_FOLDER)

    def sequence(self) -> int:
        """The last event that a standby has; 0 if none has reported."""
        history, sequence = _HEAD.unpack_from(self._map)
        return sequence if history == self._history else 0

    def note(self, sequence: int) -> None:
        """Note that a standby has all events up to this one."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            if sequence > self.sequence() or sequence == 0:
                _HEAD.pack_into(self._map, 0, self._history, sequence)
                self._bells.ring()
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        self._bells.close()
        self._map.close()
        os.close(self._fd)


class _WaitingAnswer(NamedTuple):
    sequence: int
    until_s: float
    answer: Callable[[KithError | None], None]


class Confirmations:
    """Delays answers until a standby has the events that they acknowledge. After `timeout_s` the answer is an error."""

    def __init__(self, folder: Path, history: int, timeout_s: float) -> None:
        self._folder, self._timeout_s = folder, timeout_s
        self._confirmed = ConfirmedEvent(folder, history)
        self._held: queue.SimpleQueue[_WaitingAnswer | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="kith-confirmations", daemon=True)
        self._thread.start()

    def hold(self, sequence: int, answer: Callable[[KithError | None], None]) -> None:
        """Call `answer(None)` once a standby has event `sequence`, or `answer(NotConfirmed)` after the timeout.

        Both happen in this object's thread.
        """
        self._held.put(_WaitingAnswer(sequence, time.monotonic() + self._timeout_s, answer))

    def close(self) -> None:
        """Answer all held jobs, each when it is confirmed or times out, then stop."""
        self._held.put(None)
        self._thread.join()
        self._confirmed.close()

    def _loop(self) -> None:
        with contextlib.ExitStack() as stack:
            fifos = []
            with contextlib.suppress(OSError):  # where the file system has no FIFOs, the file is polled
                fifos.append(stack.enter_context(bells.fifo_of_thread(self._folder, bells.CONFIRMATIONS_FOLDER)))
            while (waiting := self._held.get()) is not None:
                waiting.answer(self._wait(waiting, fifos))

    def _wait(self, waiting: _WaitingAnswer, fifos: list[int]) -> KithError | None:
        while self._confirmed.sequence() < waiting.sequence:
            left_s = waiting.until_s - time.monotonic()
            if left_s <= 0:
                return NotConfirmed(
                    "this is written here, and no standby had it within `standby_timeout_ms`, so it may not last; "
                    "repeat it, and see that a standby follows"
                )
            for fifo in select.select(fifos, [], [], min(left_s, _POLL_S))[0]:
                os.read(fifo, _READ_BYTES)
        return None
