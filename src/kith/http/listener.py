"""All connections of one process: accepted, ended where they rest too long, drained at the end.

Processes that serve one socket have to share its connections. A client opens a pool of them within a few hundred
microseconds; the process that woke first would take them all, and keep them, while the others have none. So a process
that is not alone takes one more than it had lately, and leaves the next to the others for a while, the longer the more
it has. A connection that comes in the place of one that ended is taken at once (decision 43).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from email.utils import formatdate

import structlog

from kith.http.connection import Connection
from kith.http.exchange import Serve
from kith.http.serving_state import Refusal, ServingState
from kith.http.sockets import BACKLOG

_GROWS_S, _GROWS_S_MAX = 0.001, 0.002
"""How long a process leaves the next connection to the others: _GROWS_S for each that it has, _GROWS_S_MAX at most."""
_GROWS_SHARE = 16
"""After that pause it takes one more, and another one for each 16 that it has."""
_REPLACED_S = 0.02
"""How long after the last one a connection may come in the place of one that ended."""
_AT_ONCE = 64
"""Connections that are accepted in one turn of the loop."""
_AGAIN_S = 0.1
"""How long nothing is accepted where the system has no descriptor or no memory for it."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_LOOKED_EVERY_S = 1.0
_ON_THEIR_WAY_S = 0.1
"""How long a listener that ends waits for requests that were sent before their client could know."""
_log = structlog.get_logger("kith.http")


class Listener:
    """Serves a socket that listens already."""

    def __init__(self, door: Serve, refusal: Refusal, *, idle_s: float, connections_max: int) -> None:
        """`idle_s`: how long a connection may take to send the head of a request, or rest before it, or take nothing of
        its answer.
        """
        self._shared, self._idle_s = ServingState(door, refusal, connections_max), idle_s
        self._accepting: asyncio.Server | SharedSocket | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are connected."""
        return len(self._shared.connections)

    async def serve(self, listening: socket.socket, *, alone: bool = False) -> None:
        """Accept connections from here on. `alone`: no other process does."""
        shared = self._shared
        _end_unacknowledged(listening, self._idle_s)
        self._look()
        if alone:  # it costs a fifth less a connection
            self._accepting = await shared.loop.create_server(
                lambda: Connection(shared), sock=listening, backlog=BACKLOG
            )
        else:
            self._accepting = SharedSocket(listening, shared)

    async def close(self, within_s: float) -> None:
        """Accept no more, answer what has begun or is on its way, and end: after `within_s` whatever is left is cut
        off.
        """
        if self._accepting is not None:
            self._accepting.close()
        for connection in list(self._shared.connections):
            connection.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._end_at_rest()
                await self._shared.all_lost.wait()
        for connection in list(self._shared.connections):
            connection.abort()
        if self._next_look is not None:
            self._next_look.cancel()

    async def _end_at_rest(self) -> None:
        """End connections that ask nothing. Those of busy clients end with their next answer, which says so: if they
        were closed between two requests, the second would be lost.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ON_THEIR_WAY_S):
                await self._shared.all_lost.wait()
        for connection in list(self._shared.connections):
            connection.end_at_rest()

    def _look(self) -> None:
        """Note the time, and look after every connection."""
        shared = self._shared
        shared.now_s, shared.last_lines = time.monotonic(), b"date: %b\r\n\r\n" % formatdate(usegmt=True).encode()
        for connection in list(shared.connections):
            connection.look(shared.now_s, self._idle_s)
        self._next_look = shared.loop.call_later(min(_LOOKED_EVERY_S, self._idle_s / 2), self._look)


def _end_unacknowledged(listening: socket.socket, after_s: float) -> None:
    """Have the system end connections whose client acknowledges nothing for so long, where it can (Linux).

    A phone that lost its network says no goodbye: else its streams would count for the quarter of an hour for which the
    system sends their heartbeats again. Connections take the option over from the socket that accepts them.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT") and listening.family in (socket.AF_INET, socket.AF_INET6):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(1_000 * after_s)))


class SharedSocket:
    """Accepts this process's share of what comes over a socket that others accept from, too."""

    def __init__(self, listening: socket.socket, shared: ServingState) -> None:
        listening.setblocking(False)
        self._listening, self._shared, self._closed = listening, shared, False
        self._beginning = set[asyncio.Task[None]]()  # accepted, and not connected yet
        self._had, self._had_until_s = 0, 0.0  # connections that it had lately, and may have again at once
        self._grows_s = 0.0  # when it may have more
        self._resume()

    def close(self) -> None:
        """Accept no more."""
        if not self._closed:
            self._closed = True
            self._shared.loop.remove_reader(self._listening.fileno())
            self._listening.close()

    def _resume(self) -> None:
        if not self._closed:
            self._shared.loop.add_reader(self._listening.fileno(), self._accept)

    def _pause(self, seconds: float) -> None:
        self._shared.loop.remove_reader(self._listening.fileno())
        self._shared.loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        """Accept what waits, or leave it to others for a while."""
        for _ in range(_AT_ONCE):
            wait_s = self._wait_s()
            if wait_s > 0:
                self._pause(wait_s)
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # another process was faster
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                _log.warning("no connection can be accepted just now", error=error.strerror)
                self._pause(_AGAIN_S)
                return
            accepted.setblocking(False)
            self._take(accepted)

    def _wait_s(self) -> float:
        """How long to leave the next connection to others."""
        now_s, has = time.monotonic(), self._has()
        if now_s > self._had_until_s:
            self._had = has
        return 0.0 if has < self._had else self._grows_s - now_s

    def _take(self, accepted: socket.socket) -> None:
        now_s, has = time.monotonic(), self._has()
        if has >= self._had:
            self._had, self._grows_s = has + 1 + has // _GROWS_SHARE, now_s + min(_GROWS_S * (has + 1), _GROWS_S_MAX)
        self._had_until_s = now_s + _REPLACED_S
        task = self._shared.loop.create_task(self._begin(accepted))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    def _has(self) -> int:
        return len(self._shared.connections) + len(self._beginning)

    async def _begin(self, accepted: socket.socket) -> None:
        shared = self._shared
        with contextlib.suppress(OSError):  # the client is gone already
            await shared.loop.connect_accepted_socket(lambda: Connection(shared), accepted)
