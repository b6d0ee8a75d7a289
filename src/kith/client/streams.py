"""The stream of a user's feed, without I/O: what to request, how to parse it, when to reconnect.

The clients (`clients`) only send, read lines and wait. After a lost connection the stream resumes, so a loop over it
sees every event once. If the service cannot replay what was missed, a `FeedReset` comes instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias, TypeVar

import httpx
import msgspec
from msgspec import field

from kith.client.answers import Id, Record
from kith.client.asking import checked_ids, header_value
from kith.client.reconnecting import Reconnecting
from kith.client.wire import Call, Request, Session, unreadable

SILENCE_S = 60.0
"""Silence after which the connection counts as lost. The service sends something every 15 s."""
NOTICES_MAX = 1_000
"""Notification ids that a stream remembers to drop repetitions."""
POSTS_MAX = 100
"""Posts that a stream watches; the service takes no more."""
_PATH = "/api/v1/feed/stream"
_RETRY_MS = 2_000.0


class NewPost(Record, frozen=True, kw_only=True):
    """The user, or somebody whom the user follows, created a post, or published a draft.

    `event_id`: pass it as `after` to resume here.
    """

    event_id: str = ""
    post_id: int
    author_id: int
    preview: str
    labels: list[str] = field(default_factory=list)  # set by your moderation; blur the post if it is `sensitive`


class PostUpdated(Record, frozen=True, kw_only=True):
    """A post was edited or labelled; the fields have its state now. Ignore it if you do not show the post."""

    event_id: str = ""
    post_id: int
    author_id: int
    preview: str
    labels: list[str] = field(default_factory=list)  # as in `NewPost`


class EngagementUpdate(Record, frozen=True, kw_only=True):
    """The counts of a post changed; the fields have the counts now."""

    event_id: str = ""
    post_id: int
    like_count: int
    comment_count: int
    share_count: int
    view_count: int


class PostRemoved(Record, frozen=True, kw_only=True):
    """The user may no longer see a post. `reason`: `author_deleted`, `hidden`, `blocked`, `muted` or `unavailable`."""

    event_id: str = ""
    post_id: int
    reason: str


class NotificationMade(Record, frozen=True, kw_only=True):
    """The user has a new notification; the list `notifications` shows it.

    `kind`: its `type` in that list. `mentioned_id`: whom a mention names, if not the user.
    """

    event_id: str = ""
    notification_id: int
    kind: str
    actor_id: int
    post_id: int | None = None
    comment_id: int | None = None
    board_id: int | None = None
    mentioned_id: int | None = None


class UnreadChanged(Record, frozen=True, kw_only=True):
    """The number of unread notifications, sent when it may have changed. `count` and `partial` as in `Unread`."""

    event_id: str = ""
    count: int
    partial: bool = False


class FeedReset(Record, frozen=True, kw_only=True):
    """Reload the feed: much of it changed at once (such as when an account came back), or events were missed that the
    service cannot replay. Later events follow as usual.
    """

    event_id: str = ""
    reason: str


FeedEvent: TypeAlias = (
    NewPost | PostUpdated | EngagementUpdate | PostRemoved | NotificationMade | UnreadChanged | FeedReset
)
_EVENTS: dict[str, type[FeedEvent]] = {
    "new_post": NewPost,
    "post_updated": PostUpdated,
    "engagement_update": EngagementUpdate,
    "post_removed": PostRemoved,
    "notification": NotificationMade,
    "unread": UnreadChanged,
    "reset": FeedReset,
}


Event_co = TypeVar("Event_co", covariant=True)


class Stream(Protocol[Event_co]):
    """What a client needs to follow a stream over any number of connections. `kind`: the content type of answers."""

    kind: str

    def request(self) -> Request:
        """The request that starts or resumes the stream."""
        ...

    def timeout(self, timeout_s: float) -> httpx.Timeout:
        """The timeouts of a connection. `timeout_s`: that of ordinary calls."""
        ...

    def read(self, line: str) -> Event_co | None:
        """Parse one line; returns the event that it completes, if any."""
        ...

    def pause_or_raise(self, outcome: httpx.Response | httpx.RequestError | None) -> float:
        """The seconds to wait before reconnecting; raises ApiError or Unreachable if there should be no other try."""
        ...


class FeedStream:
    """A feed stream over any number of connections. `posts`: those on the screen; `after`: an event id to resume at.

    The service watches new posts, too, but per connection. So the next connection asks for them.
    """

    kind = "text/event-stream"

    def __init__(self, session: Session, posts: Iterable[Id] | None, after: str | None) -> None:
        self._session = session
        self._posts = None if posts is None else dict.fromkeys(checked_ids(posts, "posts"))
        self._last_id = header_value(after, "after") if after else None
        self._retry_ms = _RETRY_MS
        self._reconnecting = Reconnecting(session)
        self._name, self._data, self._next_id = "", list[str](), self._last_id
        self._noticed: dict[int, None] = {}

    def request(self) -> Request:
        """The request that starts or resumes the stream."""
        self._name, self._data, self._next_id = "", [], self._last_id
        params = {} if self._posts is None else {"posts": ",".join(self._posts)}
        place = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        return self._session.request(Call("GET", _PATH, bytes, params, headers={"Accept": self.kind, **place}))

    def timeout(self, timeout_s: float) -> httpx.Timeout:
        """See `Stream`."""
        return httpx.Timeout(timeout_s, read=SILENCE_S)

    def pause_or_raise(self, outcome: httpx.Response | httpx.RequestError | None) -> float:
        """See `Stream`."""
        return self._reconnecting.pause_or_raise(outcome, self._retry_ms / 1000)

    def read(self, line: str) -> FeedEvent | None:
        """Parse one line; returns the event that it completes, if any. Skips unknown events of a newer service."""
        self._reconnecting.heard()
        if line:
            self._field(*_split(line))
            return None
        self._last_id = self._next_id  # only now: after a cut in the middle of an event, that event must be resent
        kind, data = _EVENTS.get(self._name), "\n".join(self._data)
        self._name, self._data = "", []
        if kind is None or not data:
            return None
        event = msgspec.structs.replace(_decode(data, kind), event_id=self._last_id or "")
        if self._posts is not None:
            _note_watched(self._posts, event)
        return None if isinstance(event, NotificationMade) and not self._is_new(event.notification_id) else event

    def _is_new(self, notification: int) -> bool:
        """Whether a notification is new in this stream. Mentions reach followers in parts, which may repeat some."""
        if notification in self._noticed:
            return False
        self._noticed[notification] = None
        if len(self._noticed) > NOTICES_MAX:
            del self._noticed[next(iter(self._noticed))]
        return True

    def _field(self, field: str, value: str) -> None:
        match field:
            case "id":
                self._next_id = value
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "retry" if value.isdecimal():
                self._retry_ms = float(value)


def _note_watched(posts: dict[str, None], event: FeedEvent) -> None:
    """Add a new post to those that a stream watches, in place of the oldest if there is no room; drop a removed one."""
    match event:
        case NewPost(post_id=post):
            posts[str(post)] = None
            if len(posts) > POSTS_MAX:
                del posts[next(iter(posts))]
        case PostRemoved(post_id=post):
            posts.pop(str(post), None)


def _split(line: str) -> tuple[str, str]:
    field, _, value = line.partition(":")
    return field, value.removeprefix(" ")


def _decode(data: str, kind: type[FeedEvent]) -> FeedEvent:
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise unreadable(f"GET {_PATH}: {error}") from error
