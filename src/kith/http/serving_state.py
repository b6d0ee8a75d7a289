"""What the connections of a process share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from kith.core.errors import KithError, Overloaded
from kith.http.exchange import Serve
from kith.http.headers import Pairs
from kith.http.heads import HeadCache

Refusal = Callable[[KithError], tuple[int, Pairs, bytes]]
"""Makes an answer from an error: status, headers, body."""
HOLD_MAX_S = 0.001
"""How long an answer is held back while others are made, in seconds."""


class Client(Protocol):
    """A connection, as `ServingState` and the listener see it."""

    draining: bool

    def refuse(self, error: KithError) -> None: ...
    def close_if_idle(self) -> None: ...
    def check(self, now_s: float, idle_s: float) -> None: ...
    def abort(self) -> None: ...
    def send_held(self) -> None: ...


class ServingState:
    """The state that connections share. `now_s`, and the date in `last_lines`, are those of the listener's last
    check. `draining`: new connections are `draining`, too.
    """

    def __init__(self, door: Serve, refusal: Refusal, connections_max: int) -> None:
        self.door, self.refusal, self._max = door, refusal, connections_max
        self.loop, self.heads = asyncio.get_running_loop(), HeadCache()
        self.now_s, self.last_lines = 0.0, b""
        self.connections, self.all_closed, self.draining = set[Client](), asyncio.Event(), False
        self.all_closed.set()
        self._held, self._held_since_s = list[Client](), 0.0

    def hold(self, connection: Client) -> None:
        """Have a connection send its held answer at the end of this turn of the loop, or after HOLD_MAX_S.

        So the answers of a turn are sent together. Otherwise a waiting client is woken for each answer alone, and
        waking it costs more than sending (decision 43).
        """
        if not self._held:
            self._held_since_s = time.perf_counter()
            self.loop.call_soon(self._send_held)
        self._held.append(connection)

    def send_if_late(self) -> None:
        """Send held answers that have waited longer than HOLD_MAX_S, because this turn of the loop is long."""
        if self._held and time.perf_counter() - self._held_since_s > HOLD_MAX_S:
            self._send_held()

    def _send_held(self) -> None:
        connections, self._held = self._held, []
        for connection in connections:
            connection.send_held()

    def connection_opened(self, connection: Client) -> None:
        """A client connected."""
        connection.draining = self.draining  # it was accepted just before that
        self.connections.add(connection)
        self.all_closed.clear()
        if len(self.connections) > self._max:
            connection.refuse(Overloaded("this process has as many connections as it takes; connect again later"))

    def connection_closed(self, connection: Client) -> None:
        """A client disconnected."""
        self.connections.discard(connection)
        if not self.connections:
            self.all_closed.set()
