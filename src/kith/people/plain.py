"""Whether anything has to be asked of people: most are there for everybody, and most are in no block.

What is known is kept until the log tells a change (`records.memory`), and stands as of the last look. Who finds that
all is plain asks no rules; else the rules are asked as ever (`privacy`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.ids import NodeId
from kith.graph.edge import BARRING, Direction
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS
from kith.graph.shapes import Listing, Node
from kith.records.memory import ReadMemory, Remembered

ACCOUNTS_MAX, USERS_MAX = 100_000, 50_000
"""Accounts, and users whose blocks are kept, 0.1 KB each."""
_PLAIN = Node()


class PlainPeople:
    """Knows of whom nothing has to be asked. `memory`: is looked at by who asks, before; only where it is `immediate`
    is anybody plain.
    """

    def __init__(self, graph: Graph, memory: ReadMemory) -> None:
        self._store, self._blocks, self.memory = graph.store, graph.graphs.number(BLOCKS), memory
        self._accounts: Remembered[bool] = memory.of_nodes(ACCOUNTS_MAX)
        self._blocked: Remembered[bool] = memory.of_edges((self._blocks,), USERS_MAX)
        self._blocking: Remembered[bool] = memory.of_edges((self._blocks,), USERS_MAX)

    async def are_plain(self, users: Sequence[int]) -> bool:
        """Whether all these accounts are there for everybody: active, public, without labels."""
        kept, moment = self._accounts.now, self.memory.moment
        known = list(map(kept.get, users))
        if False in known:
            return False
        if None in known:
            missing = [user for user, plain in zip(users, known, strict=True) if plain is None]
            found = {user: node == _PLAIN for user, node in zip(missing, await self._store.nodes(missing), strict=True)}
            self._accounts.keep(moment, found)
            return all(found.values())
        return True

    async def is_unblocked(self, user: NodeId) -> bool:
        """Whether nobody blocks the user."""
        return not await self._has_blocks(self._blocked, user, Direction.IN)

    async def is_in_no_block(self, user: NodeId) -> bool:
        """Whether the user neither blocks anybody nor is blocked."""
        return await self.is_unblocked(user) and not await self._has_blocks(self._blocking, user, Direction.OUT)

    async def _has_blocks(self, kept: Remembered[bool], user: NodeId, side: Direction) -> bool:
        found = kept.now.get(user)
        if found is None:
            moment = self.memory.moment
            lists = [Listing(self._blocks, user, side, state) for state in BARRING]
            found = any(await self._store.count_many(lists))
            kept.keep(moment, {user: found})
        return found
