"""GET /watch: every change of what is asked for, in order, as Server-Sent Events or a line of JSON a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from kith.api.call import Call
from kith.api.operations import Header, get
from kith.api.sink import Sink
from kith.api.sockets import Sockets
from kith.core.errors import BadRequest, Overloaded
from kith.core.events import LogPosition
from kith.core.ids import parse_id
from kith.graph.graphs import Graphs
from kith.watch.wanted import Wanted, wanted_of
from kith.watch.watch import Frame, Watch

Names = Annotated[str | None, Meta(description="Names, by commas; all where it is left out.")]
Nodes = Annotated[
    str | None,
    Meta(description="Ids, by commas: only what is about them (ends of an edge, what was made, who made it)."),
]
After = Annotated[
    str | None, Meta(description="A token that was told before: what follows it comes first. Otherwise from now on.")
]
LastEventId = Annotated[str | None, Header("Last-Event-ID"), Meta(description="As `after`, for clients of SSE.")]
Accept = Annotated[str | None, Header("Accept"), Meta(description="`application/x-ndjson`: a line a change.")]
_NDJSON = "application/x-ndjson"
_HEADERS = [("cache-control", "no-store"), ("x-accel-buffering", "no")]


def as_event(token: str, change: bytes) -> bytes:
    """A change as a Server-Sent Event."""
    return b"id: %b\nevent: change\ndata: %b\n\n" % (token.encode(), change)


def as_line(token: str, change: bytes) -> bytes:
    """A change as a line of JSON."""
    return change + b"\n"


class Watching:
    """One watcher, and the connection that takes what it is told."""

    def __init__(self, sink: Sink, wanted: Wanted, frame: Frame) -> None:
        self._sink, self.wanted, self.frame = sink, wanted, frame

    @property
    def ended(self) -> str | None:
        """Why it ended."""
        return self._sink.ended

    def write(self, raw: bytes) -> None:
        """See `watch.Watcher`."""
        if raw:
            self._sink.write(raw)

    def here(self, token: str) -> None:
        """See `watch.Watcher`."""
        if self.frame is as_line:
            self._sink.write(b'{"kind":"here","token":"%b"}\n' % token.encode())
        else:
            self._sink.write(b":\nid: %b\n\n" % token.encode())

    async def room(self) -> None:
        """See `watch.Watcher`."""
        await self._sink.room()

    def end(self, why: str) -> None:
        """See `watch.Watcher`."""
        self._sink.end(why)


class WatchResource:
    """All watchers of this process. `watchers_max`, `buffer_bytes`: the settings of these names."""

    def __init__(
        self,
        watch: Watch,
        graphs: Graphs,
        observe: Callable[[str, float, int], None],
        *,
        watchers_max: int,
        buffer_bytes: int,
    ) -> None:
        self._watch, self._graphs, self._observe = watch, graphs, observe
        self._watchers_max, self._buffer_bytes = watchers_max, buffer_bytes
        self._sockets, self._open, self._closing = Sockets(), set[Watching](), False

    @get(
        "/watch",
        "Every change, as it happens",
        callers="server",
        streams=True,
        media_type="text/event-stream",
        answers=str,
    )
    async def watch(
        self,
        call: Call,
        graphs: Names = None,
        kinds: Names = None,
        nodes: Nodes = None,
        after: After = None,
        last_event_id: LastEventId = None,
        accept: Accept = None,
    ) -> None:
        """Changes in the order of the log, each once for a reader that keeps its token: come back with the last one,
        and nothing is missing and nothing comes twice, whichever process answers. What is so afterwards is told, not
        what was done. While nothing happens you are told where you are. TOKEN_TOO_OLD: the log was forgotten that far
        back; export what you follow, and watch from the token of the export.
        """
        for name, value in (("kinds", kinds), ("graphs", graphs), ("nodes", nodes)):
            if value is not None and not _names(value):
                raise BadRequest(f"{name} names nothing; leave it out to watch all")
        wanted = wanted_of(
            _names(kinds), _names(graphs), [parse_id(one, "nodes") for one in _names(nodes)], self._graphs
        )
        if self._closing or len(self._open) >= self._watchers_max:
            raise Overloaded(
                "this process stops, or has `watchers_max` watchers; watch more in one, or raise the setting"
            )
        lines = accept is not None and _NDJSON in accept
        at = await self._watch.place(after or last_event_id or None)
        content = ("content-type", _NDJSON if lines else "text/event-stream")
        transport = call.exchange.response_stream(200, [content, *_HEADERS])
        sink = Sink(transport, call.scope.client, self._sockets, self._buffer_bytes)
        del transport  # the sink's alone, so that it ends with the sink
        self._observe("watch", call.started, 200)
        await self._tell(call, Watching(sink, wanted, as_line if lines else as_event), at)

    def close(self) -> None:
        """End every watcher, and let no new one begin: this process stops."""
        self._closing = True
        for watching in list(self._open):
            watching.end("stopping")

    async def _tell(self, call: Call, watching: Watching, at: LogPosition) -> None:
        """Tell what happens until either side ends it."""
        self._open.add(watching)
        gone = asyncio.ensure_future(call.exchange.client_disconnect())
        gone.add_done_callback(lambda _: watching.end("gone"))
        try:
            watching.here(self._watch.token(at))
            await self._watch.follow(watching, at)
            await gone
        finally:
            gone.cancel()
            self._watch.leave(watching)
            watching.end("gone")
            self._open.discard(watching)


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]
