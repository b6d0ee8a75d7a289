"""Which of the ranked posts make a page: no author and no kind of post crowds out the others, and new posts have room.

Decided page by page over what is left, so nothing is lost: what does not fit here leads the next page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Mix(msgspec.Struct, frozen=True):
    """The bounds of a page (article 001); `type_shares` in the order of TYPES, once a page has `types_after` posts."""

    author_max: int = 2
    type_shares: tuple[float, ...] = (0.4, 0.4, 0.5, 0.4)
    types_after: int = 10
    fresh_share: float = 0.2
    fresh_ms: int = 6 * 3_600_000


class Candidate(NamedTuple):
    """What a page needs to know of a ranked post. `type`: its number in TYPES."""

    id: int
    author: int
    type: int
    made_ms: int


def choose(ranked: Sequence[Candidate], taken: Sequence[Candidate], want: int, mix: Mix, now_ms: int) -> list[int]:
    """The places in `ranked` (best first) of at most `want` posts that go well with those `taken` already.

    An author has at most `author_max` posts on a page, unless nobody else has any; a type gives way beyond its
    share while others are left; a share of the places goes to posts younger than `fresh_ms`, the best of them.
    """
    page = _Page(ranked, taken, mix)
    since = now_ms - mix.fresh_ms
    quota = int(mix.fresh_share * (want + len(taken))) - sum(candidate.made_ms >= since for candidate in taken)
    page.fill([at for at, candidate in enumerate(ranked) if candidate.made_ms >= since], min(quota, want))
    everything = range(len(ranked))
    page.fill(everything, want, by_type=True)
    page.fill(everything, want)
    return sorted(page.chosen)


class _Page:
    """A page in the making."""

    def __init__(self, ranked: Sequence[Candidate], taken: Sequence[Candidate], mix: Mix) -> None:
        self._ranked, self._mix = ranked, mix
        self._authors = Counter(candidate.author for candidate in taken)
        self._types = Counter(candidate.type for candidate in taken)
        self._size = len(taken)
        first = ranked[0].author if ranked else 0
        self._alone = all(candidate.author == first for candidate in [*taken, *ranked])
        self.chosen: set[int] = set()

    def fill(self, places: Sequence[int], want: int, *, by_type: bool = False) -> None:
        """Choose of `places` until `want` are chosen."""
        for at in places:
            if len(self.chosen) >= want:
                return
            candidate = self._ranked[at]
            if at not in self.chosen and self._fits(candidate, by_type):
                self.chosen.add(at)
                self._authors[candidate.author] += 1
                self._types[candidate.type] += 1

    def _fits(self, candidate: Candidate, by_type: bool) -> bool:
        if self._authors[candidate.author] >= self._mix.author_max and not self._alone:
            return False
        size = self._size + len(self.chosen)
        crowded = self._types[candidate.type] + 1 > self._mix.type_shares[candidate.type] * (size + 1)
        return not (by_type and size >= self._mix.types_after and crowded)
