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
_USER, _EPOCH, _WITHHELD_RATE, _PUSHES, _IDS = range(5)


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
        row = int(np.flatnonzero(keys == 0)[0]) if int(self._words[_BUILDING]) < BUILDS_MAX else self._oldest()
        self._words[_BUILDING] += int(keys[row] == 0)
        self._words[_BUILT] += 1
        epoch = int(self._words[_BUILT])
        self._rows[row, : _PUSHES + 1] = ~user, epoch, RATE_MAX, 0
        return epoch

    def _oldest(self) -> int:
        return int(np.argmin(self._rows[:, _EPOCH]))

    def take(self, user: int, epoch: int) -> Build | None:
        """End the build of this epoch. Returns what was pushed since it began; None if it was dropped."""
        index = self._row_of(user)
        if index is None or self._rows[index, _EPOCH] != epoch:
            return None
        row = self._rows[index]
        build = Build(row[_IDS : _IDS + row[_PUSHES]][::-1].copy(), int(row[_WITHHELD_RATE]))
        self._drop(index)
        return build

    def end(self, user: int) -> None:
        """Drop the user's build, if there is one."""
        index = self._row_of(user)
        if index is not None:
            self._drop(index)

    def end_all(self, users: Ids) -> None:
        """Drop the builds of these users."""
        for index in self._rows_of(users):
            self._drop(index)

    def clear(self) -> None:
        """Drop all builds."""
        self._rows[:, _USER] = 0
        self._words[_BUILDING] = 0

    def push(self, post: int, users: Ids) -> None:
        """Keep a push for the builds of these users. A build with BUILD_PUSHES already is dropped."""
        for index in self._rows_of(users):
            row = self._rows[index]
            if row[_PUSHES] == BUILD_PUSHES:
                self._drop(index)
            else:
                row[_IDS + row[_PUSHES]] = post
                row[_PUSHES] += 1

    def withhold(self, rate: int, users: Ids) -> None:
        """Note that the builds of these users lack a post of an author of this rate."""
        for index in self._rows_of(users):
            self._rows[index, _WITHHELD_RATE] = min(int(self._rows[index, _WITHHELD_RATE]), rate)

    def _row_of(self, user: int) -> int | None:
        if not self._words[_BUILDING] or user < 0:
            return None
        indexes = np.flatnonzero(self._rows[:, _USER] == ~user)
        return int(indexes[0]) if len(indexes) else None

    def _rows_of(self, users: Ids) -> list[int]:
        """The rows of builds of these users."""
        if not self._words[_BUILDING]:  # nearly always
            return []
        keys = self._rows[:, _USER]
        return [index for index in np.flatnonzero(keys).tolist() if (users == ~keys[index]).any()]

    def _drop(self, index: int) -> None:
        self._rows[index, _USER] = 0
        self._words[_BUILDING] -= 1
