"""Which restores a store has been through: what came after a backup is not what came after its restore.

Sequence numbers begin again where the backup ended, and stand for other events then. So whoever is told one is told the
name of the history as well (tokens, ids of stream events), and it holds only for what both have in common.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

FIRST = 0
"""The name of every store's history until its first restore."""


class Restore(NamedTuple):
    """A restore: the new history's name, and the last sequence number that it shares with the one before."""

    name: int
    shared: int


class History(NamedTuple):
    """The restores of a store, the oldest first."""

    turns: tuple[Restore, ...] = ()

    @property
    def name(self) -> int:
        """The name of what is written now."""
        return self.turns[-1].name if self.turns else FIRST

    def holds(self, name: int, sequence: int) -> bool:
        """Whether this store has what had this sequence number when the history had this name."""
        names = [FIRST, *(turn.name for turn in self.turns)]
        return name in names and all(sequence <= turn.shared for turn in self.turns[names.index(name) :])

    def restored(self, last: int) -> History:
        """The history of a store that is restored from a backup whose last sequence number this is."""
        return History((*self.turns, Restore(1 + secrets.randbelow(2**63 - 1), last)))
