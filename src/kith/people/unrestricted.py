"""Caches which accounts are unrestricted (active, public, unlabelled), and which users are in no block.

Most are. If all accounts of a read are unrestricted and its reader is in no block, the read skips the rules of
`privacy`; otherwise it applies them. Values are cached until the log reports a change (`records.read_cache`), and are
as of the cache's last refresh.
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.graph.edge import FORBIDDING_STATES, Direction
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS
from kith.graph.shapes import Listing, Node
from kith.records.cache_tables import CachedValues
from kith.records.read_cache import ReadCache

ACCOUNTS_MAX, USERS_MAX = 100_000, 50_000
"""Accounts that are cached, and users of whom it is cached whether they are in a block; 0.1 KB each."""
_UNRESTRICTED = Node()


class UnrestrictedPeople:
    """Tells which people need no check. Callers refresh `read_cache` first."""

    def __init__(self, graph: Graph, read_cache: ReadCache) -> None:
        self._store, self._blocks, self.read_cache = graph.store, graph.graphs.number(BLOCKS), read_cache
        self._accounts: CachedValues[bool] = read_cache.of_nodes(ACCOUNTS_MAX)
        self._blocked: CachedValues[bool] = read_cache.of_edges((self._blocks,), USERS_MAX)
        self._blocking: CachedValues[bool] = read_cache.of_edges((self._blocks,), USERS_MAX)

    async def are_unrestricted(self, users: Sequence[int]) -> bool:
        """Whether everybody may see all these accounts: they are active, public and unlabelled."""
        cached = self._accounts.now
        flags = list(map(cached.get, users))
        if False in flags:
            return False
        if None in flags:
            return await self._read_accounts([user for user, flag in zip(users, flags, strict=True) if flag is None])
        return True

    async def _read_accounts(self, users: Sequence[int]) -> bool:
        generation = self.read_cache.generation
        flags = {user: node == _UNRESTRICTED for user, node in zip(users, await self._store.nodes(users), strict=True)}
        self._accounts.keep(generation, flags)
        return all(flags.values())

    def are_known_unrestricted(self, users: Sequence[int], reader: NodeId) -> bool:
        """Whether the cache alone shows that these accounts are unrestricted and that the reader is in no block."""
        accounts, blocked, blocking = self._accounts.now, self._blocked.now, self._blocking.now
        if blocked.get(reader, True) or blocking.get(reader, True):
            return False
        return all(accounts.get(user, False) for user in users)

    async def load_unknown(self, users: Sequence[int], reader: NodeId) -> None:
        """Load what `are_known_unrestricted` needs and the cache lacks, concurrently."""
        sides = [(self._blocked, Direction.IN), (self._blocking, Direction.OUT)]
        await gather(
            False, self.are_unrestricted(users), *(self._has_blocks(cached, reader, side) for cached, side in sides)
        )

    async def refresh_and_check(self, viewer: NodeId, user: int) -> bool:
        """Refresh the cache; returns whether nobody blocks the viewer and the account `user` is unrestricted.

        On an engine across a network, values that the cache lacks are read concurrently with the refresh.
        """
        if self._store.immediate or (viewer in self._blocked.now and user in self._accounts.now):
            await self.read_cache.refresh()
            return await self.is_unblocked(viewer) and await self.are_unrestricted([user])
        reading = self._read_accounts([user]), self._read_blocks(self._blocked, viewer, Direction.IN)
        unrestricted, blocked, _ = await gather(False, *reading, self.read_cache.refresh())
        return unrestricted and not blocked

    async def is_unblocked(self, user: NodeId) -> bool:
        """Whether nobody blocks the user."""
        return not await self._has_blocks(self._blocked, user, Direction.IN)

    async def is_in_no_block(self, user: NodeId) -> bool:
        """Whether the user neither blocks anybody nor is blocked."""
        return await self.is_unblocked(user) and not await self._has_blocks(self._blocking, user, Direction.OUT)

    async def _has_blocks(self, cached: CachedValues[bool], user: NodeId, side: Direction) -> bool:
        has_blocks = cached.now.get(user)
        return await self._read_blocks(cached, user, side) if has_blocks is None else has_blocks

    async def _read_blocks(self, cached: CachedValues[bool], user: NodeId, side: Direction) -> bool:
        generation = self.read_cache.generation
        lists = [Listing(self._blocks, user, side, state) for state in FORBIDDING_STATES]
        has_blocks = any(await self._store.count_many(lists))
        cached.keep(generation, {user: has_blocks})
        return has_blocks
