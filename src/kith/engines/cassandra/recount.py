"""The owner's side of a recount: it corrects its count of a list, stretch by stretch, while it keeps deciding commands.

The repairer (`recounter`) reads stretches of the list, from the newest entries down, and sends each owner the number
of its entries in the stretch. The owner adds that number, unless it changed the list within the stretch since the last
command of this recount; then the repairer reads the stretch again. The owner itself adds changes above the stretch,
where entries are already counted.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kith.core.paging import Mark
from kith.engines.cassandra.parts import HIGHEST


class StretchOutcome(IntEnum):
    """An owner's answer to a stretch."""

    COUNTED = 0
    CHANGED = 1
    """The owner changed the stretch: read it again."""
    FORGOTTEN = 2
    """The owner does not know this recount (a new owner, or another recount started): start over."""


class Recount(NamedTuple):
    """A recount in progress.

    `name`: a random number that identifies it. `below`: entries greater than this mark are counted. `changed`: the
    greatest entry that is not counted yet and changed since the last command of this recount.
    """

    name: int
    below: Mark = HIGHEST
    entries: int = 0
    expiring: int = 0
    changed: Mark | None = None

    def with_change(self, mark: Mark, entries: int, expiring: int) -> Recount:
        """The recount after an entry at `mark` was added (1) or removed (-1)."""
        if mark > self.below:
            return self._replace(entries=self.entries + entries, expiring=self.expiring + expiring)
        return self._replace(changed=mark if self.changed is None else max(self.changed, mark))
