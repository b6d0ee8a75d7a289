"""The outgoing side of a streamed answer: bounds what a slow reader may cost, and cuts it off above that.

Bytes go to the connection at once. Each stream may have `bytes_max` bytes that its client has not read yet, so a slow
reader costs a bounded amount of memory. Above that it is cut off, and its client resumes where it left off.
"""

from __future__ import annotations

import asyncio
import time

from kith.http.exchange import Outgoing

DRAIN_S = 2.0
"""Time a resuming client has to drain half its buffer."""
POLL_S = 0.01
"""Longest pause between two checks of the buffer. The first pauses are shorter, so that a fast reader hardly waits."""
_FIRST_POLL_S = 0.0005


class Sink:
    """The outgoing side of one stream."""

    def __init__(self, outgoing: Outgoing, bytes_max: int, *, drain_s: float = DRAIN_S) -> None:
        self._outgoing, self._bytes_max, self._drain_s = outgoing, bytes_max, drain_s
        self._waiting = 0  # bytes passed on that the client may not have read
        self.ended: str | None = None

    def write(self, raw: bytes) -> None:
        """Send bytes, or end the stream if too much is unread."""
        if self.ended is not None:
            return
        if not self.has_room and self._waiting + len(raw) > self._bytes_max:
            self.end("slow")
            return
        self._waiting += len(raw)
        self._outgoing.send(raw)

    async def wait_for_room(self) -> None:
        """Wait until half of the buffer is free. A client that leaves it full for `drain_s` is slow and is cut off. If
        the client has disconnected, the stream ends.
        """
        if self._outgoing.closed:
            self.end("gone")
        last_s, pause_s = time.monotonic() + self._drain_s, _FIRST_POLL_S
        while self.ended is None and not self.has_room:
            if time.monotonic() > last_s:
                self.end("slow")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, POLL_S)

    def end(self, why: str) -> None:
        """Close the stream. The client resumes with its last event id."""
        if self.ended is None:
            self.ended = why
            if why == "slow":
                self._outgoing.cut()
            else:
                self._outgoing.end()

    @property
    def has_room(self) -> bool:
        """Whether half of the buffer is free. The kernel is queried only if the known amount says it may not be."""
        half = self._bytes_max // 2
        if self._waiting > half:
            self._waiting = self._outgoing.unsent()
        return self._waiting <= half
