"""Whose turn it is to write to a store: one thread of one process. Whoever dies leaves it to the next.

LMDB has a lock of its own for this, a robust mutex in shared memory, and it is not enough. A process that is killed
as one of its threads hands that lock on, and another takes it at that moment, leaves it without its mark for waiters,
and the kernel wakes nobody: the other processes wait with the lock free, for ever if nobody else writes. So nobody
waits for LMDB's lock: it is taken in one's turn only, for which threads wait in their process, and processes in the
kernel's queue (docs/decisions/0042-turns-to-write.md has the figures).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_NEXT, _WRITES = 0, 1
"""Bytes of the file that are locked: by who is next, and by who writes. Who wrote stands behind who is next."""


class Turns:
    """The turns of a file's writers. One of these a process and file, opened after any fork."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for one's turn, and have it until this is left. Not to be asked for twice by a thread."""
        with self._lock:  # the kernel's are of a process: they end with it, and no fork inherits them
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _NEXT)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _WRITES)
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _NEXT)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _WRITES)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
