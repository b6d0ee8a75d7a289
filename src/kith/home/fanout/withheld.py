"""Authors some of whose posts were not pushed to every timeline, and the highest rate at which that happened.

A timeline knows the lowest rate of authors that it lacks posts of. So its reader looks up the outboxes of those
followed authors here whose rate is not below that: perhaps more than needed, never fewer. Rates only rise and nobody
leaves, as a timeline may still lack what was withheld before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kith.home.timelines import Ids

AUTHORS_MAX = 10_000
"""Authors that may be here by their rate, 16 bytes each in every read of a home; the posts of others go to everyone."""


class Withheld(NamedTuple):
    """Authors in order, and the rate of each."""

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

    def since(self, lowest: int) -> Ids:
        """Authors whose rate is not below `lowest`."""
        return self.authors[self.rates >= lowest]
