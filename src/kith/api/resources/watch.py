"""GET /watch: every matching change, in order, as Server-Sent Events or as one line of JSON per change."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from kith.access.guard import WhenInvalid
from kith.api.call import Call
from kith.api.operations import Header, get
from kith.api.sink import Sink
from kith.core.errors import BadRequest, Overloaded, TooManyStreams
from kith.core.events import LogPosition
from kith.core.ids import NodeId, parse_id
from kith.graph.graphs import Graphs
from kith.watch.change_filter import ChangeFilter, filter_of
from kith.watch.changes import KINDS, Change
from kith.watch.visibility import check_user_kinds
from kith.watch.watch import Frame, Watch

WatchedGraphs = Annotated[
    str | None, Meta(description="Names, separated by commas: no edges of other graphs. Default: all.")
]
WatchedKinds = Annotated[
    str | None,
    Meta(description=f"Of {', '.join(KINDS)}; separated by commas. Default: all, or `edge` if `graphs` is given."),
]
WatchedNodes = Annotated[
    str | None,
    Meta(description="Ids, separated by commas: only changes about these (ends of an edge, an object, its author)."),
]
After = Annotated[
    str | None,
    Meta(description="A token from an earlier change: start with the changes after it. Default: from now on."),
]
LastWatchId = Annotated[
    str | None, Header("Last-Event-ID"), Meta(description="As `after`. If both are sent, the header wins.")
]
Accept = Annotated[str | None, Header("Accept"), Meta(description="`application/x-ndjson`: one line per change.")]
_RETRY_AFTER_S = 5.0
_NDJSON = "application/x-ndjson"
_encoder = msgspec.json.Encoder()
_HEADERS = [("cache-control", "no-store"), ("x-accel-buffering", "no")]


def as_events(changes: Sequence[Change]) -> bytes:
    """Changes as Server-Sent Events."""
    return b"".join(
        [
            b"id: %b\nevent: change\ndata: %b\n\n" % (change.token.encode(), _encoder.encode(change))
            for change in changes
        ]
    )


def as_lines(changes: Sequence[Change]) -> bytes:
    """Changes as lines of JSON."""
    return _encoder.encode_lines(changes)


class WatchConnection:
    """One watcher and its connection."""

    def __init__(self, sink: Sink, change_filter: ChangeFilter, frame: Frame, user: NodeId | None) -> None:
        self._sink, self.filter, self.frame, self.user = sink, change_filter, frame, user

    @property
    def has_room(self) -> bool:
        """See `watch.Watcher`."""
        return self._sink.has_room

    @property
    def ended(self) -> str | None:
        """Why it ended; None while it is open."""
        return self._sink.ended

    def write(self, raw: bytes) -> None:
        """See `watch.Watcher`."""
        if raw:
            self._sink.write(raw)

    def send_position(self, token: str) -> None:
        """See `watch.Watcher`."""
        if self.frame is as_lines:
            self._sink.write(b'{"kind":"here","token":"%b"}\n' % token.encode())
        else:
            self._sink.write(b":\nid: %b\n\n" % token.encode())

    async def wait_for_room(self) -> None:
        """See `watch.Watcher`."""
        await self._sink.wait_for_room()

    def end(self, why: str) -> None:
        """See `watch.Watcher`."""
        self._sink.end(why)


class WatchObserver(Protocol):
    """Counts requests and watchers of this process, for metrics."""

    def observe(self, operation: str, started: float, status: int) -> None:
        """See `door.Observe`."""
        ...

    def watching(self, watchers: int) -> None:
        """Report how many watchers are connected."""
        ...


class WatchResource:
    """All watchers of this process. `watchers_max`, `user_max` and `buffer_bytes` are the settings `watchers_max`,
    `streams_user_max` and `stream_buffer_bytes`. `when_invalid`: see `Guard.when_invalid`.
    """

    def __init__(
        self,
        watch: Watch,
        graphs: Graphs,
        observer: WatchObserver,
        *,
        when_invalid: WhenInvalid,
        watchers_max: int,
        user_max: int,
        buffer_bytes: int,
    ) -> None:
        self._watch, self._graphs, self._observer, self._when_invalid = watch, graphs, observer, when_invalid
        self._watchers_max, self._user_max, self._buffer_bytes = watchers_max, user_max, buffer_bytes
        self._open, self._closing = set[WatchConnection](), False
        self._slots_of_users: Counter[NodeId | None] = Counter()  # watchers of each user, including those being opened

    @get(
        "/watch",
        "Every change, as it happens",
        streams=True,
        media_type="text/event-stream",
        answers=str,
    )
    async def watch(
        self,
        call: Call,
        graphs: WatchedGraphs = None,
        kinds: WatchedKinds = None,
        nodes: WatchedNodes = None,
        after: After = None,
        last_event_id: LastWatchId = None,
        accept: Accept = None,
    ) -> None:
        """Changes in the order of the log. Store the token of the last change and reconnect with it: then you get every
        change exactly once, whichever process answers. A change holds the state after it, not the action. While nothing
        changes, the stream sends your current token from time to time.

        409 TOKEN_TOO_OLD: the log no longer reaches back to your token. Export the data that you need, and watch from
        the token of the export. A change of kind `loaded`: a whole graph was imported at once, and its edges are not
        sent one by one, so export that graph. Everyone who watches its edges gets this change.

        A user token gets what the API shows its user at that moment: changes of the user's own live or removed edges,
        and of the posts, stories, comments, profiles and boards of the `nodes` that the request names. Changes of
        things that the user may no longer see are left out, except deletions.
        """
        user = None if call.caller.server else call.acting_user
        for name, value in (("kinds", kinds), ("graphs", graphs), ("nodes", nodes)):
            if value is not None and not _names(value):
                raise BadRequest(f"{name} names nothing; leave it out to watch all")
        ids = [parse_id(id_, "nodes") for id_ in _names(nodes)]
        chosen = _names(kinds) if user is None else check_user_kinds(_names(kinds), ids)
        change_filter = filter_of(chosen, _names(graphs), ids, self._graphs)
        lines = accept is not None and _NDJSON in accept
        with self._slot(user):
            # the header wins: a client that reconnects with the address of its start has its last token there
            position = await self._watch.place(last_event_id or after, user)
            self._check_open()
            content = ("content-type", _NDJSON if lines else "text/event-stream")
            sink = Sink(call.exchange.stream(200, [content, *_HEADERS]), self._buffer_bytes)
            self._observer.observe("watch", call.started, 200)
            await self._send_changes(
                call, WatchConnection(sink, change_filter, as_lines if lines else as_events, user), position
            )

    def close(self) -> None:
        """Close every watcher and accept no new one, because this process stops."""
        self._closing = True
        for watching in list(self._open):
            watching.end("stopping")

    @contextlib.contextmanager
    def _slot(self, user: NodeId | None) -> Iterator[None]:
        """Reserves one of the process's watchers and one of the user's, from before the first wait. Overloaded,
        TooManyStreams.
        """
        self._check_open()
        if self._slots_of_users.total() >= self._watchers_max:
            raise Overloaded("this process has `watchers_max` watchers; watch more in one, or raise the setting")
        if user is not None and self._slots_of_users[user] >= self._user_max:
            raise TooManyStreams(
                f"this user watches {self._user_max} times here; close one of them first",
                retry_after_s=_RETRY_AFTER_S,
                limit=self._user_max,
            )
        self._count_slot(user, 1)
        try:
            yield
        finally:
            self._count_slot(user, -1)

    def _count_slot(self, user: NodeId | None, by: int) -> None:
        self._slots_of_users[user] += by
        if not self._slots_of_users[user]:
            del self._slots_of_users[user]
        self._observer.watching(self._slots_of_users.total())

    def _check_open(self) -> None:
        if self._closing:
            raise Overloaded("this process is stopping; connect again")

    async def _send_changes(self, call: Call, watching: WatchConnection, position: LogPosition) -> None:
        """Send changes until either side closes the connection."""
        self._open.add(watching)
        disconnect = asyncio.ensure_future(call.exchange.disconnected())
        disconnect.add_done_callback(lambda _: watching.end("gone"))
        at_the_end = contextlib.ExitStack()
        try:
            expire = partial(watching.end, "expired")
            at_the_end.callback(self._when_invalid(call.header("authorization"), expire))
            watching.send_position(self._watch.token(position, watching.user))
            await self._watch.follow(watching, position)
            await disconnect
        finally:
            disconnect.cancel()
            at_the_end.close()
            self._watch.leave(watching)
            watching.end("gone")
            self._open.discard(watching)


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]
