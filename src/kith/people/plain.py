"""Whether anything has to be asked of people: most are there for everybody, and most are in no block.

What is known is kept until the log tells a change (`records.memory`), and stands as of the last look. Who finds that
all is plain asks no rules; else the rules are asked as ever (`privacy`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from kith.core.ids import NodeId
from kith.graph.edge import BARRING, Direction
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS
from kith.graph.shapes import Listing, Node
from kith.records.memory import ReadMemory, Remembered

ACCOUNTS_MAX, USERS_MAX = 100_000, 50_000
"""Accounts, and users whose blocks are kept, 0.1 KB each."""
_PLAIN = Node()
_LISTS = tuple(itertools.product(Direction, BARRING))


class _Blocks(NamedTuple):
    """Whether a user blocks anybody, and whether anybody blocks them."""

    out: bool
    into: bool


class PlainPeople:
    """Knows of whom nothing has to be asked. `memory`: is looked at by who asks, before; only where it is `immediate`
    is anybody plain.
    """

    def __init__(self, graph: Graph, memory: ReadMemory) -> None:
        self._store, self._blocks, self.memory = graph.store, graph.graphs.number(BLOCKS), memory
        self._accounts: Remembered[bool] = memory.of_nodes(ACCOUNTS_MAX)
        self._users: Remembered[_Blocks] = memory.of_edges((self._blocks,), USERS_MAX)

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
        return not (await self._blocks_of(user)).into

    async def is_in_no_block(self, user: NodeId) -> bool:
        """Whether the user neither blocks anybody nor is blocked."""
        return True not in await self._blocks_of(user)

    async def _blocks_of(self, user: NodeId) -> _Blocks:
        found = self._users.now.get(user)
        if found is None:
            moment = self.memory.moment
            lists = [Listing(self._blocks, user, direction, state) for direction, state in _LISTS]
            counts = dict(zip(_LISTS, await self._store.count_many(lists), strict=True))
            found = _Blocks(*(any(counts[side, state] for state in BARRING) for side in (Direction.OUT, Direction.IN)))
            self._users.keep(moment, {user: found})
        return found
