"""A cache of ranked orders, for readers who load home again within ORDER_KEPT_MS.

An order does not decide what may be shown: the hard rules check every page. A cached order is valid while its inputs
are unchanged and no post in it was edited or deleted. Each request compares the inputs, so it also notices writes of
other processes.

A cached order may use engagement counts (`facts`) and the reader's own interactions (`affinity`) that are up to
ORDER_KEPT_MS old. A request whose token is newer than the order is ranked again.
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
from kith.records.cache_tables import ChangeHistory

ORDER_KEPT_MS = 30_000
"""How long an order is kept, by the wall clock."""
READERS_MAX = 10_000
"""Orders cached in a process, about 7 KB each. Beyond it the oldest order is evicted."""


class Basis(NamedTuple):
    """The inputs of an order. `skeleton`: a digest of the skeleton. `own`: the state of the reader's lists of seen
    posts and "see fewer" wishes (`Ranker.own`).
    """

    skeleton: bytes
    own: ListState


class Order(NamedTuple):
    """A ranked slate, and the posts that were chosen from its first `looked_at` for a page of `limit`."""

    basis: Basis
    changes_seen: int
    reflects: LogPosition  # the log position it reflects at least
    made_ms: int
    ids: Integers
    slate: Slate  # without its ids: a list takes five times the memory of the array above
    limit: int
    chosen: Candidates
    looked_at: int
    placed: Mapping[int, Placed]  # empty if posts of the page came from boards


class CachedOrders:
    """The newest order of each reader, in memory."""

    def __init__(
        self,
        covers: Callable[[LogPosition, LogPosition], bool],
        post_changes: ChangeHistory,
        readers_max: int = READERS_MAX,
    ) -> None:
        """`covers`: the log's comparison of positions. `post_changes`: the changes of post records."""
        self._covers, self._post_changes, self._readers_max = covers, post_changes, readers_max
        self._orders: dict[int, Order] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._orders)

    def has(self, reader: int, now_ms: int) -> bool:
        """Whether an order of the reader is cached. `find` decides whether it is still valid."""
        order = self._orders.get(reader)
        return order is not None and _is_young(order, now_ms)

    @property
    def changes_seen(self) -> int:
        """The number of post changes seen so far. Read it before ranking, and pass it to `keep`."""
        return self._post_changes.now

    def find(
        self, reader: int, basis: Basis, posts: Integers, limit: int, *, must_reflect: LogPosition, now_ms: int
    ) -> tuple[Slate, PageChoice | None] | None:
        """The reader's cached slate as a scroll that begins now, and the posts chosen from it for a page of `limit`.

        None if there is no valid order. No choice if the order was cached for another `limit`. `posts`: ids of the
        skeleton. `must_reflect`: the log position that the slate must reflect.
        """
        order = self._orders.get(reader)
        if (
            order is None
            or order.basis != basis
            or not self._covers(order.reflects, must_reflect)
            or not _is_young(order, now_ms)
            or not self._are_unchanged(posts, order.changes_seen)
        ):
            return None
        ids: list[int] = order.ids.tolist()
        slate = Slate(ids, order.slate.end, order.slate.copies, order.slate.scroll._replace(begun_ms=now_ms))
        if limit != order.limit:
            return slate, None
        waiting = set(ids[: order.looked_at]).difference(order.chosen.facts.ids.tolist())
        return slate, PageChoice(order.chosen, waiting, order.looked_at, order.placed)

    def _are_unchanged(self, posts: Integers, changes_seen: int) -> bool:
        """Whether no record of these posts changed since `changes_seen`. True where the log cannot tell."""
        changes = self._post_changes
        if changes_seen == changes.now or not changes.is_complete:
            return True
        return changes.none_of(set(posts.tolist()), changes_seen)

    def keep(
        self,
        reader: int,
        basis: Basis,
        changes_seen: int,
        reflects: LogPosition,
        slate: Slate,
        limit: int,
        choice: PageChoice,
    ) -> None:
        """Cache a slate that was just ranked, and the posts chosen from it for a page of `limit`."""
        made_ms, orders = slate.scroll.begun_ms, self._orders
        orders.pop(reader, None)
        while orders and (len(orders) >= self._readers_max or not _is_young(next(iter(orders.values())), made_ms)):
            del orders[next(iter(orders))]
        ids, bare = np.array(slate.ids, np.int64), Slate([], slate.end, slate.copies, slate.scroll)
        posts, _, looked_at, placed = choice
        orders[reader] = Order(basis, changes_seen, reflects, made_ms, ids, bare, limit, posts, looked_at, placed)


def basis_of(skeleton: Skeleton, own: ListState) -> Basis:
    """The inputs of an order: a digest of the skeleton, and the state of the reader's lists."""
    digest = hashlib.blake2b(skeleton.ids.tobytes(), digest_size=16)
    if skeleton.end is not None:
        digest.update(b"%d %d" % skeleton.end)
    return Basis(digest.digest(), own)


def _is_young(order: Order, now_ms: int) -> bool:
    return 0 <= now_ms - order.made_ms < ORDER_KEPT_MS
