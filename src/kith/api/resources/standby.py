"""/standby: gives standbys the store and log of their primary, and fences a primary that another machine replaced.

Only machines of the same store use it, with a server key; apps do not. A caller who can read this has all secrets of
the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from kith.api.answers import RawAnswer
from kith.api.call import Call
from kith.api.operations import get, post_query
from kith.api.sink import Sink
from kith.core.errors import KithError, Overloaded
from kith.standby.source import Epoch, Source

Name = Annotated[
    str | None, Meta(pattern="^[0-9a-f]{16}$", description="Which standby asks: the log is kept for it from there on.")
]
WAIT_MS_MAX = 2_000
_BUFFER_BYTES = 4 << 20
_DRAIN_S = 60.0
"""How long a standby may take to write half of the buffer to its disk."""
_log = structlog.get_logger("kith.api")
_RAW = ("content-type", "application/octet-stream")


class Fencing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The current primary: its address and epoch."""

    primary: str
    epoch: Epoch


class FencedAt(msgspec.Struct, frozen=True):
    """The last event of a log that accepts no more writes."""

    last: int


class StandbyResource:
    """The operations that standbys call on their primary."""

    def __init__(
        self,
        source: Source,
        keep: Callable[[str, int | None], None],
        observe: Callable[[str, float, int], None],
    ) -> None:
        """`keep` retains the log for the standby of this name, from an event on (None: from the newest)."""
        self._source, self._keep, self._observe = source, keep, observe
        self._closing = False

    @get("/standby/snapshot", "The store, for a standby", callers="server", streams=True, documented=False)
    async def standby_snapshot(self, call: Call, name: Name = None) -> None:
        """Streams the store as of one moment, followed by its checksum."""
        if self._closing:
            raise Overloaded("this process stops; ask again")
        if name is not None:
            self._keep(name, None)
        chunks = self._source.snapshot()
        first_chunk = await anext(chunks)
        sink = Sink(call.exchange.stream(200, [_RAW]), _BUFFER_BYTES, drain_s=_DRAIN_S)
        self._observe("standby_snapshot", call.started, 200)
        try:
            sink.write(first_chunk)
            async for chunk in chunks:
                await sink.wait_for_room()
                sink.write(chunk)
                if sink.ended is not None or self._closing:
                    break
        except KithError as error:  # the standby notices that the checksum is missing
            _log.error("a snapshot was cut off", error=error.message)
        finally:
            sink.end("gone")
            await chunks.aclose()

    @get("/standby/log", "The log, for a standby", callers="server", documented=False, answers=bytes)
    async def standby_log(
        self,
        call: Call,
        after: Annotated[int, Meta(ge=0)] = 0,
        has: Annotated[int | None, Meta(ge=0)] = None,
        wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0,
        places: Annotated[int, Meta(ge=0, le=1)] = 0,
        name: Name = None,
        history: Annotated[int | None, Meta(ge=0)] = None,
    ) -> RawAnswer:
        """The events that follow an event, as soon as there are any; 204 if there are none within `wait_ms`. `places=1`
        adds the positions of consumers. `history`: the history of the standby's store, to which `has` belongs.
        """
        if name is not None:
            self._keep(name, after)
        segment = await self._source.log(after, has, wait_ms / 1000, with_places=bool(places), history=history)
        call.started = time.perf_counter()
        return RawAnswer(b"", [], 204) if segment is None else RawAnswer(segment, [_RAW])

    @get("/standby/epoch", "The epoch of this machine's store", callers="server", documented=False)
    async def standby_epoch(self, call: Call) -> Epoch:
        """The epoch of this machine's store."""
        return await self._source.epoch()

    @post_query("/standby/fence", "Another machine is the primary", callers="server", documented=False)
    async def standby_fence(self, call: Call, body: Fencing) -> FencedAt:
        """Refuses all writes from now on. 409 if the epoch is not newer than this machine's."""
        return FencedAt(await self._source.fence(body.epoch, body.primary))

    def close(self) -> None:
        """End the running snapshots, because this process stops."""
        self._closing = True
