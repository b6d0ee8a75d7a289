"""/preferences: which notifications the acting user wants, and when nothing may be pushed."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import msgspec

from kith.api.answers import ids_of
from kith.api.call import Call
from kith.api.operations import get, put
from kith.core.errors import Forbidden, InvalidContent
from kith.core.ids import NodeId
from kith.notifications.notice import NoticeType
from kith.notifications.preferences import DEFAULT, MentionsOf, Preferences, PreferenceStore, QuietHours

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


class QuietHoursPart(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """From one time of day to another, such as `22:00` to `07:00`, in the local time of a time zone
    (`Europe/Berlin`).
    """

    from_: str = msgspec.field(name="from")
    to: str
    time_zone: str


class PreferencesRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The complete preferences; fields that are left out get the defaults of a new user. `off`: notification types that
    the user does not want.

    `mentions`: whose mentions the user is notified of, besides their own: those of everyone they follow (`followed`),
    those of `accounts` that they follow (`these`, at most 1,000), or nobody else's (`me`). `none` turns their own off
    too. `accountsOff`: accounts whose actions the user is not notified of. In `quietHours` nothing is pushed to
    devices; notifications are listed all the same.
    """

    off: list[NoticeType] = msgspec.field(default_factory=list)
    mentions: MentionsOf = "me"
    accounts: list[int | str] = msgspec.field(default_factory=list)
    accounts_off: list[int | str] = msgspec.field(default_factory=list)
    quiet_hours: QuietHoursPart | None = None


class PreferencesAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Which notifications the user wants."""

    off: list[NoticeType]
    mentions: MentionsOf
    accounts: list[str]
    accounts_off: list[str]
    quiet_hours: QuietHoursPart | None


class PreferencesResource:
    """The notification preferences of users. `check` raises Forbidden for a removed account."""

    def __init__(self, preferences: PreferenceStore, check: Callable[[NodeId], Awaitable[None]]) -> None:
        self._preferences, self._check = preferences, check

    @get("/preferences", "The notification preferences of the acting user", callers="acting")
    async def get_preferences(self, call: Call) -> PreferencesAnswer:
        """The defaults, if the user has set none."""
        return _answer(await self._preferences.of(call.acting_user))

    @put("/preferences", "Set the notification preferences of the acting user", callers="acting")
    async def put_preferences(self, call: Call, body: PreferencesRequest) -> PreferencesAnswer:
        """Lists apply new preferences at once. For up to a minute notifications may still be stored under the old
        preferences; they are then not shown.
        """
        preferences = Preferences(
            tuple(dict.fromkeys(body.off)),
            body.mentions,
            ids_of(body.accounts, "accounts"),
            ids_of(body.accounts_off, "accountsOff"),
            None if body.quiet_hours is None else _quiet(body.quiet_hours),
        )
        await self._check(call.acting_user)
        call.note_write(await self._preferences.put(call.acting_user, preferences))
        try:
            await self._check(call.acting_user)
        except Forbidden:  # removed while this was written; what came before, the removal forgets
            await self._preferences.put(call.acting_user, DEFAULT)
            raise
        return _answer(preferences)


def _quiet(part: QuietHoursPart) -> QuietHours:
    return QuietHours(_minutes(part.from_), _minutes(part.to), part.time_zone)


def _minutes(clock: str) -> int:
    matched = _CLOCK.fullmatch(clock)
    if matched is None:
        raise InvalidContent("times of quietHours are written as 22:00", field="quietHours")
    return int(matched[1]) * 60 + int(matched[2])


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _answer(preferences: Preferences) -> PreferencesAnswer:
    quiet = preferences.quiet
    part = None if quiet is None else QuietHoursPart(_clock(quiet.start_min), _clock(quiet.end_min), quiet.time_zone)
    return PreferencesAnswer(
        list(preferences.off),
        preferences.mentions,
        list(map(str, preferences.accounts)),
        list(map(str, preferences.accounts_off)),
        part,
    )
