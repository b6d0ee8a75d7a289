"""Log positions of a store, and its restores: a position from before a restore is not mistaken for one after it.

After a restore, sequence numbers continue where the backup ended, and stand for other events than before. So positions
carry the name of the history too, and are valid only for the part that both histories share.

    position    sequence number u64 | name of the history u64, left out of the first
"""

from __future__ import annotations

import secrets
import struct
from typing import NamedTuple

from kith.core.events import NOWHERE, LogPosition

_NUMBER = struct.Struct(">Q")

FIRST = 0
"""The name of every store's history until its first restore."""


class Restore(NamedTuple):
    """One restore: the name of the new history, and the last sequence number that it shares with the old one."""

    name: int
    shared: int


class History(NamedTuple):
    """The restores of a store, the oldest first."""

    restores: tuple[Restore, ...] = ()

    @property
    def name(self) -> int:
        """The name of the present history."""
        return self.restores[-1].name if self.restores else FIRST

    def holds(self, name: int, sequence: int) -> bool:
        """Whether this store still has the event with this sequence number of the history `name`."""
        names = [FIRST, *(restore.name for restore in self.restores)]
        return name in names and all(sequence <= restore.shared for restore in self.restores[names.index(name) :])

    def restored(self, last: int) -> History:
        """The history after a restore from a backup that ends with sequence number `last`."""
        return History((*self.restores, Restore(1 + secrets.randbelow(2**63 - 1), last)))


class StorePositions:
    """Packs and compares the positions of one store."""

    def __init__(self, history: History) -> None:
        self.go_on(history)

    def go_on(self, history: History) -> None:
        """The store has this history from now on."""
        self.history = history
        self._name = b"" if history.name == FIRST else _NUMBER.pack(history.name)

    def of(self, sequence: int) -> LogPosition:
        """The position after the event with this number."""
        return LogPosition(_NUMBER.pack(sequence) + self._name)

    def of_many(self, first: int, count: int) -> list[LogPosition]:
        """The positions after `count` events, of which the first has this number."""
        if self._name:
            return [self.of(sequence) for sequence in range(first, first + count)]
        packed = struct.pack(f">{count}Q", *range(first, first + count))
        return list(struct.unpack(f"{_NUMBER.size}s" * count, packed))

    def sequence(self, position: LogPosition) -> int | None:
        """The number of the last event up to a position, 0 if there is none. None: this store does not have it."""
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
        asked, reached = self.sequence(other), self.sequence(position)
        return asked is not None and reached is not None and asked <= reached

    def joined(self, one: LogPosition, other: LogPosition) -> LogPosition:
        """See `log.store.LogStore.joined`."""
        if len(one) == len(other) == _NUMBER.size:
            return one if one >= other else other
        return one if self.covers(one, other) else other
