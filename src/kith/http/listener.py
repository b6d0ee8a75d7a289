"""The connections of one process: accepts them, closes idle ones, drains them at the end.

Processes that serve one socket must share its connections. A client opens its pool within a few hundred microseconds;
without sharing, the process that wakes first would take and keep them all. So a process that shares its socket accepts
one connection more than it had lately, then pauses and leaves the next ones to the others. The pause grows with the
number of its connections. A connection that replaces one that ended is accepted at once (decision 43).
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

_PAUSE_PER_CONNECTION_S, _PAUSE_S_MAX = 0.001, 0.002
"""How long a process leaves the next connection to others, in seconds: the first per connection, at most the
second."""
_GROWTH_SHARE = 16
"""After that pause it accepts one more, plus one for each 16 that it has."""
_REPLACEMENT_S = 0.02
"""For how many seconds after the last one a connection counts as the replacement of one that ended."""
_AT_ONCE = 64
"""Most connections accepted in one turn of the loop."""
_NO_ROOM_PAUSE_S = 0.1
"""Pause in accepting after the system ran out of descriptors or memory, in seconds."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_CHECKED_EVERY_S = 1.0
_IN_FLIGHT_S = 0.1
"""How long a closing listener waits for requests that clients sent before they could know, in seconds."""
_log = structlog.get_logger("kith.http")


class Listener:
    """Serves a socket that is already listening."""

    def __init__(self, door: Serve, refusal: Refusal, *, idle_s: float, connections_max: int) -> None:
        """`idle_s`: how long a connection may take to send the head of a request, stay idle before it, or read nothing
        of its answer.
        """
        self._shared, self._idle_s = ServingState(door, refusal, connections_max), idle_s
        self._accepting: asyncio.Server | SharedSocket | None = None
        self._next_check: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of open connections."""
        return len(self._shared.connections)

    async def serve(self, listening: socket.socket, *, alone: bool = False) -> None:
        """Start accepting connections. `alone`: no other process accepts from this socket."""
        shared = self._shared
        _end_unacknowledged(listening, self._idle_s)
        self._check_connections()
        if alone:  # costs a fifth less per connection
            self._accepting = await shared.loop.create_server(
                lambda: Connection(shared), sock=listening, backlog=BACKLOG
            )
        else:
            self._accepting = SharedSocket(listening, shared)

    async def close(self, within_s: float) -> None:
        """Stop accepting, answer requests that have begun or are on their way, and close. What is left after `within_s`
        is cut off.
        """
        if self._accepting is not None:
            self._accepting.close()
        self._shared.draining = True
        for connection in self._shared.connections:
            connection.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._close_idle()
                await self._shared.all_closed.wait()
        for connection in list(self._shared.connections):
            connection.abort()
        if self._next_check is not None:
            self._next_check.cancel()

    async def _close_idle(self) -> None:
        """Close idle connections. Busy clients are told in their next answer that the connection closes; closing
        between two requests would lose the second.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IN_FLIGHT_S):
                await self._shared.all_closed.wait()
        for connection in list(self._shared.connections):
            connection.close_if_idle()

    def _check_connections(self) -> None:
        """Note the time, and check every connection."""
        shared = self._shared
        shared.now_s, shared.last_lines = time.monotonic(), b"date: %b\r\n\r\n" % formatdate(usegmt=True).encode()
        for connection in list(shared.connections):
            connection.check(shared.now_s, self._idle_s)
        self._next_check = shared.loop.call_later(min(_CHECKED_EVERY_S, self._idle_s / 2), self._check_connections)


def _end_unacknowledged(listening: socket.socket, after_s: float) -> None:
    """Have the system close connections whose client acknowledges nothing for this long, if it can (Linux).

    A phone that loses its network does not say goodbye. Otherwise its streams would count for a quarter of an hour, for
    which the system retransmits their heartbeats. Accepted connections inherit the option from the listening socket.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT") and listening.family in (socket.AF_INET, socket.AF_INET6):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(1_000 * after_s)))


class SharedSocket:
    """Accepts this process's share of the connections of a socket that other processes accept from too."""

    def __init__(self, listening: socket.socket, shared: ServingState) -> None:
        listening.setblocking(False)
        self._listening, self._shared, self._closed = listening, shared, False
        self._connecting = set[asyncio.Task[None]]()  # accepted, not connected yet
        self._recent, self._recent_until_s = (
            0,
            0.0,
        )  # connections that it had lately; up to this many it accepts at once
        self._may_grow_s = 0.0  # when it may accept more than it had
        self._resume()

    def close(self) -> None:
        """Stop accepting."""
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
        """Accept waiting connections, or leave them to others for a while."""
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
                self._pause(_NO_ROOM_PAUSE_S)
                return
            accepted.setblocking(False)
            self._take(accepted)

    def _wait_s(self) -> float:
        """How long to leave the next connection to others, in seconds."""
        now_s, has = time.monotonic(), self._connection_count()
        if now_s > self._recent_until_s:
            self._recent = has
        return 0.0 if has < self._recent else self._may_grow_s - now_s

    def _take(self, accepted: socket.socket) -> None:
        now_s, has = time.monotonic(), self._connection_count()
        if has >= self._recent:
            self._recent, self._may_grow_s = (
                has + 1 + has // _GROWTH_SHARE,
                now_s + min(_PAUSE_PER_CONNECTION_S * (has + 1), _PAUSE_S_MAX),
            )
        self._recent_until_s = now_s + _REPLACEMENT_S
        task = self._shared.loop.create_task(self._begin(accepted))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _connection_count(self) -> int:
        return len(self._shared.connections) + len(self._connecting)

    async def _begin(self, accepted: socket.socket) -> None:
        shared = self._shared
        with contextlib.suppress(OSError):  # the client has already disconnected
            await shared.loop.connect_accepted_socket(lambda: Connection(shared), accepted)
