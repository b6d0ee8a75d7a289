"""An HTTP load generator: a closed loop, or requests that arrive at a fixed rate.

Closed loop: N keep-alive connections, each of which sends its next request once the last is answered. At a rate:
requests are sent on schedule, whether or not earlier ones are answered. They are timed from when they were due, so a
stall of the server shows in the latencies.

The load runs in a process of its own, on raw sockets: on two cores the server has one and the load the other. A client
library would take most of the second core, and the load would measure its cost.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import uvloop

_SHOWN_BYTES = 600
_ARRIVALS_CONNECTIONS = 64
_TICK_S = 0.000_25
"""Requests that are due within this time of each other are sent together."""
_TWO = ord("2")


class Load(NamedTuple):
    """Results of a run. `body_bytes`: of all answers together. `wrong`: the first bad answer."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    body_bytes: int
    errors: int = 0
    wrong: str = ""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def body_bytes(answer: bytes) -> int | None:
    """The length of an answer's body; None while the answer is incomplete."""
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return None
    at = answer.find(b"content-length: ", 0, head)
    if at < 0:  # 204
        return 0
    length = int(answer[at + 16 : answer.find(b"\r", at)])
    return length if len(answer) >= head + 4 + length else None


def is_good(answer: bytes, body: int, least_bytes: int) -> bool:
    """Whether an answer is a 204, or a success with a body of `least_bytes` or more."""
    return answer[9] == _TWO and (body >= least_bytes or answer[9:12] == b"204")


def summed(latencies_s: Sequence[float], seconds: float, body: int, errors: int = 0, wrong: str = "") -> Load:
    """A run's latencies as percentiles."""
    if not latencies_s:
        raise RuntimeError("the load ran out of requests before it was measured; give it more")
    p50, p99 = np.percentile(latencies_s, [50, 99]) * 1000
    return Load(len(latencies_s), seconds, float(p50), float(p99), body, errors, wrong)


class _Run:
    """What the connections of one run share."""

    def __init__(self, requests: Iterator[bytes], least_bytes: int) -> None:
        self.requests, self.least_bytes = requests, least_bytes
        self.latencies_s: list[float] = []
        self.body_bytes = self.errors = 0
        self.wrong = ""
        self.over = asyncio.Event()  # nothing more will be answered

    def fail(self, what: str) -> None:
        """Count a bad answer; keep the first one's description."""
        self.errors += 1
        self.wrong = self.wrong or what


class _Connection(asyncio.Protocol):
    """One request at a time, timed from `since`. `following`: called when it is answered."""

    def __init__(self, run: _Run, following: Callable[[_Connection], None]) -> None:
        self._run, self._following = run, following
        self._buffer, self._since = b"", 0.0
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, since: float) -> None:
        self._since = since
        self._transport.write(request)

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        length = body_bytes(data)
        if length is None:
            self._buffer = data
            return
        run = self._run
        run.latencies_s.append(time.perf_counter() - self._since)
        run.body_bytes += length
        if not is_good(data, length, run.least_bytes):
            run.fail(data[:_SHOWN_BYTES].decode(errors="replace"))
        self._buffer, self._since = b"", 0.0
        self._following(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._since:
            self._run.fail("the server closed a connection without an answer")
            self._run.over.set()
        self.closed.set()


async def _connections(port: int, count: int, run: _Run, following: Callable[[_Connection], None]) -> list[_Connection]:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: _Connection(run, following), "127.0.0.1", port) for _ in range(count)]
    return [connection for _, connection in made]


async def _closed_loop(port: int, run: _Run, connections: int, seconds: float) -> float:
    """Keep every connection busy; returns the seconds that passed."""

    def following(connection: _Connection) -> None:
        now = time.perf_counter()
        request = next(run.requests, None) if now < deadline else None
        if request is None:
            connection.close()
        else:
            connection.send(request, now)

    deadline = time.perf_counter() + seconds
    opened = await _connections(port, connections, run, following)
    started = time.perf_counter()
    deadline = started + seconds
    for connection in opened:
        following(connection)
    for connection in opened:
        await connection.closed.wait()
    return time.perf_counter() - started


class Arrivals:
    """When requests are due, in seconds after the start: evenly, `rate` a second."""

    def __init__(self, rate: float, seconds: float) -> None:
        self._rate, self._count = rate, int(rate * seconds)
        self._given = 0

    def due(self, now_s: float) -> Iterator[float]:
        """Due times that have come by now; each is given once."""
        while self._given < self._count and self._given / self._rate <= now_s:
            self._given += 1
            yield (self._given - 1) / self._rate

    def next_s(self) -> float | None:
        """When the next request is due; None if all were given."""
        return self._given / self._rate if self._given < self._count else None


async def _arriving(port: int, run: _Run, rate: float, seconds: float) -> float:
    """Send requests on schedule. A request that finds no free connection waits, and its wait counts as latency."""
    waiting: deque[tuple[bytes, float]] = deque()

    def following(connection: _Connection) -> None:
        if waiting:
            connection.send(*waiting.popleft())
            return
        free.append(connection)
        if arrivals.next_s() is None and len(free) == len(opened):
            run.over.set()

    def send_due() -> None:
        for at in arrivals.due(time.perf_counter() - started):
            request = next(run.requests, None)
            if request is None:
                run.fail("there are fewer requests than arrivals")
                run.over.set()
            elif free:
                free.pop().send(request, started + at)
            else:
                waiting.append((request, started + at))

    arrivals = Arrivals(rate, seconds)
    opened = await _connections(port, _ARRIVALS_CONNECTIONS, run, following)
    free, started = list(opened), time.perf_counter()
    call = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, send_due)
    clock = threading.Thread(target=_call_when_due, args=(arrivals, started, call, run.over), daemon=True)
    clock.start()
    await run.over.wait()
    took = time.perf_counter() - started
    clock.join()
    for connection in opened:
        connection.close()
    return took


def _call_when_due(arrivals: Arrivals, started: float, call: Callable[[], object], over: asyncio.Event) -> None:
    """Call whenever a request is due. Runs on a thread of its own.

    The loop's timers count whole milliseconds. For shorter waits it would spin, and take a core from the server.
    """
    while (due := arrivals.next_s()) is not None and not over.is_set():
        time.sleep(max(_TICK_S, started + due - time.perf_counter()))
        call()


async def _drive(port: int, requests: Iterator[bytes], how: _LoadPlan) -> Load:
    if how.warm_s:
        await _closed_loop(port, _Run(requests, how.least_bytes), how.connections, how.warm_s)
    run = _Run(requests, how.least_bytes)
    if how.arrivals:
        took = await _arriving(port, run, how.arrivals, how.seconds)
    else:
        took = await _closed_loop(port, run, how.connections, how.seconds)
    return summed(run.latencies_s, took, run.body_bytes, run.errors, run.wrong)


class _LoadPlan(NamedTuple):
    connections: int
    seconds: float
    warm_s: float
    once: bool
    least_bytes: int
    arrivals: float | None


def _process(port: int, make: Callable[[], Sequence[bytes]], how: _LoadPlan, answer: Any) -> None:
    requests: Iterable[bytes] = make()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        endless = iter(requests) if how.once else itertools.cycle(requests)
        try:
            answer.send(runner.run(_drive(port, endless, how)))
        except Exception as error:
            answer.send(error)


def run(
    port: int,
    make: Callable[[], Sequence[bytes]],
    *,
    connections: int,
    seconds: float,
    warm_s: float = 1.0,
    once: bool = False,
    least_bytes: int = 0,
    arrivals: float | None = None,
) -> Load:
    """Send what `make` (a picklable function, called in the other process) returns, over and over or `once`.

    `least_bytes`: the shortest body an answer may have. `arrivals`: requests a second, sent on schedule.
    Errors: RuntimeError with the first answer that is not a success or too short.
    """
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    how = _LoadPlan(connections, seconds, warm_s, once, least_bytes, arrivals)
    process = context.Process(target=_process, args=(port, make, how, send))
    process.start()
    send.close()
    load = receive.recv()
    process.join()
    if isinstance(load, Exception):
        raise load
    assert isinstance(load, Load)
    if load.errors:
        raise RuntimeError(f"{load.errors} of {load.requests} answers were wrong; the first: {load.wrong}")
    return load


def request(method: str, path: str, key: str, body: bytes = b"", user: int | None = None) -> bytes:
    """The bytes of one request."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {key}"]
    if user is not None:
        lines.append(f"x-kith-user: {user}")
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
