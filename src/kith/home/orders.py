"""Ranked orders that are kept for readers who come again.

An order decides nothing about what may be shown: the hard rules look at every page. It holds while what it was made
from is unchanged, and no post of it was edited or deleted. Each request compares that, so writes of other processes are
noticed too. What ranking knows of the numbers of posts (`facts`) and of the reader's likes, comments, saves and shares
(`affinity`) is up to ORDER_KEPT_MS older in a kept order than in a new one, unless the reader's token says that they
wrote since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from kith.core.events import LogPosition
from kith.home.rank.affinity import ListState
from kith.home.rank.candidates import Candidates, Placed
from kith.home.rank.features import Integers
from kith.home.skeleton.skeleton import Skeleton
from kith.home.slate import PageChoice, Slate
from kith.records.tables import ToldChanges

ORDER_KEPT_MS = 30_000
"""How long an order is kept, by the wall clock."""
READERS_MAX = 10_000
"""Orders that are kept in a process, some 7 KB each; beyond it the one made first is given up."""


class Basis(NamedTuple):
    """What an order was made from. `skeleton`: a digest of it. `own`: of the reader's lists, see `Ranker.own`."""

    skeleton: bytes
    own: ListState


class Order(NamedTuple):
    """A slate as ranked, and the posts that a page of `limit` was chosen of its first `looked_at`."""

    basis: Basis
    told: int
    reflects: LogPosition  # what it had to reflect of the log; it may reflect more
    made_ms: int
    ids: Integers
    slate: Slate  # without its ids, which would take five times as much in it
    limit: int
    chosen: Candidates
    looked_at: int
    placed: Mapping[int, Placed]  # empty where posts were pinned


class CachedOrders:
    """The newest order of each reader, in memory."""

    def __init__(
        self, covers: Callable[[LogPosition, LogPosition], bool], of_posts: ToldChanges, readers_max: int = READERS_MAX
    ) -> None:
        """`covers`: that of the log. `of_posts`: told of each change of what a post says."""
        self._covers, self._of_posts, self._readers_max = covers, of_posts, readers_max
        self._orders: dict[int, Order] = {}  # the one made first comes first

    def __len__(self) -> int:
        return len(self._orders)

    def has(self, reader: int, now_ms: int) -> bool:
        """Whether an order of the reader is kept, which may yet turn out to be of no use."""
        order = self._orders.get(reader)
        return order is not None and _is_young(order, now_ms)

    @property
    def told(self) -> int:
        """What the log told of posts by now; `keep` takes it, from before the slate was ranked."""
        return self._of_posts.now

    def find(
        self, reader: int, basis: Basis, posts: Integers, limit: int, *, must_reflect: LogPosition, now_ms: int
    ) -> tuple[Slate, PageChoice | None] | None:
        """The reader's slate, begun now, and what a page of `limit` was chosen of it; None: it must be ranked anew.

        `posts`: those of the skeleton. `must_reflect`: the place in the log that the slate must reflect.
        """
        order = self._orders.get(reader)
        if (
            order is None
            or order.basis != basis
            or not self._covers(order.reflects, must_reflect)
            or not _is_young(order, now_ms)
            or not self._are_unchanged(posts, order.told)
        ):
            return None
        ids: list[int] = order.ids.tolist()
        slate = Slate(ids, order.slate.end, order.slate.copies, order.slate.scroll._replace(begun_ms=now_ms))
        if limit != order.limit:
            return slate, None
        waiting = set(ids[: order.looked_at]).difference(order.chosen.facts.ids.tolist())
        return slate, PageChoice(order.chosen, waiting, order.looked_at, order.placed)

    def _are_unchanged(self, posts: Integers, told: int) -> bool:
        """Whether these say what they said when so much was told; where the log cannot tell, as far as is known."""
        changes = self._of_posts
        return told == changes.now or not changes.can_be_told or changes.none_of(set(posts.tolist()), told)

    def keep(
        self, reader: int, basis: Basis, told: int, reflects: LogPosition, slate: Slate, limit: int, choice: PageChoice
    ) -> None:
        """Keep a slate that was ranked now, and what a page of `limit` was chosen of it."""
        made_ms, orders = slate.scroll.begun_ms, self._orders
        orders.pop(reader, None)
        while orders and (len(orders) >= self._readers_max or not _is_young(next(iter(orders.values())), made_ms)):
            del orders[next(iter(orders))]
        ids, bare = np.array(slate.ids, np.int64), Slate([], slate.end, slate.copies, slate.scroll)
        posts, _, looked_at, placed = choice
        orders[reader] = Order(basis, told, reflects, made_ms, ids, bare, limit, posts, looked_at, placed)


def basis_of(skeleton: Skeleton, own: ListState) -> Basis:
    """What an order of this skeleton is made from."""
    digest = hashlib.blake2b(skeleton.ids.tobytes(), digest_size=16)
    if skeleton.end is not None:
        digest.update(b"%d %d" % skeleton.end)
    return Basis(digest.digest(), own)


def _is_young(order: Order, now_ms: int) -> bool:
    return 0 <= now_ms - order.made_ms < ORDER_KEPT_MS
