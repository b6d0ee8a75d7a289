"""GET /feed/stream: Server-Sent Events for thousands of connected readers.

A stream is one waiting coroutine without a queue: events from `streams.live` are passed to the connection at once. A
stream may have `buffer_bytes` that its client has not read yet, so a slow reader costs a bounded amount of memory.
Above that it is cut off, and its client resumes after the last event that it received.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Annotated, Protocol

import msgspec
import structlog
from msgspec import Meta

from kith.access.guard import WhenInvalid
from kith.api.call import Call
from kith.api.operations import Header, QueryName, get
from kith.api.sink import Sink
from kith.core.deadline import Deadline
from kith.core.errors import BadRequest, KithError, Overloaded, TooManyStreams
from kith.core.ids import NodeId, parse_id
from kith.core.paging import Window
from kith.core.signing import Signer
from kith.home.home import Home
from kith.streams.live import LiveStreams
from kith.streams.positions import StreamPosition
from kith.streams.stream import WATCHED_MAX, Stream

ShownIds = Annotated[
    str | None,
    Meta(
        description="Ids of the posts on the screen, separated by commas: these are watched. Default: the newest posts "
        "of home."
    ),
]
ResumeFrom = Annotated[
    str | None,
    QueryName("lastEventId"),
    Meta(description="Where to resume, for clients that cannot set Last-Event-ID. If both are sent, the header wins."),
]
LastEventId = Annotated[
    str | None, Header("Last-Event-ID"), Meta(description="The id of the last event that the client received.")
]
HOME_WATCHED = 20
"""How many of the newest posts of the reader's home are watched if the client does not name posts."""
RETRY_MS = 2_000
"""Average pause before a client reconnects. Each client gets a random value around it, so that they do not all
reconnect at once.
"""
_HEADERS = [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")]
_RETRY_AFTER_S = 5.0
_SEALED_MAX = 64  # most streams of a process are at the same place
_log = structlog.get_logger("kith.api")


class StreamLimits(msgspec.Struct, frozen=True):
    """The limits of one process; each is the setting `stream_<name>` or `streams_<name>`."""

    streams_max: int
    user_max: int
    buffer_bytes: int


def shown_posts(posts: str) -> list[int]:
    """The ids in the parameter `posts`, without repetitions, in their order. BadId; BadRequest for more than
    WATCHED_MAX.
    """
    ids: list[int] = [parse_id(part, "posts") for part in posts.split(",") if part]
    if len(ids) > WATCHED_MAX:
        raise BadRequest(f"posts takes at most {WATCHED_MAX} ids; name those on the screen", max=WATCHED_MAX)
    return list(dict.fromkeys(ids))


class SealedPositions:
    """Seals stream positions before clients get them, because a position reveals how much is written here."""

    def __init__(self, signing: bytes) -> None:
        self._signer = Signer(signing, "stream-place")
        self.of = lru_cache(_SEALED_MAX)(self._seal)
        """The event id of a position."""

    def _seal(self, place: StreamPosition) -> str:
        return self._signer.seal(str(place).encode())

    def read(self, id_: str) -> str:
        """The position in an event id; "" if the id was not sealed here."""
        return (self._signer.open(id_) or b"").decode()


def frame(id_: str, name: str, data: bytes) -> bytes:
    """One event as it is sent. A heartbeat is an SSE comment that still advances the client's last event id."""
    if not name:
        return b":\nid: %b\n\n" % id_.encode()
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (id_.encode(), name.encode(), data)


class StreamCounter(Protocol):
    """Counts streams, for metrics."""

    def observe(self, operation: str, started: float, status: int) -> None: ...
    def streaming(self, streams: int) -> None: ...
    def stream_ended(self, why: str) -> None: ...


class StreamResource:
    """All streams of this process."""

    def __init__(
        self,
        live: LiveStreams,
        home: Home,
        limits: StreamLimits,
        metrics: StreamCounter,
        *,
        when_invalid: WhenInvalid,
        timeout_s: float,
        signing: bytes,
    ) -> None:
        """`when_invalid`: see `Guard.when_invalid`. `signing`: the secret that seals ids."""
        self._live, self._home = live, home
        self._limits, self._metrics = limits, metrics
        self._when_invalid, self._timeout_s, self._deadline = when_invalid, timeout_s, Deadline(timeout_s)
        self._positions = SealedPositions(signing)
        self._sinks: set[Sink] = set()
        self._slots_of_users: Counter[NodeId] = Counter()  # open streams of each user, including those being opened
        self._count = 0  # the sum of `_slots_of_users`
        self._closing = False

    @get(
        "/feed/stream",
        "Live events for the acting user",
        callers="acting",
        streams=True,
        media_type="text/event-stream",
        answers=str,
    )
    async def feed_stream(
        self, call: Call, posts: ShownIds = None, resume_from: ResumeFrom = None, last_event_id: LastEventId = None
    ) -> None:
        """Server-Sent Events for the acting user, until either side closes the stream.

        - `new_post` {postId, authorId, preview, labels}: the acting user or somebody they follow made a post, or opened
          one to the acting user by an edit, such as a draft. Its place is that of its id. Blur the preview of a post
          that is labelled `sensitive`.
        - `post_updated`, with the same fields: a watched post was edited or labelled.
        - `engagement_update` {postId, likeCount, commentCount, shareCount, viewCount}: new counts of a watched post, at
          most once a second. Watched are the posts that `posts` names, the posts of `new_post` events on this stream,
          and the newest posts of the acting user.
        - `post_removed` {postId, reason}: remove the post from the screen.
        - `notification` {notificationId, kind, actorId, postId, commentId, boardId, mentionedId}: fields that do not
          apply are null.
        - `unread` {count, partial}: the number of unread notifications.
        - `reset` {reason}: reload the feed, because an account returned or accepted the reader, or because missed
          events cannot be sent any more. The stream then ends; the next one continues from there.

        Every event has an id. A client that reconnects with the last id in Last-Event-ID misses nothing, whichever
        process answers. A first stream has no such id: load the feed after its first id has arrived, or you miss what
        happens in between.
        """
        user = call.acting_user
        post_ids = None if posts is None else shown_posts(posts)
        last_id = last_event_id or resume_from or None
        place = None if last_id is None else self._positions.read(last_id)
        with self._slot(user):
            if post_ids is None:
                post_ids = await self._deadline.within(self._newest(user))
            self._check_open()
            sink = Sink(call.exchange.stream(200, _HEADERS), self._limits.buffer_bytes)
            self._metrics.observe("feed_stream", call.started, 200)

            def send(place: StreamPosition, name: str, data: bytes) -> None:
                sink.write(frame(self._positions.of(place), name, data))

            stream = Stream(user, send, sink.end, sink.wait_for_room)
            await self._run(call, sink, stream, place, post_ids)

    def close(self) -> None:
        """Close every stream and accept no new one, because this process stops."""
        self._closing = True
        for sink in list(self._sinks):
            sink.end("stopping")

    async def _run(self, call: Call, sink: Sink, stream: Stream, place: str | None, post_ids: Sequence[int]) -> None:
        """Send events to `stream` until either side closes it, or the caller's credential becomes invalid."""
        self._sinks.add(sink)
        at_the_end = contextlib.ExitStack()
        try:
            expire = partial(sink.end, "expired")
            at_the_end.callback(self._when_invalid(call.header("authorization"), expire))
            sink.write(b"retry: %d\n\n" % random.randint(RETRY_MS // 2, RETRY_MS * 3 // 2))
            async with asyncio.timeout(self._timeout_s):
                await self._live.join(stream, place, post_ids)
            await call.exchange.disconnected()
        except (KithError, TimeoutError) as error:
            _log.warning("a stream could not begin; its client tries again", error=repr(error))
        except Exception:
            _log.exception("unexpected error", operation="feed_stream")
        finally:
            self._live.leave(stream)
            sink.end("gone")
            at_the_end.close()
            self._sinks.remove(sink)
            self._metrics.stream_ended(sink.ended or "gone")

    @contextlib.contextmanager
    def _slot(self, user: NodeId) -> Iterator[None]:
        """Reserves one of the process's streams and one of the user's, from before the first wait. Overloaded,
        TooManyStreams.
        """
        self._check_open()
        if self._count >= self._limits.streams_max:
            raise Overloaded(
                "this process holds `streams_max` streams; connect again later, or raise the setting",
                max=self._limits.streams_max,
            )
        if self._slots_of_users[user] >= self._limits.user_max:
            raise TooManyStreams(
                f"this user has {self._limits.user_max} streams open here; close one of them first",
                retry_after_s=_RETRY_AFTER_S,
                limit=self._limits.user_max,
            )
        self._count_slot(user, 1)
        try:
            yield
        finally:
            self._count_slot(user, -1)

    def _count_slot(self, user: NodeId, by: int) -> None:
        self._slots_of_users[user] += by
        if not self._slots_of_users[user]:
            del self._slots_of_users[user]
        self._count += by
        self._metrics.streaming(self._count)

    def _check_open(self) -> None:
        if self._closing:
            raise Overloaded("this process is stopping; connect again")

    async def _newest(self, user: NodeId) -> list[int]:
        return [post.id for post in (await self._home.latest(user, Window(HOME_WATCHED))).posts]
