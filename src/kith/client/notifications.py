"""Calls about notifications: lists, unread counts, read marks, preferences, and mentions reported by other systems.

As in `graphs`, nothing is sent here.
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
    """The post that a notification is about. `preview`: the beginning of its text."""

    id: int
    author_id: int
    type: str
    preview: str


class NotificationComment(Record, frozen=True, kw_only=True):
    """The comment that a notification is about. `preview`: the beginning of its text."""

    id: int
    author_id: int
    preview: str


class NotificationBoard(Record, frozen=True, kw_only=True):
    """The board that a notification is about."""

    id: int
    owner_id: int
    name: str


class Notification(Record, frozen=True, kw_only=True):
    """A notification, or a group of notifications of one kind about one thing.

    `ids`: the ids of all in the group; mark these as read. `type`: a `NotificationType`, or one that only a newer
    service knows. `actors`: up to 3 of the `actor_count` people. `partial`: older notifications of the group may be on
    a later page. `mentioned`: whom a mention names, if not the acting user.
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
    """A page of notifications. `unread`: the number of unread ones on all pages, not grouped.

    `partial`: `unread` counts only the newest 1,000; there are more. Or rows are missing, as on a standby.
    """

    unread: int


class Unread(Record, frozen=True, kw_only=True):
    """The number of unread notifications. `partial`: it counts only the newest 1,000; there are more. Or rows are
    missing, as on a standby.
    """

    count: int
    partial: bool = False


class Marked(Record, frozen=True, kw_only=True):
    """The answer to `mark_read` and `mark_seen`. `unread`: how many notifications are unread now."""

    unread: int


class Mentioned(Record, frozen=True, kw_only=True):
    """The answer to `report_mention`. `accepted`: whether the mentioned user is notified."""

    event_id: str
    accepted: bool


class QuietHours(Record, frozen=True, kw_only=True):
    """A span of the day, such as `22:00` to `07:00`, in a time zone such as `Europe/Berlin`."""

    from_: str = field(name="from")
    to: str
    time_zone: str


class Preferences(Record, frozen=True, kw_only=True):
    """A user's notification preferences; `put_preferences` describes the fields."""

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
    """The acting user's notifications of the last 90 days, newest first.

    `grouped`: likes, shares and follows of the same thing are one item.
    """
    call = listed(f"{BASE}/notifications", _notifications, page_size, cursor)
    return call.asking(grouped="true" if grouped else "false")


def unread_notifications() -> Call[Unread]:
    """The number of the acting user's unread notifications: exactly those that the list shows as unread."""
    return Call("GET", f"{BASE}/notifications/unread", _unread)


def mark_read(ids: Sequence[Id] | None = None, *, up_to: Id | None = None) -> Call[Marked]:
    """Mark notifications as read: those in `ids`, or the notification `up_to` and all older ones."""
    return _mark("read", ids, up_to)


def mark_seen(ids: Sequence[Id] | None = None, *, up_to: Id | None = None) -> Call[Marked]:
    """Mark notifications as seen: the newest of `ids`, or `up_to`, and all older ones."""
    return _mark("seen", ids, up_to)


def report_mention(
    event_id: str, actor: Id, mentioned: Id, *, post: Id | None = None, at: datetime | None = None
) -> Call[Mentioned]:
    """Report a mention that happened in another system. Needs a server key.

    `event_id`: your id of the mention; reporting it again within 24 h has no further effect. `at`: when it happened,
    within the last 90 days.
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
    """The acting user's notification preferences."""
    return Call("GET", f"{BASE}/preferences", _preferences)


def put_preferences(
    *,
    off: Iterable[NotificationType] = (),
    mentions: Literal["followed", "these", "me", "none"] = "me",
    accounts: Iterable[Id] = (),
    accounts_off: Iterable[Id] = (),
    quiet_hours: QuietHours | None = None,
) -> Call[Preferences]:
    """Replace all notification preferences of the acting user. An argument left out gets the default of a new user.

    `off`: types that are switched off. `mentions`: which mentions notify the user: of the user (`me`); of the user and
    of all accounts that they follow (`followed`); of the user and of those `accounts` that they follow (`these`); none
    (`none`). `accounts_off`: accounts whose actions do not notify the user. `quiet_hours`: no push notifications are
    sent in them; the list stays complete.
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
