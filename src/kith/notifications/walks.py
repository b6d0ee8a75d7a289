"""Checkpoints of mentions: a note for each mention and tier says how far the walk over the followers is.

    mentions/walk/<tier>/<notice>   a `Walk`, MessagePack

A walk takes the same few bytes for ten followers or 200 million. Each tier has its own notes and its own bound, so a
full tier does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kith.core.errors import Overloaded
from kith.core.ids import made_at_ms
from kith.graph.store import Notes
from kith.notifications.tiers import Tier
from kith.records.rewriting import newer_fields

_PREFIX = "mentions/walk/"
WALKS_MAX = 3_000
"""Walks of a tier at a time. Beyond, a mention waits in the log; in the last tier followers find it in the inbox."""


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """One tier of one mention: what is done, and where to resume."""

    notice: int
    account: int
    tier: Tier
    chunks: int  # in all, estimated
    done: int = 0  # chunks
    after: bytes | None = None  # the place after which the next chunk begins
    told: int = 0  # rows that were new
    suppressed: int = 0  # followers of the tier who do not want it
    tries: int = 0  # failures of the next chunk
    probes: bool = False  # walks the online users and looks up which of them follow; else walks the followers
    next_try_ms: int = 0  # after a failure: when to retry, in ms since the epoch

    @property
    def waiting(self) -> int:
        """Chunks left to do."""
        return max(1, self.chunks - self.done)

    @property
    def key(self) -> str:
        """The key of its note, and the name of the lease that its worker holds."""
        return f"{_PREFIX}{self.tier.value}/{self.notice:020}"


class EndedWalk(msgspec.Struct, frozen=True):
    """How a walk ended.

    `left`: about how many chunks it skipped, whose followers find the mention on opening the inbox. `dead`: about how
    many chunks were given up after failures.
    """

    walk: Walk
    left: int = 0
    dead: int = 0


class WalkBacklog(msgspec.Struct, frozen=True):
    """The backlog of a tier."""

    walks: int
    chunks: int
    oldest_s: float


class Walks:
    """The walks that are under way."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def begin(self, walks: Sequence[Walk], *, again: bool = False) -> list[Walk]:
        """Store walks that are not under way yet. Overloaded if a tier has too many.

        Returns the walks of the last tier for which there is no room, instead of raising. `again`: leave half of the
        room to new mentions.
        """
        new, without_room = list[Walk](), list[Walk]()
        room = WALKS_MAX - WALKS_MAX // 2 if again else WALKS_MAX
        for walk in walks:
            under_way = await self._notes.notes(prefix_of(walk.tier))
            if walk.key in under_way:
                continue
            if len(under_way) < room:
                new.append(walk)
            elif walk.tier is Tier.MONTH:
                without_room.append(walk)
            else:
                raise Overloaded(f"{room} mentions are being told in tier {walk.tier.name}; this one waits")
        for walk in new:
            await self._notes.put_note(walk.key, _encode(walk), only_if=None)
        return without_room

    async def of(self, tiers: Iterable[Tier]) -> list[Walk]:
        """The walks of some tiers in the order of work: the shortest first, then the oldest; failed ones last.

        So a mention with few followers does not wait for one with millions.
        """
        walks = [walk for tier in tiers for walk in read_walks((await self._notes.notes(prefix_of(tier))).values())]
        return sorted(walks, key=lambda walk: (walk.tries, walk.waiting, walk.notice))

    async def current(self, walk: Walk) -> Walk | None:
        """A walk as it is now; None if it has ended."""
        raw = await self._notes.get_note(walk.key)
        return None if raw is None else _decode(raw)

    async def step(self, walk: Walk, next_walk: Walk | None) -> bool:
        """Save how far a walk is; None: it has ended. Returns false if another worker saved it meanwhile."""
        raw = await self._notes.get_note(walk.key)
        if raw is None or _decode(raw) != walk:
            return False
        value = None if next_walk is None else newer_fields(_encode(next_walk), raw)
        return await self._notes.put_note(walk.key, value, only_if=raw)


def read_walks(notes: Iterable[bytes]) -> list[Walk]:
    """The walks stored in these notes."""
    return [_decode(raw) for raw in notes]


def backlog_of(walks: Sequence[Walk], now_ms: int) -> WalkBacklog:
    """How much waits, and for how long."""
    oldest_ms = min((made_at_ms(walk.notice) for walk in walks), default=now_ms)
    return WalkBacklog(len(walks), sum(walk.waiting for walk in walks), max(0, now_ms - oldest_ms) / 1000)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Walk).decode


def prefix_of(tier: Tier) -> str:
    """The prefix of the keys of a tier's notes."""
    return f"{_PREFIX}{tier.value}/"
