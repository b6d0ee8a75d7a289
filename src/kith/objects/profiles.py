"""Profiles: what a user says of themselves. Ids come from the app, so a user without one has an empty profile.

Whether an account is private or deactivated is kept by the graph (`EdgeStore.nodes`), because follows depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kith.core.clock import Hlc, HybridClock
from kith.core.errors import Conflict
from kith.core.ids import NodeId
from kith.core.tokens import WriteMark
from kith.objects.posts import NO_ATTRIBUTES, check_text
from kith.objects.service import REWRITES_MAX
from kith.objects.store import AtVersion, Kind, ObjectStore, Record

NAME_CHARS_MAX = 100
BIO_CHARS_MAX = 1_000


class Profile(msgspec.Struct, frozen=True, array_like=True):
    """A profile, as stored: an array in this order. New fields come last and have a default."""

    name: str = ""
    bio: str = ""
    avatar: int | None = None  # id of a media object
    attributes: bytes = NO_ATTRIBUTES  # the app's own JSON object


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Profile).decode


class Profiles:
    """Reads and changes profiles."""

    def __init__(self, store: ObjectStore, clock: HybridClock) -> None:
        self._store, self._clock = store, clock

    async def get_many(self, users: Sequence[int]) -> list[Profile]:
        """One profile a user, in their order."""
        return [_read(record) for record in await self._store.get_many(Kind.USER, users)]

    async def change(self, user: NodeId, change: Callable[[Profile], Profile]) -> tuple[Profile, WriteMark]:
        """Replace a profile by `change` of it. Errors: InvalidContent; Conflict where too many do so at once."""
        for _ in range(REWRITES_MAX):
            (stored,) = await self._store.get_many(Kind.USER, [user])
            profile, version = change(_read(stored)), 0 if stored is None else stored.updated_at
            check_text(profile.name, needed=False, chars_max=NAME_CHARS_MAX, field="name")
            check_text(profile.bio, needed=False, chars_max=BIO_CHARS_MAX, field="bio")
            record = Record(Kind.USER, user, max(self._clock.next(), Hlc(version + 1)), _encode(profile))
            put = await self._store.put([record], only_if=[AtVersion(Kind.USER, user, version)])
            if put.stored:
                return profile, put.mark
        raise Conflict("this profile is being changed by many at once; try again", id=str(user))


def _read(record: Record | None) -> Profile:
    return Profile() if record is None else _decode(record.data)
