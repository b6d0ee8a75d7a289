"""A mention of an account is told to its followers chunk by chunk, a tier at a time, from wherever it was left.

What is to be done stands in notes, one for each mention and tier: how far the walk over the followers is, as the edge
store says it. So a mention costs the same few bytes with ten followers or with 200 million, a worker holds one chunk,
and a walk that is taken up elsewhere repeats one chunk at the most, whose rows are there already.

Two workers at one walk do no harm: each writes its step on the condition that the note is as it was read, and the rows
of both are the same. `tests/rooms/notifications/test_coordinator.py` stops one after each step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kith.core.errors import Overloaded
from kith.graph.graph import Graph
from kith.graph.store import Notes
from kith.notifications.activity import Activity, Users
from kith.notifications.backpressure import TASKS_MAX, watch_pressure
from kith.notifications.inbox import InboxStore
from kith.notifications.router import Router, followers_of
from kith.notifications.tiers import Tier, told_in

CHUNK_IDS = 100_000
WALKS_MAX = 3_000
"""Walks under way, three a mention of a celebrity; beyond, a mention waits in the log."""
_PREFIX = "mentions/walk/"

Wanted = Callable[[int, int, Users], Awaitable[NDArray[np.bool_]]]
"""(notice, account, users): who of them wants to be told that this account was mentioned, as of now."""


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """One tier of one mention: what is done, and the place after which it goes on."""

    notice: int
    account: int
    tier: Tier
    chunks: int  # about how many there are
    done: int = 0
    after: bytes | None = None
    told: int = 0  # rows that were new
    suppressed: int = 0  # followers of the tier who do not want it

    @property
    def waiting(self) -> int:
        """Chunks to do."""
        return max(1, self.chunks - self.done)


class Ended(msgspec.Struct, frozen=True):
    """How a walk ended. `left`: about how many chunks of followers were left to find the mention when they come."""

    walk: Walk
    left: int = 0


class Walks:
    """The walks that are under way, in notes."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def begin(self, walks: Sequence[Walk]) -> None:
        """Note walks, unless they are under way. Overloaded where there are too many."""
        under_way = await self.all()
        known = {(walk.notice, walk.tier) for walk in under_way}
        new = [walk for walk in walks if (walk.notice, walk.tier) not in known]
        if len(under_way) + len(new) > WALKS_MAX:
            raise Overloaded(f"mentions of {WALKS_MAX // 3} celebrities are being told; this one waits")
        for walk in new:
            await self._notes.put_note(_key(walk), _encode(walk), only_if=None)

    async def all(self) -> list[Walk]:
        """Every walk, in the order in which they are to be worked: by tier, then the oldest mention first."""
        return [_decode(raw) for _, raw in sorted((await self._notes.notes(_PREFIX)).items())]

    async def step(self, walk: Walk, further: Walk | None) -> bool:
        """Say how far a walk is now; None: it has ended. False if another worker did meanwhile."""
        value = None if further is None else _encode(further)
        return await self._notes.put_note(_key(walk), value, only_if=_encode(walk))


class Coordinator:
    """Begins the walks of a mention, and works them. `on_end` is told of each walk that ends.

    `tiers`: those that this worker works; a process for each keeps one from waiting for another. `wanted` is asked for
    each chunk, so that preferences of the moment hold. While the flag of `backpressure` stands, walks of the last tier
    are given up, and the others go on.
    """

    def __init__(
        self,
        graph: Graph,
        inboxes: InboxStore,
        activity: Activity,
        router: Router,
        wanted: Wanted,
        now_ms: Callable[[], int],
        *,
        tiers: Sequence[Tier] = tuple(Tier),
        chunk_ids: int = CHUNK_IDS,
        tasks_max: int = TASKS_MAX,
        on_end: Callable[[Ended], None] = lambda _: None,
    ) -> None:
        self._graph, self._inboxes, self._activity, self._router = graph, inboxes, activity, router
        self._wanted, self._now_ms, self._tiers, self._on_end = wanted, now_ms, tiers, on_end
        self._chunk_ids, self._tasks_max = chunk_ids, tasks_max
        self._walks = Walks(graph.store)

    async def begin(self, notice: int, account: int) -> None:
        """Have the followers of a mentioned account told of a notice. May be repeated. Errors: Overloaded.

        Those who all fit in a chunk, and go through no tiers, are told at once.
        """
        chunks = -(-await self._router.followers(account) // self._chunk_ids)
        walks = [Walk(notice, account, tier, chunks) for tier in await self._router.route(account)]
        if chunks <= 1 and len(walks) == 1:
            further, more = await self._tell_chunk(walks[0]) if chunks else (walks[0], False)
            if not more:
                self._on_end(Ended(further))
                return
        await self._walks.begin(walks)

    async def work(self) -> bool:
        """Tell the next chunk of the first walk of our tiers; true if more remains."""
        walks = await self._walks.all()
        pressed = await watch_pressure(
            self._graph.store, sum(walk.waiting for walk in walks), self._now_ms(), self._tasks_max
        )
        mine = [walk for walk in walks if walk.tier in self._tiers]
        if not mine:
            return False
        walk = mine[0]
        if pressed and walk.tier is Tier.MONTH:
            await self._end(walk, Ended(walk, walk.waiting))
            return len(mine) > 1
        further, more = await self._tell_chunk(walk)
        if more:
            await self._walks.step(walk, further)
        else:
            await self._end(walk, Ended(further))
        return more or len(mine) > 1

    async def _end(self, walk: Walk, ended: Ended) -> None:
        if await self._walks.step(walk, None):
            self._on_end(ended)

    async def _tell_chunk(self, walk: Walk) -> tuple[Walk, bool]:
        """Tell those of the next chunk whom the tier tells; how far the walk is then, and whether more follow."""
        listing = followers_of(self._graph, walk.account)
        chunk = await self._graph.store.chunk(listing, walk.after, self._chunk_ids)
        users = np.sort(chunk.ids)
        reached = users[await self._reached(walk.tier, users)]
        asked = reached[await self._wanted(walk.notice, walk.account, reached)] if len(reached) else reached
        told = await self._inboxes.add_for_all(walk.notice, asked) if len(asked) else 0
        further = msgspec.structs.replace(
            walk,
            done=walk.done + 1,
            after=chunk.after,
            told=walk.told + told,
            suppressed=walk.suppressed + len(reached) - len(asked),
        )
        return further, chunk.after is not None

    async def _reached(self, tier: Tier, users: Users) -> NDArray[np.bool_]:
        """Which of these users the tier tells now."""
        if tier is Tier.ALL or not len(users):
            return np.ones(len(users), np.bool_)
        now_ms = self._now_ms()
        online = await self._activity.online(users, now_ms)
        seen = np.zeros(len(users), np.int64) if tier is Tier.ONLINE else await self._activity.last_seen(users)
        return told_in(tier, online, seen, now_ms)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Walk).decode


def _key(walk: Walk) -> str:
    return f"{_PREFIX}{walk.tier.value}/{walk.notice:020}"
