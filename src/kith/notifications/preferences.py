"""What a user wants to be notified of, and when devices must not ring: one record per user.

Preferences are checked before a notice is written (at most `CACHED_MS` old), and again at each read (current).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from kith.core.clock import HybridClock
from kith.core.errors import InvalidContent
from kith.core.ids import NodeId
from kith.core.tokens import WriteMark
from kith.notifications.notice import NoticeType
from kith.records.rewriting import next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore

CACHED_MS = 60_000
"""How long preferences are cached."""
CACHED_MAX = 50_000
"""Users whose preferences a process caches."""
ACCOUNTS_MAX = 1_000
"""Accounts in each list of a user's preferences."""
DAY_MINUTES = 1_440
MentionsOf = Literal["followed", "these", "me", "none"]


class QuietHours(msgspec.Struct, frozen=True, array_like=True):
    """From `start_min` up to, but not including, `end_min`: minutes since midnight in a time zone.

    They span midnight if `end_min` is smaller.
    """

    start_min: int
    end_min: int
    time_zone: str


class Preferences(msgspec.Struct, frozen=True, array_like=True):
    """What a user wants to be notified of.

    `off`: types that they do not want. `mentions`: which they want: of all accounts that they follow ("followed"), of
    `accounts` among these ("these"), of themselves only ("me"), or none. "followed" and "these" include mentions of
    themselves. `accounts_off`: actors whose actions never notify them.
    """

    off: tuple[NoticeType, ...] = ()
    mentions: MentionsOf = "me"
    accounts: tuple[int, ...] = ()
    accounts_off: tuple[int, ...] = ()
    quiet: QuietHours | None = None

    def allow(self, type_: NoticeType, actor: int, recipient: int, user: int) -> bool:
        """Whether `user`, whose preferences these are, wants to be notified of this."""
        if type_ in self.off or actor in self.accounts_off:
            return False
        if type_ != "mention":
            return True
        if recipient == user:
            return self.mentions != "none"
        return self.mentions == "followed" or (self.mentions == "these" and recipient in self.accounts)


DEFAULT = Preferences()
_NOT_ZONES = ("localtime", "posixrules", "Factory")
"""Files among those of time zones that name no zone: they depend on the machine's own settings."""
_COPIED_ZONES = ("posix/", "right/")
"""Folders in which some machines have the zones once more; `right/` counts leap seconds."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Preferences).decode


def preferences_of(record: Record | None) -> Preferences:
    """The preferences in a record; DEFAULT without one."""
    return DEFAULT if record is None else _decode(record.data)


def is_quiet(quiet: QuietHours | None, at_ms: int) -> bool:
    """Whether no device may ring at this moment: it is in the user's quiet hours, by their local time.

    False if this machine does not know the time zone: the machine that accepted the zone has, or had, other zone data.
    """
    zone = None if quiet is None else _zone_of(quiet.time_zone)
    if quiet is None or zone is None:
        return False
    local_time = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    minute = local_time.hour * 60 + local_time.minute
    if quiet.start_min <= quiet.end_min:
        return quiet.start_min <= minute < quiet.end_min
    return minute >= quiet.start_min or minute < quiet.end_min


def check_preferences(preferences: Preferences) -> None:
    """Raise InvalidContent if there are too many or needless accounts, or if a time or its zone does not exist."""
    for field, accounts in (("accounts", preferences.accounts), ("accountsOff", preferences.accounts_off)):
        if len(accounts) > ACCOUNTS_MAX:
            raise InvalidContent(f"{field} takes at most {ACCOUNTS_MAX} ids", field=field, max=ACCOUNTS_MAX)
    if preferences.mentions != "these" and preferences.accounts:
        raise InvalidContent("accounts are for mentions of `these`; leave them out otherwise", field="accounts")
    quiet = preferences.quiet
    if quiet is None:
        return
    if not (0 <= quiet.start_min < DAY_MINUTES and 0 <= quiet.end_min < DAY_MINUTES):
        raise InvalidContent("quiet hours go from 00:00 to 23:59", field="quietHours")
    if quiet.start_min == quiet.end_min:
        raise InvalidContent(
            "quiet hours that end when they begin are none: leave quietHours out, or choose another time",
            field="quietHours",
        )
    name = quiet.time_zone
    if name.startswith(_COPIED_ZONES) or name in _NOT_ZONES or _zone_of(name) is None:
        raise InvalidContent("timeZone must be a name such as Europe/Berlin", field="timeZone")


def _zone_of(name: str) -> ZoneInfo | None:
    """The time zone of this name; None if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


class PreferenceStore:
    """Reads and writes the preferences of users."""

    def __init__(
        self, records: RecordStore, clock: HybridClock, now_ms: Callable[[], float] = lambda: time.monotonic() * 1000
    ) -> None:
        self._records, self._clock, self._now_ms = records, clock, now_ms
        self._cached: dict[int, tuple[float, Preferences]] = {}

    async def of(self, user: NodeId) -> Preferences:
        """The preferences of a user, as they are now."""
        return (await self._read([user]))[user]

    async def cached(self, users: Sequence[int]) -> Mapping[int, Preferences]:
        """The preferences of each user, at most CACHED_MS old."""
        now_ms, cached = self._now_ms(), dict[int, Preferences]()
        for user in users:
            entry = self._cached.get(user)
            if entry is not None and now_ms - entry[0] < CACHED_MS:
                cached[user] = entry[1]
        stored = await self._read([user for user in dict.fromkeys(users) if user not in cached])
        for user, preferences in stored.items():
            self._cache(user, preferences)
        return cached | stored

    async def put(self, user: NodeId, preferences: Preferences) -> WriteMark:
        """Replace the preferences of a user. Errors: InvalidContent."""
        check_preferences(preferences)

        async def replace() -> tuple[Put, None]:
            (stored,) = await self._records.get_many(RecordKind.NOTICE_PREFERENCES, [user])
            version = next_version(self._clock, stored)
            record = Record(RecordKind.NOTICE_PREFERENCES, user, version, _encode(preferences))
            record = record if preferences == DEFAULT else with_newer_fields(record, stored)
            at_version = AtVersion(RecordKind.NOTICE_PREFERENCES, user, 0 if stored is None else stored.updated_at)
            return await self._records.put([record], only_if=[at_version]), None

        put, _ = await rewrite("these preferences", user, replace)
        self._cache(user, preferences)
        return put.mark

    async def _read(self, users: Sequence[int]) -> dict[int, Preferences]:
        stored = await read_preferences(self._records, users) if users else {}
        return {user: stored.get(user, DEFAULT) for user in users}

    def _cache(self, user: int, preferences: Preferences) -> None:
        self._cached.pop(user, None)
        self._cached[user] = (self._now_ms(), preferences)
        if len(self._cached) > CACHED_MAX:
            del self._cached[next(iter(self._cached))]


async def read_preferences(records: RecordStore, users: Sequence[int]) -> dict[int, Preferences]:
    """The current preferences of the users who have set any; the others have DEFAULT."""
    stored = await records.get_many(RecordKind.NOTICE_PREFERENCES, users)
    return {user: _decode(record.data) for user, record in zip(users, stored, strict=True) if record is not None}
