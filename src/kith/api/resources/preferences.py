"""/preferences: what the acting user wants to be told of, and when nothing may ring."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import msgspec

from kith.api.answers import ids_of
from kith.api.call import Call
from kith.api.operations import get, put
from kith.core.errors import InvalidContent
from kith.core.ids import NodeId
from kith.notifications.notice import NoticeType
from kith.notifications.preferences import MentionsOf, Preferences, PreferencesKept, QuietHours

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


class QuietHoursPart(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """From one time of day to another, `22:00` to `07:00`, by the clocks of a time zone (`Europe/Berlin`)."""

    from_: str = msgspec.field(name="from")
    to: str
    time_zone: str


class PreferencesRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """All preferences; what is left out is as it is for a new user. `off`: types that the user is not told of.

    `mentions`: besides those of the user, of all whom they follow (`followed`), of `accounts` (1,000 at most) among
    these only (`these`), of nobody else (`me`), or none at all. `accountsOff`: whose doings the user is not told of.
    In `quietHours` nothing rings; it is listed all the same.
    """

    off: list[NoticeType] = msgspec.field(default_factory=list)
    mentions: MentionsOf = "me"
    accounts: list[int | str] = msgspec.field(default_factory=list)
    accounts_off: list[int | str] = msgspec.field(default_factory=list)
    quiet_hours: QuietHoursPart | None = None


class PreferencesAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What the user wants to be told of."""

    off: list[NoticeType]
    mentions: MentionsOf
    accounts: list[str]
    accounts_off: list[str]
    quiet_hours: QuietHoursPart | None


class PreferencesResource:
    """What users want to be told of. `check`: raises Forbidden for a removed account."""

    def __init__(self, preferences: PreferencesKept, check: Callable[[NodeId], Awaitable[None]]) -> None:
        self._preferences, self._check = preferences, check

    @get("/preferences", "What the acting user wants to be told of", callers="acting")
    async def get_preferences(self, call: Call) -> PreferencesAnswer:
        """Those of a new user, where none were set."""
        return _answer(await self._preferences.of(call.acting))

    @put("/preferences", "Set what the acting user wants to be told of", callers="acting")
    async def put_preferences(self, call: Call, body: PreferencesRequest) -> PreferencesAnswer:
        """Lists follow them at once. What happens within the next minute may still be stored by the old preferences,
        and is then not shown.
        """
        wanted = Preferences(
            tuple(dict.fromkeys(body.off)),
            body.mentions,
            ids_of(body.accounts, "accounts"),
            ids_of(body.accounts_off, "accountsOff"),
            None if body.quiet_hours is None else _quiet(body.quiet_hours),
        )
        await self._check(call.acting)
        call.wrote(await self._preferences.put(call.acting, wanted))
        return _answer(wanted)


def _quiet(part: QuietHoursPart) -> QuietHours:
    return QuietHours(_minutes(part.from_), _minutes(part.to), part.time_zone)


def _minutes(clock: str) -> int:
    found = _CLOCK.fullmatch(clock)
    if found is None:
        raise InvalidContent("times of quietHours are written as 22:00", field="quietHours")
    return int(found[1]) * 60 + int(found[2])


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _answer(found: Preferences) -> PreferencesAnswer:
    quiet = found.quiet
    part = None if quiet is None else QuietHoursPart(_clock(quiet.start_min), _clock(quiet.end_min), quiet.time_zone)
    return PreferencesAnswer(
        list(found.off), found.mentions, list(map(str, found.accounts)), list(map(str, found.accounts_off)), part
    )
