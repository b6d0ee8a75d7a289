"""How a mention of an account reaches the followers who want it: all alike, or in tiers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kith.core.ids import NodeId
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS
from kith.graph.shapes import Listing
from kith.notifications.tiers import Tier

COUNT_CACHED_MS = 300_000
"""How long a number of followers is cached."""
COUNTS_MAX = 10_000
"""Accounts whose number of followers is cached."""


def route(followers: int, threshold: int) -> tuple[Tier, ...]:
    """The tiers that a mention of an account goes through.

    Below the threshold, one tier notifies all followers. From the threshold on, tiers notify the followers who are
    online, then those seen within a day, then within a month; the rest find the mention on opening the inbox.
    """
    return (Tier.ALL,) if followers < threshold else (Tier.ONLINE, Tier.DAY, Tier.MONTH)


class Router:
    """`route` by the number of followers, which is cached for COUNT_CACHED_MS."""

    def __init__(
        self, follower_count: Callable[[int], Awaitable[int]], threshold: int, now_ms: Callable[[], int]
    ) -> None:
        self._follower_count, self._threshold, self._now_ms = follower_count, threshold, now_ms
        self._counts: dict[int, tuple[int, int]] = {}

    async def route(self, account: int) -> tuple[Tier, ...]:
        """The tiers of a mention of an account."""
        return route(await self.followers(account), self._threshold)

    async def followers(self, account: int) -> int:
        """How many follow an account, at most COUNT_CACHED_MS old."""
        count, at_ms = self._counts.get(account, (0, -COUNT_CACHED_MS))
        if not 0 <= self._now_ms() - at_ms < COUNT_CACHED_MS:
            count, at_ms = await self._follower_count(account), self._now_ms()
            if len(self._counts) >= COUNTS_MAX:
                self._counts.clear()
            self._counts[account] = count, at_ms
        return count


async def follower_count(graph: Graph, account: int) -> int:
    """How many follow an account now."""
    (count,) = await graph.store.count_many([followers_of(graph, account)])
    return count


def followers_of(graph: Graph, account: int) -> Listing:
    """The list of an account's followers."""
    return Listing(graph.graphs.number(FOLLOWS), NodeId(account), Direction.IN)
