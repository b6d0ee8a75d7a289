"""The authors whose posts were withheld from some timelines, each with the highest rate at which that happened.

A timeline knows the lowest rate of the authors whose posts it lacks. So its home reads beside it the outboxes of the
followed authors of this list with that rate or a higher one: perhaps more than needed, never fewer. Rates only rise and
no author is ever taken off, because a timeline may still lack what was withheld before. Limit: WITHHELD_MAX authors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kith.home.timelines import Ids

WITHHELD_MAX = 10_000
"""Authors listed by their rate, 16 bytes each in every read of a home. When it is full, other authors push to all."""


class Withheld(NamedTuple):
    """Authors, ascending, and the rate of each."""

    authors: Ids
    rates: Ids

    @classmethod
    def unpack(cls, raw: bytes | None) -> Withheld:
        """What `pack` made; None: nobody."""
        authors, rates = np.frombuffer(raw or b"", "<i8").reshape(2, -1)
        return cls(authors, rates)

    def pack(self) -> bytes:
        """As bytes, to be stored."""
        return np.stack(self).astype("<i8").tobytes()

    def rate_of(self, author: int) -> int:
        """The highest rate at which a post of the author was withheld; 0 if none was."""
        at = int(np.searchsorted(self.authors, author))
        return int(self.rates[at]) if at < len(self.authors) and self.authors[at] == author else 0

    def raised(self, rates: Mapping[int, int]) -> Withheld:
        """With these authors at these rates; itself if it has them all at such rates already."""
        higher = {author: rate for author, rate in rates.items() if rate > self.rate_of(author)}
        if not higher:
            return self
        known = dict(zip(self.authors.tolist(), self.rates.tolist(), strict=True)) | higher
        return Withheld(*np.array(sorted(known.items()), np.int64).T)

    def at_least(self, lowest: int) -> Ids:
        """Authors whose rate is `lowest` or higher."""
        return self.authors[self.rates >= lowest]
