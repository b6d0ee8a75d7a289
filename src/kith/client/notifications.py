"""Calls about notifications: what a user is told of, what they read, what they want; mentions of other systems.

As in `graphs`, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import field

from kith.client.answers import Id, Page, Record
from kith.client.asking import BASE, PAGE_SIZE, checked_id, checked_ids, listed, reader, several
from kith.client.objects import Author
from kith.client.wire import Call

NotificationType: TypeAlias = Literal[
    "mention",
    "comment",
    "reply",
    "like",
    "share",
    "follow",
    "follow_request",
    "follow_accepted",
    "board_follow",
    "board_invite",
]


class NotificationPost(Record, frozen=True, kw_only=True):
    """The post that a notification is about; `preview`: how it begins."""

    id: int
    author_id: int
    type: str
    preview: str


class NotificationComment(Record, frozen=True, kw_only=True):
    """The comment that a notification is about; `preview`: how it begins."""

    id: int
    author_id: int
    preview: str


class NotificationBoard(Record, frozen=True, kw_only=True):
    """The board that a notification is about."""

    id: int
    owner_id: int
    name: str


class Notification(Record, frozen=True, kw_only=True):
    """Something that others did. `ids`: those that stand here as one; mark these as read. `type`: a `NotificationType`,
    or what a newer service calls it. `actors`: up to 3 of `actor_count`. `partial`: older ones of it may be on a later
    page. `mentioned`: who, if not the user.
    """

    id: int
    ids: list[int]
    type: str
    actors: list[Author]
    actor_count: int
    partial: bool = False
    post: NotificationPost | None = None
    comment: NotificationComment | None = None
    board: NotificationBoard | None = None
    mentioned: Author | None = None
    read: bool
    seen: bool
    at: datetime


class NotificationPage(Page[Notification], frozen=True, kw_only=True):
    """`unread`: how many notifications are, one by one, on all pages; `partial`: of the newest 1,000."""

    unread: int


class Unread(Record, frozen=True, kw_only=True):
    """`partial`: there are more, beyond the newest 1,000."""

    count: int
    partial: bool = False


class Marked(Record, frozen=True, kw_only=True):
    """How many are unread now."""

    unread: int


class Mentioned(Record, frozen=True, kw_only=True):
    """`accepted`: whether the mentioned user is told."""

    event_id: str
    accepted: bool


class QuietHours(Record, frozen=True, kw_only=True):
    """From one time of day to another (`22:00`, `07:00`), in a time zone (`Europe/Berlin`)."""

    from_: str = field(name="from")
    to: str
    time_zone: str


class Preferences(Record, frozen=True, kw_only=True):
    """What a user wants to be told of; see `put_preferences`."""

    off: list[NotificationType]
    mentions: Literal["followed", "these", "me", "none"]
    accounts: list[int]
    accounts_off: list[int]
    quiet_hours: QuietHours | None = None


_notifications = reader(NotificationPage)
_unread = reader(Unread)
_marked = reader(Marked)
_mentioned = reader(Mentioned)
_preferences = reader(Preferences)


def notifications(
    *, grouped: bool = True, page_size: int = PAGE_SIZE, cursor: str | None = None
) -> Call[NotificationPage]:
    """What others did that concerns the acting user, newest first, of the last 90 days.

    `grouped`: likes, shares and follows of one thing are one item.
    """
    call = listed(f"{BASE}/notifications", _notifications, page_size, cursor)
    return call.asking(grouped="true" if grouped else "false")


def unread_notifications() -> Call[Unread]:
    """How many notifications the acting user has not read: exactly those that the list shows as unread."""
    return Call("GET", f"{BASE}/notifications/unread", _unread)


def mark_read(ids: Sequence[Id] | None = None, *, up_to: Id | None = None) -> Call[Marked]:
    """Mark these notifications as read, or all up to one."""
    return _mark("read", ids, up_to)


def mark_seen(ids: Sequence[Id] | None = None, *, up_to: Id | None = None) -> Call[Marked]:
    """Mark notifications as seen: up to the newest of `ids`, or all up to one."""
    return _mark("seen", ids, up_to)


def report_mention(
    event_id: str, actor: Id, mentioned: Id, *, post: Id | None = None, at: datetime | None = None
) -> Call[Mentioned]:
    """Report a mention from another system, under an id of yours; repeating it tells nothing more. Takes a server key.

    `at`: when it was, within the last 90 days.
    """
    body = {
        "eventId": event_id,
        "actor": checked_id(actor, "actor"),
        "mentioned": checked_id(mentioned, "mentioned"),
        "post": None if post is None else checked_id(post, "post"),
        "at": at,
    }
    return Call("POST", f"{BASE}/mentions", _mentioned, body=body)


def preferences() -> Call[Preferences]:
    """What the acting user wants to be told of."""
    return Call("GET", f"{BASE}/preferences", _preferences)


def put_preferences(
    *,
    off: Iterable[NotificationType] = (),
    mentions: Literal["followed", "these", "me", "none"] = "me",
    accounts: Iterable[Id] = (),
    accounts_off: Iterable[Id] = (),
    quiet_hours: QuietHours | None = None,
) -> Call[Preferences]:
    """Set all preferences of the acting user; what is left out is as for a new user.

    `off`: types not told. `mentions`: besides the user's own, of all whom they follow, of `accounts` among these, of
    nobody else, or none at all. `accounts_off`: whose doings are not told. In `quiet_hours` nothing rings.
    """
    body = {
        "off": [*several(off, "off")],
        "mentions": mentions,
        "accounts": checked_ids(accounts, "accounts"),
        "accountsOff": checked_ids(accounts_off, "accounts_off"),
        "quietHours": quiet_hours,
    }
    return Call("PUT", f"{BASE}/preferences", _preferences, body=body)


def _mark(how: str, ids: Sequence[Id] | None, up_to: Id | None) -> Call[Marked]:
    body: dict[str, object] = {} if ids is None else {"ids": checked_ids(ids, "ids")}
    if up_to is not None:
        body["upTo"] = checked_id(up_to, "up_to")
    return Call("POST", f"{BASE}/notifications/{how}", _marked, body=body)
