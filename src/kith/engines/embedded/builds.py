"""Timelines that are being built, in shared memory: posts pushed to their users meanwhile are kept here until `put`.

    row   ~user i64 (0: no build) | epoch | lowest rate withheld | number of pushes | their ids, oldest first

There are few builds at a time, and each takes some milliseconds. If all rows are taken, the oldest build is dropped, so
builds of killed writers go in the end. The words BUILT (the last epoch) and BUILDING (rows in use) are in the file's
header.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids
from kith.home.timelines import BUILD_PUSHES, RATE_MAX

BUILDS_MAX = 64
COLUMNS = 4 + BUILD_PUSHES
_USER, _EPOCH, _LACKS, _PUSHES, _IDS = range(5)


class Build(NamedTuple):
    """What was pushed to a user, and withheld from them, while their timeline was being built."""

    pushed: Ids  # newest first
    withheld_rate_min: int


_BUILT, _BUILDING = 0, 1


class Builds:
    """The rows (shape (BUILDS_MAX, COLUMNS)) and the words BUILT and BUILDING, all int64. Only writers use these."""

    def __init__(self, rows: NDArray[np.int64], words: NDArray[np.int64]) -> None:
        self._rows, self._words = rows, words

    def begin(self, user: int) -> int:
        """Begin a build: keep the posts pushed to the user from now on. Returns the epoch of this build."""
        self.end(user)
        keys = self._rows[:, _USER]
        at = int(np.flatnonzero(keys == 0)[0]) if int(self._words[_BUILDING]) < BUILDS_MAX else self._oldest()
        self._words[_BUILDING] += int(keys[at] == 0)
        self._words[_BUILT] += 1
        epoch = int(self._words[_BUILT])
        self._rows[at, : _PUSHES + 1] = ~user, epoch, RATE_MAX, 0
        return epoch

    def _oldest(self) -> int:
        return int(np.argmin(self._rows[:, _EPOCH]))

    def take(self, user: int, epoch: int) -> Build | None:
        """End the build of this epoch. Returns what was pushed since it began; None if it was dropped."""
        at = self._row_of(user)
        if at is None or self._rows[at, _EPOCH] != epoch:
            return None
        row = self._rows[at]
        build = Build(row[_IDS : _IDS + row[_PUSHES]][::-1].copy(), int(row[_LACKS]))
        self._drop(at)
        return build

    def end(self, user: int) -> None:
        """Drop the user's build, if there is one."""
        at = self._row_of(user)
        if at is not None:
            self._drop(at)

    def end_all(self, users: Ids) -> None:
        """Drop the builds of these users."""
        for at in self._among(users):
            self._drop(at)

    def clear(self) -> None:
        """Drop all builds."""
        self._rows[:, _USER] = 0
        self._words[_BUILDING] = 0

    def push(self, post: int, users: Ids) -> None:
        """Keep a push for the builds of these users. A build with BUILD_PUSHES already is dropped."""
        for at in self._among(users):
            row = self._rows[at]
            if row[_PUSHES] == BUILD_PUSHES:
                self._drop(at)
            else:
                row[_IDS + row[_PUSHES]] = post
                row[_PUSHES] += 1

    def withhold(self, rate: int, users: Ids) -> None:
        """Note that the builds of these users lack a post of an author of this rate."""
        for at in self._among(users):
            self._rows[at, _LACKS] = min(int(self._rows[at, _LACKS]), rate)

    def _row_of(self, user: int) -> int | None:
        if not self._words[_BUILDING] or user < 0:
            return None
        found = np.flatnonzero(self._rows[:, _USER] == ~user)
        return int(found[0]) if len(found) else None

    def _among(self, users: Ids) -> list[int]:
        """The rows of builds of these users."""
        if not self._words[_BUILDING]:  # nearly always
            return []
        keys = self._rows[:, _USER]
        return [at for at in np.flatnonzero(keys).tolist() if (users == ~keys[at]).any()]

    def _drop(self, at: int) -> None:
        self._rows[at, _USER] = 0
        self._words[_BUILDING] -= 1
