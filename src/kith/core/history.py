"""The restores of a store, so that a sequence number from before a restore is not mistaken for one after it.

After a restore, sequence numbers continue where the backup ended, and stand for other events than before. So tokens and
ids of stream events carry the name of the history too. They are valid only for the part that both histories share.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

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
