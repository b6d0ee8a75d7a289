"""Notifies an account's followers of a mention, chunk by chunk, a tier at a time, resuming from a checkpoint.

The work to do is stored in notes (`walks`). A worker holds one chunk in memory, so a walk that another worker resumes
repeats at most one chunk, whose rows exist already. The workers of a tier divide its walks by leases. Two workers on
one walk do no harm: each saves its step only if the note is unchanged, and both write the same rows.
`tests/rooms/notifications/test_coordinator.py` stops a worker after each step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from kith.core.backoff import is_due, pause_ms
from kith.core.errors import Unavailable
from kith.core.ids import made_at_ms
from kith.graph.graph import Graph
from kith.leases.holding import Leases
from kith.notifications.activity import Activity, Users
from kith.notifications.backpressure import TASKS_MAX, watch_pressure
from kith.notifications.inbox import InboxStore
from kith.notifications.router import Router, followers_of
from kith.notifications.tiers import DAY_MS, Tier, in_tier
from kith.notifications.walks import EndedWalk, Walk, Walks

CHUNK_IDS = 100_000
"""Followers in a chunk."""
AT_ONCE_MAX = 5_000
"""Followers who are notified at once, without a walk."""
PROBES_MAX = 200_000
"""Online users that are looked up among the followers. If more are online, the followers are walked instead."""
PROBES_A_CHUNK = 10_000
"""Online users in a chunk."""
PROBE_COST = 8
"""Followers that are walked in the time of one lookup."""
SLICE_CHUNKS = 8
"""Chunks of a walk that a worker does before it checks for a more urgent one."""
TRIES_MAX = 8
"""Failures of a chunk in a row after which its walk is dead: some four minutes."""
PAUSE_MS, PAUSE_MS_MAX = 2_000, 300_000
"""First and longest pause before a failed chunk is retried."""
_log = structlog.get_logger("kith.notifications")

WantMention = Callable[[int, int, Users], Awaitable[NDArray[np.bool_]]]
"""(notice, account, users): which of the users want to be notified, as of now, that this account was mentioned."""
RING_AGE_MAX_MS = DAY_MS
"""A mention older than this sends no rings, because it may have come again after a restore."""
OnEnd = Callable[[EndedWalk], Awaitable[None]]
"""Called with how a walk ended, before the walk is deleted, so perhaps again after a crash."""


NoteMentions = Callable[[Sequence[tuple[int, int]]], Awaitable[None]]
"""Called with mentions that go through tiers, as (account, notice): for the followers whom no tier notifies."""


class RingUsers(Protocol):
    """See `rings.Rings.ring`."""

    async def __call__(self, notice: int, users: Users, *, devices: bool) -> None:
        """Log that these users have a row of a notice."""
        ...


class Coordinator:
    """Begins the walks of a mention, and works them.

    `tiers`: those that this worker works; with a process for each, no tier waits for another. `want_mention` is called
    for each chunk, so the preferences of that moment hold. `ring` is called for the users of a chunk once their rows
    are written, `keep` for a mention that goes through tiers. While the flag of `backpressure` is up, walks of the last
    tier are given up; other tiers continue.
    """

    def __init__(
        self,
        graph: Graph,
        inboxes: InboxStore,
        activity: Activity,
        router: Router,
        want_mention: WantMention,
        leases: Leases,
        now_ms: Callable[[], int],
        on_end: OnEnd,
        ring: RingUsers,
        keep: NoteMentions,
        *,
        tiers: Sequence[Tier] = tuple(Tier),
        chunk_ids: int = CHUNK_IDS,
        tasks_max: int = TASKS_MAX,
    ) -> None:
        self._graph, self._inboxes, self._activity, self._router = graph, inboxes, activity, router
        self._want_mention, self._leases, self._now_ms, self._tiers = want_mention, leases, now_ms, tiers
        self._chunk_ids, self._tasks_max, self._on_end, self._ring = chunk_ids, tasks_max, on_end, ring
        self._keep = keep
        self._walks = Walks(graph.store)

    async def begin(self, notice: int, account: int) -> None:
        """Begin to notify the followers of a mentioned account of a notice. May be repeated. Errors: Overloaded.

        If they are few, and in a single tier, they are notified at once.
        """
        followers = await self._router.followers(account)
        chunks = max(1, -(-followers // self._chunk_ids))  # an account may just have got its first follower
        walks = [Walk(notice, account, tier, chunks) for tier in await self._router.route(account)]
        if len(walks) > 1:  # intake may have counted fewer followers a moment earlier, and not have kept the mention
            await self._keep([(account, notice)])
        if followers <= min(self._chunk_ids, AT_ONCE_MAX) and len(walks) == 1:
            next_walk, more = await self._deliver_chunk(walks[0])
            if not more:
                await self._on_end(EndedWalk(next_walk))
                return
        if walks[0].tier is Tier.ONLINE:
            walks[0] = await self._shorter_walk(walks[0], followers)
        for walk in await self._walks.begin(walks):
            await self._on_end(EndedWalk(walk, left=walk.waiting))

    async def begin_untiered(self, notice: int, account: int) -> None:
        """Begin to notify all followers who want it, without tiers. May be repeated. Errors: Overloaded."""
        chunks = max(1, -(-await self._router.followers(account) // self._chunk_ids))
        await self._walks.begin([Walk(notice, account, Tier.ALL, chunks)], again=True)

    async def _shorter_walk(self, walk: Walk, followers: int) -> Walk:
        """A walk of the first tier: over the online users, if that is less work than over the followers."""
        most = min(PROBES_MAX - 1, followers // PROBE_COST)
        online = len(await self._activity.online_page(-1, most + 1, self._now_ms()))
        if online > most:
            return walk
        return msgspec.structs.replace(walk, chunks=-(-online // PROBES_A_CHUNK), probes=True)

    async def work(self) -> bool:
        """Work some chunks of the first walk of this worker's tiers that is due and that no other worker holds.

        Returns whether there was one.
        """
        now_ms = self._now_ms()
        walks = [walk for walk in await self._walks.of(self._tiers) if is_due(walk.next_try_ms, now_ms, PAUSE_MS_MAX)]
        under_pressure = Tier.MONTH in self._tiers and bool(walks) and await self._is_under_pressure()
        for walk in walks:
            async with self._leases.hold(walk.key) as lease:
                if lease is not None and (current := await self._walks.current(walk)) is not None:
                    await self._work(current, yields=under_pressure and current.tier is Tier.MONTH)
                    return True
        return False

    async def _is_under_pressure(self) -> bool:
        waiting = sum(walk.waiting for walk in await self._walks.of(Tier))
        return await watch_pressure(self._graph.store, waiting, self._now_ms(), self._tasks_max)

    async def _work(self, walk: Walk, *, yields: bool) -> None:
        """Work the next chunks of a walk.

        A failed chunk is retried after a pause. After TRIES_MAX failures in a row the rest of the walk is given up as
        dead.
        """
        if yields:
            await self._end(walk, EndedWalk(walk, left=walk.waiting))
            return
        for _ in range(SLICE_CHUNKS):
            try:
                next_walk, more = await self._deliver_chunk(walk)
            except Unavailable:
                raise
            except Exception:
                await self._failed(walk)
                return
            if not more:
                await self._end(walk, EndedWalk(next_walk))
                return
            if not await self._walks.step(walk, next_walk):
                return
            walk = next_walk

    async def _failed(self, walk: Walk) -> None:
        tries = walk.tries + 1
        _log.exception("a chunk of a mention failed", notice=str(walk.notice), tier=walk.tier.name, tries=tries)
        if tries >= TRIES_MAX:
            await self._end(walk, EndedWalk(walk, dead=walk.waiting))
        else:
            next_try_ms = self._now_ms() + pause_ms(tries, PAUSE_MS, PAUSE_MS_MAX)
            await self._walks.step(walk, msgspec.structs.replace(walk, tries=tries, next_try_ms=next_try_ms))

    async def _end(self, walk: Walk, ended: EndedWalk) -> None:
        await self._on_end(ended)
        await self._walks.step(walk, None)

    async def _deliver_chunk(self, walk: Walk) -> tuple[Walk, bool]:
        """Notify the users of the next chunk who are in the tier; returns the walk then, and whether chunks follow."""
        users, after = await (self._next_online(walk) if walk.probes else self._next_followers(walk))
        recipients = users[await self._want_mention(walk.notice, walk.account, users)] if len(users) else users
        row_count = await self._inboxes.add_for_all(walk.notice, recipients) if len(recipients) else 0
        if (
            len(recipients) and self._now_ms() - made_at_ms(walk.notice) < RING_AGE_MAX_MS
        ):  # also rows that a stopped worker wrote
            await self._ring(walk.notice, recipients, devices=walk.tier is not Tier.MONTH)
        next_walk = msgspec.structs.replace(
            walk,
            done=walk.done + 1,
            after=after,
            told=walk.told + row_count,
            suppressed=walk.suppressed + len(users) - len(recipients),
            tries=0,
            next_try_ms=0,
        )
        return next_walk, after is not None

    async def _next_followers(self, walk: Walk) -> tuple[Users, bytes | None]:
        """Which of the next followers the tier notifies, ascending, and where to continue."""
        chunk = await self._graph.store.chunk(followers_of(self._graph, walk.account), walk.after, self._chunk_ids)
        users = np.sort(chunk.ids)
        return users[await self._in_tier(walk.tier, users)], chunk.after

    async def _next_online(self, walk: Walk) -> tuple[Users, bytes | None]:
        """Which of the next online users follow the account, ascending, and where to continue."""
        after = -1 if walk.after is None else int.from_bytes(walk.after, "big")
        online = await self._activity.online_page(after, PROBES_A_CHUNK, self._now_ms())
        follow = await self._graph.store.contains(followers_of(self._graph, walk.account), online)
        more = len(online) == PROBES_A_CHUNK
        return online[follow], int(online[-1]).to_bytes(8, "big") if more else None

    async def _in_tier(self, tier: Tier, users: Users) -> NDArray[np.bool_]:
        """Which of these users the tier notifies now."""
        if tier is Tier.ALL or not len(users):
            return np.ones(len(users), np.bool_)
        now_ms = self._now_ms()
        online = await self._activity.online(users, now_ms)
        last_seen = np.zeros(len(users), np.int64) if tier is Tier.ONLINE else await self._activity.last_seen(users)
        return in_tier(tier, online, last_seen, now_ms)
