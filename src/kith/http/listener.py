"""All connections of one process: accepted, ended where they rest too long, drained at the end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from email.utils import formatdate

from kith.http.connection import Connection
from kith.http.exchange import Serve
from kith.http.serving_state import Refusal, ServingState

BACKLOG = 4096
_LOOKED_EVERY_S = 1.0


class Listener:
    """Serves a socket that listens already, and that other processes may serve too."""

    def __init__(self, door: Serve, refusal: Refusal, *, idle_s: float, connections_max: int) -> None:
        """`idle_s`: how long a connection may take to send the head of a request, or rest before it, or take nothing of
        its answer.
        """
        self._shared, self._idle_s = ServingState(door, refusal, connections_max), idle_s
        self._server: asyncio.Server | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are connected."""
        return len(self._shared.connections)

    async def serve(self, listening: socket.socket) -> None:
        """Accept connections from here on."""
        shared = self._shared
        self._look()
        self._server = await shared.loop.create_server(lambda: Connection(shared), sock=listening, backlog=BACKLOG)

    async def close(self, within_s: float) -> None:
        """Accept no more, answer what has begun, and end: after `within_s` whatever is left is cut off."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._shared.connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._shared.all_lost.wait()
        for connection in list(self._shared.connections):
            connection.abort()
        if self._next_look is not None:
            self._next_look.cancel()

    def _look(self) -> None:
        """Note the time, and look after every connection."""
        shared = self._shared
        shared.now_s, shared.last_lines = time.monotonic(), b"date: %b\r\n\r\n" % formatdate(usegmt=True).encode()
        for connection in list(shared.connections):
            connection.look(shared.now_s, self._idle_s)
        self._next_look = shared.loop.call_later(min(_LOOKED_EVERY_S, self._idle_s / 2), self._look)
