"""Turns to write to a store: one thread of one process at a time. If a process dies, the next one gets its turn.

LMDB's own write lock, a robust mutex in shared memory, is not enough. If a process is killed between freeing the mutex
and waking a waiter, the kernel wakes a waiter in its place, but only while the mutex is free. If another thread has
taken the mutex by then, without the mark that somebody waits, nobody is woken. The waiting processes then sleep on
beside a free lock, for ever if nobody else writes.

So nothing waits for LMDB's lock. A thread takes it only in its turn (or when it is the first to read a week of
inboxes). Threads wait for a lock of their process; processes wait for two byte locks, in the kernel's queue.
docs/decisions/0042-turns-to-write.md has the figures.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from kith.engines.embedded.byte_locks import lock, unlock

_NEXT, _WRITES = 0, 1
"""The bytes of the file that are locked: by the process that is next, and by the process that writes. A process that
wrote and wants to write again queues behind the next one."""


class Turns:
    """The turns of a file's writers. A process has one of these for each file, opened after any fork."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn, and hold it while the context is open. A thread that holds it must not wait for it again."""
        with self._lock:
            lock(self._descriptor, 1, _NEXT)
            try:
                lock(self._descriptor, 1, _WRITES)
            finally:
                unlock(self._descriptor, 1, _NEXT)
            try:
                yield
            finally:
                unlock(self._descriptor, 1, _WRITES)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
