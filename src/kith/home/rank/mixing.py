"""Chooses a page from ranked posts, with limits on each author and each type of post, and room for new posts.

Each page is chosen from the posts that are left, so nothing is lost: a post that does not fit leads the next page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from kith.home.rank.features import Facts


class Mix(msgspec.Struct, frozen=True):
    """The bounds of a page (article 001); `type_shares` in the order of TYPES, once a page has `types_after` posts."""

    author_max: int = 2
    type_shares: tuple[float, ...] = (0.4, 0.4, 0.5, 0.4)
    types_after: int = 10
    fresh_share: float = 0.2
    fresh_ms: int = 6 * 3_600_000


def choose(ranked: Facts, taken: Facts, want: int, mix: Mix, now_ms: int, *, more: bool = False) -> list[int]:
    """The indexes in `ranked` (best first) of at most `want` posts for a page that already has the posts `taken`.

    A page has at most `author_max` posts of an author, and of each type at most its share. If too few posts satisfy
    that, the page is filled beyond the limits, with as few of each author as possible. A share of the page goes to the
    best posts younger than `fresh_ms`. `more`: candidates exist beyond `ranked`, so do not exceed the limits yet.
    """
    page = _Page(ranked, taken, mix)
    since = now_ms - mix.fresh_ms
    fresh: list[int] = np.flatnonzero(ranked.made_ms >= since).tolist()
    quota = int(mix.fresh_share * (want + len(taken.ids))) - int(np.count_nonzero(taken.made_ms >= since))
    page.fill(fresh, min(quota, want))
    page.fill(page.fill(range(len(ranked.ids)), want, by_type=True), want)
    if not more:
        page.fill_up(want)
    return sorted(page.chosen)


class _Page:
    """A page while it is chosen."""

    def __init__(self, ranked: Facts, taken: Facts, mix: Mix) -> None:
        self._ranked_authors: list[int] = ranked.authors.tolist()
        self._ranked_types: list[int] = ranked.types.tolist()
        self._mix, self._size = mix, len(taken.ids)
        self._authors = dict(Counter(taken.authors.tolist()))
        self._types = [0] * len(mix.type_shares)
        for type_ in taken.types.tolist():
            self._types[type_] += 1
        self.chosen: set[int] = set()

    def fill(self, places: Sequence[int], want: int, *, by_type: bool = False) -> list[int]:
        """Choose from `places` until `want` are chosen, within the limit on authors, and with `by_type` also on types.

        Returns the places that the limit on types kept out.
        """
        chosen, authors, types, author_max = self.chosen, self._authors, self._types, self._mix.author_max
        ranked_authors, ranked_types = self._ranked_authors, self._ranked_types
        shares, types_after = self._mix.type_shares, self._mix.types_after
        missing, size, crowded = want - len(chosen), self._size + len(chosen), list[int]()
        if missing <= 0:
            return crowded
        for at in places:
            if at in chosen:
                continue
            author, type_ = ranked_authors[at], ranked_types[at]
            of_author = authors.get(author, 0)
            if of_author >= author_max:
                continue
            if by_type and size >= types_after and types[type_] + 1 > shares[type_] * (size + 1):
                crowded.append(at)
                continue
            chosen.add(at)
            authors[author] = of_author + 1
            types[type_] += 1
            missing, size = missing - 1, size + 1
            if not missing:
                break
        return crowded

    def fill_up(self, want: int) -> None:
        """Choose until `want` are chosen or none is left: a third post of every author before a fourth of any."""
        if len(self.chosen) >= want:
            return
        turns: list[tuple[int, int]] = []
        for at, author in enumerate(self._ranked_authors):
            if at not in self.chosen:
                self._authors[author] = turn = self._authors.get(author, 0) + 1
                turns.append((turn, at))
        self.chosen.update(at for _, at in sorted(turns)[: want - len(self.chosen)])
