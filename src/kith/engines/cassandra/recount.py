"""How the owner of some entries of a list counts them anew, a stretch after another, while it goes on to decide.

Who repairs the list (`recounting`) reads a stretch, from the newest entries down, and tells each owner how many of it
are its own. That counts unless the owner changed the list within the stretch since it was asked last; then it is
read again. What changes above, where entries are counted already, the owner adds itself.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kith.core.paging import Mark
from kith.engines.cassandra.parts import HIGHEST


class StretchOutcome(IntEnum):
    """What an owner answers."""

    COUNTED = 0
    CHANGED = 1
    """The stretch has to be read again."""
    FORGOTTEN = 2
    """Another is the owner now, or another recount of the list began: begin anew."""


class Recount(NamedTuple):
    """One under way. `name`: which one, random; `below`: entries that are greater are counted; `changed`: the greatest
    of the others that changed since the owner was asked last."""

    name: int
    below: Mark = HIGHEST
    entries: int = 0
    expiring: int = 0
    changed: Mark | None = None

    def with_change(self, at: Mark, entries: int, expiring: int) -> Recount:
        """After an entry came (1) or went (-1)."""
        if at > self.below:
            return self._replace(entries=self.entries + entries, expiring=self.expiring + expiring)
        return self._replace(changed=at if self.changed is None else max(self.changed, at))
