"""The writers of a folder of timelines: any number of processes, which make one change at a time.

    writers.lock   locked (shared) by each writer while it is open
    change.lock    locked during each change, some microseconds; the kernel unlocks it if the writer is killed

The word CHANGING in the header of the file is 1 during a change. A writer that finds it 1 before its own change repairs
what a killed writer left.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import StoreFull

WRITERS_FILE, CHANGE_FILE = "writers.lock", "change.lock"


class Writers:
    """This process as one of the writers of a folder."""

    def __init__(self, folder: Path) -> None:
        self._writers, self._change = (folder / WRITERS_FILE).open("a"), (folder / CHANGE_FILE).open("a")

    @contextlib.contextmanager
    def entering(self) -> Iterator[bool]:
        """Join the writers. Yields whether there are no others. While the context is open, no other process joins, and
        none changes anything.
        """
        fcntl.flock(self._change, fcntl.LOCK_EX)
        try:
            alone = True
            try:
                fcntl.flock(self._writers, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = False
            yield alone
            fcntl.flock(self._writers, fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._change, fcntl.LOCK_UN)

    def changes(self, word: NDArray[np.int64], repair: Callable[[], None]) -> Changes:
        """The changes of a file. `word`: its word CHANGING. `repair`: called if a writer was killed in a change."""
        return Changes(self._change.fileno(), word, repair)

    def close(self) -> None:
        """Leave the writers."""
        self._change.close()
        self._writers.close()


class Changes:
    """A context in which one change is made. If the change fails, the next one repairs the file first; not after
    StoreFull, which leaves nothing half done.
    """

    def __init__(self, descriptor: int, word: NDArray[np.int64], repair: Callable[[], None]) -> None:
        self._descriptor, self._word, self._repair = descriptor, word, repair

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if self._word[0]:
            try:
                self._repair()
            except BaseException:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                raise
        self._word[0] = 1

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None or kind is StoreFull:
            self._word[0] = 0
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
