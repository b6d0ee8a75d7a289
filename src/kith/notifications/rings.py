"""Logs that followers got rows of a mention, so that streams and devices are notified.

    record MENTION_RING, id of the notice   MessagePack: `Ring`

Written once per chunk, after the chunk's rows. Nobody reads the record itself: each version of it is an event of the
log. It lists only followers with a device, who are few; streams query which of their readers have a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.core.clock import HybridClock
from kith.notifications.activity import Users
from kith.records.rewriting import next_version, rewrite
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore

LOOKED_UP_MAX = 5_000
"""Users whose devices one call looks up."""
USERS_MAX = 1_000
"""Users of a ring. More users take more rings."""


class Ring(msgspec.Struct, frozen=True, array_like=True):
    """Some followers now have a row of the notice. `users`: the followers among them whose devices are to ring."""

    users: tuple[int, ...] = ()


class Rings:
    """Writes rings into the log."""

    def __init__(self, records: RecordStore, clock: HybridClock) -> None:
        self._records, self._clock = records, clock

    async def ring(self, notice: int, users: Users, *, devices: bool) -> None:
        """Log that these users have a row of a notice. `devices`: whether theirs are to ring. May be repeated."""
        ringing = await self._with_devices(users) if devices else []
        for start in range(0, max(1, len(ringing)), USERS_MAX):
            await self._put(notice, Ring(tuple(ringing[start : start + USERS_MAX])))

    async def _with_devices(self, users: Users) -> list[int]:
        """The users who have, or had, a device."""
        with_device: list[int] = []
        for start in range(0, len(users), LOOKED_UP_MAX):
            part: Sequence[int] = users[start : start + LOOKED_UP_MAX].tolist()
            records = await self._records.get_many(RecordKind.DEVICES, part)
            with_device += [user for user, record in zip(part, records, strict=True) if record is not None]
        return with_device

    async def _put(self, notice: int, ring: Ring) -> None:
        async def attempt() -> tuple[Put, None]:
            (stored,) = await self._records.get_many(RecordKind.MENTION_RING, [notice])
            record = Record(RecordKind.MENTION_RING, notice, next_version(self._clock, stored), _encode(ring))
            at_version = AtVersion(RecordKind.MENTION_RING, notice, 0 if stored is None else stored.updated_at)
            return await self._records.put([record], only_if=[at_version]), None

        await rewrite("what rings for a mention", notice, attempt)


def read_ring(data: bytes) -> Ring:
    """The ring in a record's data."""
    return _decode(data)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ring).decode
