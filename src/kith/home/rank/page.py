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


def choose(
    ranked: Sequence[Candidate], taken: Sequence[Candidate], want: int, mix: Mix, now_ms: int, *, more: bool = False
) -> list[int]:
    """The places in `ranked` (best first) of at most `want` posts that go well with those `taken` already.

    An author has at most `author_max` posts on a page, unless nobody else has any; a type gives way beyond its
    share while others are left; a share of the places goes to posts younger than `fresh_ms`, the best of them.
    `more`: `ranked` is not all there is, so there may be others. A page that was begun when nobody else had any stays
    that author's, and the others have the next one.
    """
    page = _Page(ranked, taken, mix, more)
    since = now_ms - mix.fresh_ms
    quota = int(mix.fresh_share * (want + len(taken))) - sum(candidate.made_ms >= since for candidate in taken)
    page.fill([at for at, candidate in enumerate(ranked) if candidate.made_ms >= since], min(quota, want))
    everything = range(len(ranked))
    page.fill(everything, want, by_type=True)
    page.fill(everything, want)
    return sorted(page.chosen)


class _Page:
    """A page in the making."""

    def __init__(self, ranked: Sequence[Candidate], taken: Sequence[Candidate], mix: Mix, more: bool) -> None:
        self._ranked, self._mix = ranked, mix
        self._authors = dict(Counter(candidate.author for candidate in taken))
        self._types = [0] * len(mix.type_shares)
        for candidate in taken:
            self._types[candidate.type] += 1
        self._size = len(taken)
        first = ranked[0].author if ranked else 0
        self._only = next((author for author, count in self._authors.items() if count > mix.author_max), None)
        alone = not more and all(candidate.author == first for candidate in [*taken, *ranked])
        self._author_max = len(ranked) + len(taken) if alone or self._only is not None else mix.author_max
        self.chosen: set[int] = set()

    def fill(self, places: Sequence[int], want: int, *, by_type: bool = False) -> None:
        """Choose of `places` until `want` are chosen."""
        chosen, authors, types, author_max = self.chosen, self._authors, self._types, self._author_max
        shares, types_after, only = self._mix.type_shares, self._mix.types_after, self._only
        for at in places:
            if len(chosen) >= want:
                return
            _, author, type_, _ = self._ranked[at]
            if at in chosen or authors.get(author, 0) >= author_max or (only is not None and author != only):
                continue
            size = self._size + len(chosen)
            if by_type and size >= types_after and types[type_] + 1 > shares[type_] * (size + 1):
                continue
            chosen.add(at)
            authors[author] = authors.get(author, 0) + 1
            types[type_] += 1
