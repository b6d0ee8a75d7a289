"""The slot of each user: a hash table in shared memory. Other processes read it while one process changes it.

    cell     ~user i64 | slot i64       ~user: below 0 for every user; 0: never used; 1: freed
    tables   two, of `cells` each; the word TURN says which one is in use: the one at TURN & 1
    USED     a word: how many cells of that table are not 0; only writers read it

Linear probing from a multiplicative hash, at most 2/3 full. A freed cell counts as used until the table is rebuilt: the
other table is filled without freed cells, then TURN is increased. So a search never sees a table that is half built. A
search that finds nothing is retried if TURN changed meanwhile. A result may be out of date when it is used; the owner
written at the slot decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids

_FREED = 1
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: neighbouring ids land far apart (Knuth, vol. 3, 6.4)
_TRIES = 100
_STRIDE = 8
_NEXT = np.arange(1, _STRIDE + 1)

Tables = NDArray[np.int64]  # (2, cells, 2)


def cells_for(slots: int) -> int:
    """How many cells a table needs: a power of two, at least twice the slots."""
    return 1 << max(4, (2 * slots - 1).bit_length())


class Directory:
    """The two tables (shape (2, cells, 2)) and the words TURN and USED, all int64. Readers must not write them."""

    def __init__(self, tables: Tables, words: NDArray[np.int64]) -> None:
        self._tables, self._turn, self._used = tables, words[0:1], words[1:2]
        self._cells = tables.shape[1]
        self._shift = 65 - self._cells.bit_length()

    def find(self, user: int) -> int:
        """The slot of a user; -1 if there is none."""
        if user < 0:  # not an id of a user; its complement could equal 0 or _FREED
            return -1
        for _ in range(_TRIES):
            turn = int(self._turn[0])
            table = self._tables[turn & 1]
            cell = self._place(table, user)
            if table[cell, 0] == ~user:
                return int(table[cell, 1])
            if self._turn[0] == turn:
                break
        return -1

    def find_many(self, users: Ids) -> Ids:
        """The slot of each user; -1 where there is none."""
        for _ in range(_TRIES):
            turn = int(self._turn[0])
            slots = self._search(self._tables[turn & 1], users)
            if self._turn[0] == turn:
                break
        return slots

    def insert(self, user: int, slot: int) -> None:
        """Add a user who must not be in the table."""
        if 3 * int(self._used[0]) >= 2 * self._cells:
            table = self._tables[int(self._turn[0]) & 1]
            live = table[table[:, 0] < 0]
            self.rebuild(~live[:, 0], live[:, 1])
        table = self._tables[int(self._turn[0]) & 1]
        cell = self._place(table, user, free=True)
        self._used[0] += int(table[cell, 0] == 0)
        table[cell, 1] = slot
        table[cell, 0] = ~user  # after the slot, because readers look for this word

    def remove(self, user: int) -> None:
        """Remove a user who must be in the table."""
        table = self._tables[int(self._turn[0]) & 1]
        table[self._place(table, user), 0] = _FREED

    def rebuild(self, users: Ids, slots: Ids) -> None:
        """Replace the contents by exactly these users (none twice), without freed cells."""
        turn = int(self._turn[0]) + 1
        table = self._tables[turn & 1]
        table[:] = 0
        keys, homes, mask = ~users, self._homes(users), self._cells - 1
        unplaced = np.arange(len(users))
        while unplaced.size:  # each round fills a cell or moves on; the table is never full
            cells_tried = homes[unplaced]
            free = table[cells_tried, 0] == 0
            table[cells_tried[free], 0] = keys[unplaced[free]]  # if several users want one cell, the last one gets it
            placed = table[cells_tried, 0] == keys[unplaced]
            table[cells_tried[placed], 1] = slots[unplaced[placed]]
            unplaced = unplaced[~placed]
            homes[unplaced] = (homes[unplaced] + 1) & mask
        self._used[0] = len(users)
        self._turn[0] = turn

    def _place(self, table: NDArray[np.int64], user: int, *, free: bool = False) -> int:
        """The cell of a user, or the unused cell where the search ends. `free`: the first cell that can be written."""
        key, mask = ~user, self._cells - 1
        cell: int = (user * _MULTIPLIER & 0xFFFF_FFFF_FFFF_FFFF) >> self._shift
        for _ in range(self._cells):
            key_found = int(table[cell, 0])
            if key_found in (key, 0) or (free and key_found == _FREED):
                break
            cell = (cell + 1) & mask
        return cell

    def _homes(self, users: Ids) -> Ids:
        hashed = users.view(np.uint64) * np.uint64(_MULTIPLIER)
        return (hashed >> np.uint64(self._shift)).view(np.int64)

    def _search(self, table: NDArray[np.int64], users: Ids) -> Ids:
        cells = table.view(np.complex128).reshape(-1)  # both words of a cell are fetched as one
        cell_indexes, mask = self._homes(users), self._cells - 1
        fetched = cells.take(cell_indexes, mode="wrap").view(np.int64).reshape(-1, 2)
        slots = fetched[:, 1].copy()
        unfound = np.flatnonzero(fetched[:, 0] != ~users)
        slots[unfound] = -1
        unfound = unfound[fetched[unfound, 0] != 0]
        cell_indexes, keys = cell_indexes[unfound], ~users[unfound]
        for _ in range(0, self._cells, _STRIDE):
            if not len(unfound):
                break
            near = (cell_indexes[:, np.newaxis] + _NEXT) & mask  # the next 8 cells of each search, compared together
            keys_near = table[near, 0]
            hit = keys_near == keys[:, np.newaxis]
            rows, columns = np.nonzero(hit)
            slots[unfound[rows]] = table[near[rows, columns], 1]
            continues = ~(hit | (keys_near == 0)).any(axis=1)
            unfound, keys, cell_indexes = unfound[continues], keys[continues], near[continues, -1]
        slots[users < 0] = -1  # as in `find`
        return slots
