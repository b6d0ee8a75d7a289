"""Turns to write to a store: one thread of one process at a time. A process that dies leaves its turn to the next.

LMDB has a lock of its own for this, a robust mutex in shared memory, and it is not enough. A process that is killed as
one of its threads hands that lock on, and another takes it at that moment, leaves it without its mark for waiters, and
the kernel wakes nobody: the other processes wait with the lock free, for ever if nobody else writes. So nothing waits
for LMDB's lock: it is taken only by the one whose turn it is (and by whoever first reads a week of inboxes). Threads
wait for their turn in their process, and processes in the kernel's queue (docs/decisions/0042-turns-to-write.md has the
figures).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from kith.engines.embedded.byte_locks import lock, unlock

_NEXT, _WRITES = 0, 1
"""Bytes of the file that are locked: by who is next, and by who writes. Who wrote stands behind who is next."""


class Turns:
    """The turns of a file's writers. One of these a process and file, opened after any fork."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn, and hold it while the context is open. A thread must not ask for it twice."""
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
