"""The outgoing side of an answer that does not end: what a slow reader may cost, and when it is cut off.

What is told is handed to granian at once. So that a slow reader costs a bounded amount of memory, each stream may be
handed `bytes_max` that the kernel does not show to have gone out (see `sockets`); beyond, it is cut off, and its client
resumes where it left off.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from kith.api.sockets import Sockets

TAKEN_S = 2.0
"""So long a client that comes back may take to read half of the buffer."""
LOOKED_EVERY_S = 0.01
"""How often it is looked at, after the first looks: a reader that is quick does not wait so long."""
_FIRST_LOOKED_S = 0.0005


class Sink:
    """The outgoing side of one stream."""

    def __init__(
        self, transport: Any, client: str, sockets: Sockets, bytes_max: int, *, taken_s: float = TAKEN_S
    ) -> None:
        self._transport, self._client, self._sockets, self._bytes_max = transport, client, sockets, bytes_max
        self._taken_s = taken_s
        self._waiting = 0  # bytes handed over that may not have gone out
        self.ended: str | None = None

    def write(self, raw: bytes) -> None:
        """Hand bytes over, or end the stream if too much waits already."""
        if self.ended is not None:
            return
        if not self.has_room and self._waiting + len(raw) > self._bytes_max:
            self.end("slow")
            return
        self._waiting += len(raw)
        self._transport.send_bytes(raw)  # its answer is of no use: who is gone is told by `client_disconnect`

    async def room(self) -> None:
        """Wait until half of the buffer is free. A client that leaves it full for `taken_s` is slow, and cut off."""
        last_s, pause_s = time.monotonic() + self._taken_s, _FIRST_LOOKED_S
        while self.ended is None and not self.has_room:
            if time.monotonic() > last_s:
                self.end("slow")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOKED_EVERY_S)

    def end(self, why: str) -> None:
        """Close the stream; the client resumes with its last event id."""
        if self.ended is None:
            self.ended = why
            if why == "slow":
                self._sockets.cut(self._client)
            self._transport = None  # granian ends the answer when nobody holds it

    @property
    def has_room(self) -> bool:
        """Whether half of the buffer is free. The kernel is asked only where it may not be."""
        half = self._bytes_max // 2
        if self._waiting > half and (unsent := self._sockets.unsent(self._client)) is not None:
            self._waiting = unsent
        return self._waiting <= half
