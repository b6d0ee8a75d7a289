"""GET /feed/stream: Server-Sent Events, in front of the framework, because thousands of them are open at once.

A stream is one waiting coroutine and no queue: what `feed.live` tells is handed to granian at once. So that a slow
reader costs a bounded amount of memory, each stream may be handed `buffer_bytes` that the kernel does not show to have
gone out (see `sockets`); beyond, it is cut off, and its client resumes where it left off.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec
import structlog

from kith.api.errors import respond, unexpected
from kith.api.sockets import Sockets
from kith.core.errors import BadRequest, KithError, Overloaded, TimedOut, TooManyStreams
from kith.core.history import FIRST
from kith.core.ids import NodeId, parse_id
from kith.core.paging import Window
from kith.streams.places import Place, read_place
from kith.streams.stream import WATCHED_MAX, Stream

if TYPE_CHECKING:
    from kith.api.backend import Backend
    from kith.api.fast import Exchange, Scope

PATH = "/api/v1/feed/stream"
HOME_WATCHED = 20
"""Of the reader's home the newest posts are watched, unless the client names what it shows."""
RETRY_MS = 2_000
"""About how long a client waits before it comes back; each is told another time, so that not all come at once."""
TAKEN_S = 2.0
"""So long a client that comes back may take to read half of the buffer."""
LOOKED_EVERY_S = 0.01
"""How often it is looked at."""
_HEADERS = [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")]
_RETRY_AFTER_S = 5.0
_OF_HISTORY = re.compile(r"([0-9]+-[0-9]+)-([0-9]{1,19})", re.ASCII)
_log = structlog.get_logger("kith.api")


class StreamLimits(msgspec.Struct, frozen=True):
    """The bounds of the streams of one process; each is a setting `stream_<name>` or `streams_<name>`."""

    streams_max: int
    user_max: int
    buffer_bytes: int


class Asked(msgspec.Struct, frozen=True):
    """What the client asks for. `shown`: posts it shows, None: not said; `place`: where it left off."""

    shown: Sequence[int] | None
    place: str | None


def read_query(query: str, last_event_id: str | None) -> Asked:
    """The parameters of a request; BadRequest. Of two places the header's counts: a browser repeats the old URL."""
    shown: Sequence[int] | None = None
    place: str | None = None
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "posts":
            shown = [parse_id(one, "posts") for one in value.split(",") if one]
            if len(shown) > WATCHED_MAX:
                raise BadRequest(f"posts takes at most {WATCHED_MAX} ids; name those on the screen", max=WATCHED_MAX)
        elif name == "lastEventId":
            place = value or None
        else:
            raise BadRequest(f"unknown query parameter: {name}; see /docs", unknown=[name])
    return Asked(None if shown is None else list(dict.fromkeys(shown)), last_event_id or place)


def frame(place: Place, name: str, data: bytes, history: int = FIRST) -> bytes:
    """One event as it goes over the wire. A heartbeat is a comment, and moves the client's last event id."""
    id_ = (f"{place}" if history == FIRST else f"{place}-{history}").encode()
    if not name:
        return b":\nid: %b\n\n" % id_
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (id_, name.encode(), data)


def read_id(text: str) -> tuple[str, int]:
    """The place in an id that a client sent back, and the history that it is of."""
    found = _OF_HISTORY.fullmatch(text)
    return (text, FIRST) if found is None else (found[1], int(found[2]))


class Sink:
    """The outgoing side of one stream."""

    def __init__(self, transport: Any, client: str, sockets: Sockets, bytes_max: int, history: int = FIRST) -> None:
        self._transport, self._client, self._sockets, self._bytes_max = transport, client, sockets, bytes_max
        self._history = history
        self._waiting = 0  # bytes handed over that may not have gone out
        self.ended: str | None = None

    def send(self, place: Place, name: str, data: bytes) -> None:
        """Hand an event over, or end the stream if too much waits already."""
        self.write(frame(place, name, data, self._history))

    def write(self, raw: bytes) -> None:
        """Hand bytes over."""
        if self.ended is not None:
            return
        if not self._has_room() and self._waiting + len(raw) > self._bytes_max:
            self.end("slow")
            return
        self._waiting += len(raw)
        self._transport.send_bytes(raw)  # its answer is of no use: who is gone is told by `client_disconnect`

    async def room(self) -> None:
        """Wait until half of the buffer is free. A client that leaves it full for TAKEN_S is slow, and cut off."""
        last_s = time.monotonic() + TAKEN_S
        while self.ended is None and not self._has_room():
            if time.monotonic() > last_s:
                self.end("slow")
            await asyncio.sleep(LOOKED_EVERY_S)

    def end(self, why: str) -> None:
        """Close the stream; the client resumes with its last event id."""
        if self.ended is None:
            self.ended = why
            if why == "slow":
                self._sockets.cut(self._client)
            self._transport = None  # granian ends the answer when nobody holds it

    def _has_room(self) -> bool:
        """Whether half of the buffer is free. The kernel is asked only where it may not be."""
        half = self._bytes_max // 2
        if self._waiting > half and (unsent := self._sockets.unsent(self._client)) is not None:
            self._waiting = unsent
        return self._waiting <= half


class Streams:
    """All streams of this process."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._limits = backend, backend.streams
        self._sockets = Sockets()
        self._sinks: set[Sink] = set()
        self._held: Counter[NodeId] = Counter()  # streams of each user, those that are being opened included
        self._count = 0  # the sum of it
        self._closing = False

    async def serve(self, scope: Scope, exchange: Exchange, header: Any) -> None:
        """Answer one request, until either side ends it."""
        started, backend = time.perf_counter(), self._backend
        try:
            caller = backend.admit(header, write=False)
            user = caller.acting()
            lifetime_s = backend.guard.lifetime_s(header("authorization"))
            asked = read_query(scope.query_string, header("last-event-id"))
            place = self._here(asked.place)
            _check_connection(scope)
            with self._room(user):
                async with asyncio.timeout(backend.bounds.timeout_s):
                    shown = asked.shown if asked.shown is not None else await self._home(user)
                self._check_open()
                transport = exchange.response_stream(200, _HEADERS)
                backend.metrics.observe("feed_stream", started, 200)
                sink = Sink(transport, scope.client, self._sockets, self._limits.buffer_bytes, backend.history.name)
                del transport  # the sink's alone, so that it ends with the sink
                await self._run(exchange, sink, Stream(user, sink.send, sink.end, sink.room), place, shown, lifetime_s)
        except Exception as error:
            status, headers, body = respond(_told(error))
            exchange.response_bytes(status, headers, body)
            backend.metrics.observe("feed_stream", started, status)

    def close(self) -> None:
        """End every stream, and let no new one begin: this process stops."""
        self._closing = True
        for sink in list(self._sinks):
            sink.end("stopping")

    async def _run(
        self,
        exchange: Exchange,
        sink: Sink,
        stream: Stream,
        place: str | None,
        shown: Sequence[int],
        lifetime_s: float | None,
    ) -> None:
        """Tell `stream` what happens until either side ends it."""
        self._sinks.add(sink)
        expiry = None
        if lifetime_s is not None:
            expiry = asyncio.get_running_loop().call_later(lifetime_s, sink.end, "expired")
        try:
            sink.write(b"retry: %d\n\n" % random.randint(RETRY_MS // 2, RETRY_MS * 3 // 2))
            async with asyncio.timeout(self._backend.bounds.timeout_s):
                await self._backend.live.join(stream, place, shown)
            await exchange.client_disconnect()
        except (KithError, TimeoutError) as error:
            _log.warning("a stream could not begin; its client tries again", error=repr(error))
        except Exception:
            _log.exception("unexpected error", operation="feed_stream")
        finally:
            self._backend.live.leave(stream)
            sink.end("gone")
            if expiry is not None:
                expiry.cancel()
            self._sinks.remove(sink)
            self._backend.metrics.stream_ended(sink.ended or "gone")

    @contextlib.contextmanager
    def _room(self, user: NodeId) -> Iterator[None]:
        """A place among all streams and those of the user, from before the first wait; Overloaded, TooManyStreams."""
        self._check_open()
        if self._count >= self._limits.streams_max:
            raise Overloaded(
                "this process holds `streams_max` streams; connect again later, or raise the setting",
                max=self._limits.streams_max,
            )
        if self._held[user] >= self._limits.user_max:
            raise TooManyStreams(
                f"this user has {self._limits.user_max} streams open here; close one of them first",
                retry_after_s=_RETRY_AFTER_S,
                limit=self._limits.user_max,
                window_s=_RETRY_AFTER_S,
            )
        self._hold(user, 1)
        try:
            yield
        finally:
            self._hold(user, -1)

    def _hold(self, user: NodeId, by: int) -> None:
        self._held[user] += by
        if not self._held[user]:
            del self._held[user]
        self._count += by
        self._backend.metrics.streaming(self._count)

    def _here(self, id_: str | None) -> str | None:
        """The place that an id of an earlier stream stands for in this store; one that is none where it was lost."""
        if id_ is None:
            return None
        text, history = read_id(id_)
        place = read_place(text)
        return text if place is not None and self._backend.history.holds(history, place.posts) else "lost"

    def _check_open(self) -> None:
        if self._closing:
            raise Overloaded("this process is stopping; connect again")

    async def _home(self, user: NodeId) -> list[int]:
        return [post.id for post in (await self._backend.feed.latest(user, Window(HOME_WATCHED))).posts]


def _told(error: Exception) -> KithError:
    """What the client is told of an error before its stream began."""
    match error:
        case KithError():
            return error
        case TimeoutError():
            return TimedOut("this took longer than `request_timeout_ms`; try again")
        case _:
            return unexpected(error, "feed_stream")


def _check_connection(scope: Scope) -> None:
    """BadRequest over HTTP/2: a client can hold one of its streams back there, and the kernel does not show it."""
    if scope.http_version.startswith("2"):
        raise BadRequest("streams are served over HTTP/1.1, a connection each; have your proxy speak it to Kith")
