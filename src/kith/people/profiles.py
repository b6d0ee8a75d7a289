"""Profiles: names, biography, avatar. User ids come from the app, so a user without a record has an empty profile.

Whether an account is private, deactivated or labelled is stored in the graph (`EdgeStore.nodes`), because follows and
suggestions depend on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from kith.core.clock import HybridClock
from kith.core.ids import NodeId
from kith.core.tokens import WriteMark
from kith.people.names import index_writes
from kith.people.usernames import NameChange, change_name, check_username, fold, holder_of
from kith.records.fields import NO_ATTRIBUTES, check_text
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore

NAME_CHARS_MAX = 100
BIO_CHARS_MAX = 1_000


class Profile(msgspec.Struct, frozen=True, array_like=True):
    """A profile, as stored: an array in this order. New fields come last and have a default."""

    display_name: str = ""
    bio: str = ""
    avatar: int | None = None  # id of an image that the user uploaded
    attributes: bytes = NO_ATTRIBUTES  # the app's own JSON object
    username: str = ""  # as the user spells it; "" for none
    verified: bool = False  # the app has verified who this is


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Profile).decode

CheckImage = Callable[[NodeId, int, str], Awaitable[None]]
"""Takes (user, id, field). InvalidContent, naming the field, unless the id is an image that the user uploaded."""


class Profiles:
    """Reads and changes profiles, usernames included. `names`: the graph of the index of names."""

    def __init__(self, store: RecordStore, clock: HybridClock, check_image: CheckImage, names: int) -> None:
        self.store, self._clock, self._check_image, self._names = store, clock, check_image, names

    async def get_many(self, users: Sequence[int]) -> list[Profile]:
        """The profile of each user, in their order."""
        return [read_profile(record) for record in await self.store.get_many(RecordKind.USER, users)]

    async def named(self, username: str) -> NodeId | None:
        """The user with this username, in any spelling; None if nobody has it."""
        user = await holder_of(self.store, username)
        if user is None:
            return None
        (profile,) = await self.get_many([user])
        return NodeId(user) if fold(profile.username) == fold(username) else None

    async def change(self, user: NodeId, change: Callable[[Profile], Profile]) -> tuple[Profile, WriteMark]:
        """Replace a profile by the result of `change`, which is called again if another write came between.

        Errors: InvalidContent; UsernameTaken; Conflict if too many change it at once.
        """

        async def replace() -> tuple[Put, Profile]:
            (stored,) = await self.store.get_many(RecordKind.USER, [user])
            old, stored_at = read_profile(stored), 0 if stored is None else stored.updated_at
            profile, version = change(old), next_version(self._clock, stored)
            _check(profile)
            if profile.avatar is not None and profile.avatar != old.avatar:
                await self._check_image(user, profile.avatar, "avatar")
            renamed = NameChange([], [], [])
            if fold(profile.username) != fold(old.username):
                renamed = await change_name(self.store, user, (old.username, profile.username), version, self._disown)
            record = Record(RecordKind.USER, user, version, _encode(profile))
            if profile != Profile():
                record = with_newer_fields(record, stored)
            only_if = [*renamed.only_if, AtVersion(RecordKind.USER, user, stored_at)]
            names = [(one.username, one.display_name) for one in (old, profile)]
            entries = index_writes(self._names, user, names[0], names[1], version, atomic=self.store.transactional)
            put = await self.store.put([*renamed.before, record, *renamed.after], entries, only_if=only_if)
            return put, profile

        put, profile = await rewrite("this profile", user, replace)
        return profile, put.mark

    async def forget(self, user: NodeId) -> None:
        """Empty a profile and release its username."""
        await self.change(user, lambda _: Profile())

    async def _disown(self, user: int, name: str) -> bool:
        """Rewrite a profile that does not show the folded `name`, so that changes made from its older version fail.

        False if it shows the name.
        """

        async def write_anew() -> tuple[Put, bool]:
            (stored,) = await self.store.get_many(RecordKind.USER, [user])
            profile, stored_at = read_profile(stored), 0 if stored is None else stored.updated_at
            if fold(profile.username) == name:
                return NOTHING_TO_DO, False
            record = Record(RecordKind.USER, user, next_version(self._clock, stored), _encode(profile))
            record = with_newer_fields(record, stored)
            return await self.store.put([record], only_if=[AtVersion(RecordKind.USER, user, stored_at)]), True

        return (await rewrite("this username", user, write_anew))[1]


def _check(profile: Profile) -> None:
    check_text(profile.display_name, needed=False, chars_max=NAME_CHARS_MAX, field="displayName")
    check_text(profile.bio, needed=False, chars_max=BIO_CHARS_MAX, field="bio")
    if profile.username:
        check_username(profile.username)


def read_profile(record: Record | None) -> Profile:
    """The profile of a record; an empty one if there is no record."""
    return Profile() if record is None else _decode(record.data)
