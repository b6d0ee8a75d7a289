"""A closed-loop HTTP load generator: N keep-alive connections, each sends its next request when answered.

It runs in a process of its own, on raw sockets, so that on two cores the server has one and the load the
other. A client library would take most of the second core for itself and measure its own cost.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import uvloop


class Load(NamedTuple):
    """What a run measured."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


class _Connection(asyncio.Protocol):
    def __init__(self, requests: Sequence[bytes], start: int, step: int, deadline: float, done: asyncio.Event) -> None:
        self._requests, self._next, self._step = requests, start, step
        self._deadline, self._done = deadline, done
        self.latencies: list[float] = []
        self.errors = 0
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.find(b"content-length: ")
        length = int(self._buffer[at + 16 : self._buffer.find(b"\r", at)])
        if len(self._buffer) < head + 4 + length:
            return
        now = time.perf_counter()
        self.latencies.append(now - self._sent)
        if self._buffer[9:12] != b"200":
            self.errors += 1
        self._buffer = b""
        if now < self._deadline:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._done.set()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += self._step


async def _drive(
    port: int, requests: Sequence[bytes], connections: int, seconds: float
) -> tuple[list[float], int, float]:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    made, finished = [], []
    for index in range(connections):
        done = asyncio.Event()
        _, protocol = await loop.create_connection(
            lambda index=index, done=done: _Connection(requests, index, connections, started + seconds, done),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        made.append(protocol)
        finished.append(done)
    for done in finished:
        await done.wait()
    elapsed = time.perf_counter() - started
    return [x for protocol in made for x in protocol.latencies], sum(protocol.errors for protocol in made), elapsed


def _process(
    port: int, make: Callable[[], Sequence[bytes]], connections: int, seconds: float, warm_s: float, answer: object
) -> None:
    requests = make()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_drive(port, requests, connections, warm_s))
        latencies, errors, elapsed = runner.run(_drive(port, requests, connections, seconds))
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    answer.send(Load(len(latencies), elapsed, float(p50), float(p99), errors))  # type: ignore[attr-defined]


def run(
    port: int, make: Callable[[], Sequence[bytes]], *, connections: int, seconds: float, warm_s: float = 1.0
) -> Load:
    """Send what `make` (a picklable function, called in the other process) returns, over and over."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(port, make, connections, seconds, warm_s, send))
    process.start()
    load = receive.recv()
    process.join()
    assert isinstance(load, Load)
    return load


def request(method: str, path: str, key: str, body: bytes = b"", user: int | None = None) -> bytes:
    """The bytes of one request."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {key}"]
    if user is not None:
        lines.append(f"x-kith-user: {user}")
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
