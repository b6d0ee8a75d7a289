"""Histories and log positions: a position from before a restore is never mistaken for one after it.

After a restore, sequence numbers continue where the backup ended, and mean other events than before. So a restore
begins a new history with a random name, and a position carries the name of its history. A position of an older history
is valid only up to the last event that both histories share. A power cut with relaxed durability begins a new history,
too, because it may undo events that other processes have read.

    position       sequence number u64 | name of the history u64, left out for the first history
    note history   JSON [[name, shared], ...]; for a power cut [name, shared, true]
    note boot      id of the machine's boot in which a process with relaxed durability last opened the store alone
"""

from __future__ import annotations

import json
import secrets
import struct
from typing import NamedTuple

import lmdb

from kith.core.events import NOWHERE, LogPosition
from kith.engines.embedded.ring_file import boot_id

HISTORY, _BOOT = "history", "boot"

_NUMBER = struct.Struct(">Q")

ORIGINAL = 0
"""The name of every store's history until its first restore."""


class Restore(NamedTuple):
    """One restore: the name of the new history, and the last sequence number that it shares with the old one."""

    name: int
    shared: int
    cut: bool = False  # caused by a power cut, not by a restore: still the store of the same machine


class History(NamedTuple):
    """The restores of a store, the oldest first."""

    restores: tuple[Restore, ...] = ()

    @property
    def name(self) -> int:
        """The name of the current history."""
        return self.restores[-1].name if self.restores else ORIGINAL

    def holds(self, name: int, sequence: int) -> bool:
        """Whether this store still has the event with this sequence number of the history `name`."""
        names = [ORIGINAL, *(restore.name for restore in self.restores)]
        return name in names and all(sequence <= restore.shared for restore in self.restores[names.index(name) :])

    def restored(self, last_event: int, *, cut: bool = False) -> History:
        """The history after a restore from a backup that ends with `last_event`, or after a power `cut`."""
        return History((*self.restores, Restore(1 + secrets.randbelow(2**63 - 1), last_event, cut)))

    def packed(self) -> bytes:
        """The history as the note `history`."""
        return json.dumps([restore[: 2 + restore.cut] for restore in self.restores]).encode()


def read_history(note: bytes | None) -> History:
    """The history that `packed` wrote; for None, the first one."""
    return History(tuple(Restore(*restore) for restore in json.loads(note or b"[]")))


def after_opening(
    txn: lmdb.Transaction[bytes], meta: lmdb._Database, last_event: int, *, was_relaxed: bool, relaxed: bool
) -> bool:
    """Begin a new history if a power cut may have undone events. Called after recovery, by the process that opens the
    store alone.

    `last_event`: the newest event. `was_relaxed`: whether earlier commits may not have been synced. `relaxed`: whether
    later ones may not be. Returns whether it wrote a note.
    """
    noted_boot, current_boot = txn.get(_BOOT.encode(), None, meta), boot_id().encode()
    if noted_boot == current_boot:
        return False
    if was_relaxed:
        history = read_history(txn.get(HISTORY.encode(), None, meta)).restored(last_event, cut=True)
        txn.put(HISTORY.encode(), history.packed(), db=meta)
    if relaxed:
        txn.put(_BOOT.encode(), current_boot, db=meta)
    return was_relaxed or relaxed


class StorePositions:
    """Packs and compares the positions of one store."""

    def __init__(self, history: History) -> None:
        self.use_history(history)

    def use_history(self, history: History) -> None:
        """Use this history from now on."""
        self.history = history
        self._name = b"" if history.name == ORIGINAL else _NUMBER.pack(history.name)

    def of(self, sequence: int) -> LogPosition:
        """The position after the event with this sequence number."""
        return LogPosition(_NUMBER.pack(sequence) + self._name)

    def of_many(self, first: int, count: int) -> list[LogPosition]:
        """The positions after each of `count` events, the first of which has the sequence number `first`."""
        if self._name:
            return [self.of(sequence) for sequence in range(first, first + count)]
        packed = struct.pack(f">{count}Q", *range(first, first + count))
        return list(struct.unpack(f"{_NUMBER.size}s" * count, packed))

    def sequence(self, position: LogPosition) -> int | None:
        """The sequence number of the last event that a position covers; 0 for the start of the log.

        None: the position is not of this store, or its events were lost in a restore.
        """
        if position == NOWHERE:
            return 0
        if len(position) not in (_NUMBER.size, 2 * _NUMBER.size):
            return None
        number = int.from_bytes(position[: _NUMBER.size], "big")
        return number if self.history.holds(int.from_bytes(position[_NUMBER.size :], "big"), number) else None

    def covers(self, position: LogPosition, other: LogPosition) -> bool:
        """See `log.store.LogStore.covers`."""
        if len(position) == len(other) and position[_NUMBER.size :] == self._name == other[_NUMBER.size :]:
            return position >= other
        required, reached = self.sequence(other), self.sequence(position)
        return required is not None and reached is not None and required <= reached

    def joined(self, position: LogPosition, other: LogPosition) -> LogPosition:
        """See `log.store.LogStore.joined`."""
        if len(position) == len(other) == _NUMBER.size:
            return position if position >= other else other
        return position if self.covers(position, other) else other
