"""Open streams: what 5,000 of them cost a server, and the delay from a post to its event.

Readers and authors are in one other process, on raw sockets. Each post carries the time at which its request was sent,
so a latency covers everything up to the event's arrival: request, durable commit, log, readers, stream.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import resource
import time
from pathlib import Path
from typing import NamedTuple, cast

import httpx
import numpy as np
import uvloop

from bench.figures import KEY, Data, Figure, copied, imported, real_graph, server
from bench.load import request
from kith.commands.transfer.formats import read
from kith.run.config import Settings

STREAMS = 5_000
POSTS_A_SECOND = 100
SECONDS = 10.0
CELEBRITY = 9_000_000
CELEBRITY_POSTS = 10
_PATH = "/api/v1/feed/stream"
_SENT = re.compile(rb'"preview":"(\d+)"')
_OPENING_CONCURRENCY = 100


class Run(NamedTuple):
    """Results of the load process. Times in seconds."""

    opening_s: float
    latencies: list[float]
    celebrity: list[float]
    marks: list[tuple[float, float, int]]  # (time, CPU seconds of the server, its memory) before and after each phase


class _Reader(asyncio.Protocol):
    """One stream."""

    def __init__(self, user: int, begun: asyncio.Future[None], into: list[list[float]]) -> None:
        self._user, self._begun, self._into = user, begun, into

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(request("GET", _PATH, KEY, user=self._user))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        if not self._begun.done():
            if data.startswith(b"HTTP") and data[9:12] != b"200":
                self._begun.set_exception(RuntimeError(data.decode()))
            elif b"\nid: " in data:
                self._begun.set_result(None)
        for sent in _SENT.findall(data):
            self._into[0].append((now - int(sent)) / 1e9)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._begun.done():
            self._begun.set_exception(RuntimeError("the stream ended before it began"))


class _Author(asyncio.Protocol):
    """One connection that posts, one post at a time."""

    def __init__(self) -> None:
        self._answered: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answered is not None and not self._answered.done():
            if data[9:12] == b"201":
                self._answered.set_result(None)
            else:
                self._answered.set_exception(RuntimeError(data.decode()))

    async def post(self, author: int) -> None:
        """Post, and wait for the answer."""
        self._answered = asyncio.get_running_loop().create_future()
        body = b'{"content":{"text":"%d"}}' % time.perf_counter_ns()
        self._transport.write(request("POST", "/api/v1/posts", KEY, body, author))
        await self._answered


async def _drive(port: int, pid: int, readers: list[int], authors: list[int]) -> Run:
    loop = asyncio.get_running_loop()
    into: list[list[float]] = [[]]
    marks = [_usage(pid)]
    started = time.perf_counter()
    open_ = []
    for at in range(0, len(readers), _OPENING_CONCURRENCY):
        begun = []
        for user in readers[at : at + _OPENING_CONCURRENCY]:
            begun.append(loop.create_future())
            made = lambda user=user, begun=begun[-1]: _Reader(user, begun, into)  # noqa: E731
            open_.append((await loop.create_connection(made, "127.0.0.1", port))[0])
        await asyncio.gather(*begun)
    opening_s = time.perf_counter() - started
    marks.append(_usage(pid))
    await asyncio.sleep(SECONDS)
    marks.append(_usage(pid))
    connections = [(await loop.create_connection(_Author, "127.0.0.1", port))[1] for _ in range(16)]
    free: asyncio.Queue[_Author] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)

    async def post(author: int) -> None:
        connection = await free.get()
        await connection.post(author)
        free.put_nowait(connection)

    tasks, begin = [], time.perf_counter()
    for number, author in enumerate(authors):
        await asyncio.sleep(max(0.0, begin + number / POSTS_A_SECOND - time.perf_counter()))
        tasks.append(asyncio.create_task(post(author)))
    await asyncio.gather(*tasks)
    await asyncio.sleep(1.0)
    marks.append(_usage(pid))
    latencies, into[0] = into[0], []
    for number in range(1, CELEBRITY_POSTS + 1):
        await post(CELEBRITY)
        deadline = time.perf_counter() + 30
        while len(into[0]) < number * len(readers) and time.perf_counter() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for transport in open_:
        transport.close()
    return Run(opening_s, latencies, into[0], marks)


def _usage(pid: int) -> tuple[float, float, int]:
    """The time now, the CPU seconds of a process, and its memory in bytes."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return time.perf_counter(), cpu_s, pages * os.sysconf("SC_PAGE_SIZE")


def _process(port: int, pid: int, readers: list[int], authors: list[int], answer: object) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer.send(runner.run(_drive(port, pid, readers, authors)))  # type: ignore[attr-defined]


def streams(folder: Path) -> list[Figure]:
    """5,000 readers of a real follow graph; authors drawn in proportion to their followers; and a celebrity whom all
    readers follow.
    """
    data = real_graph(folder)
    readers, authors = _cast(data)
    settings = copied(imported(folder, data), "streams")
    with server(settings):
        _follow_celebrity(settings, readers)
        (pid,) = (int(file.stem.removeprefix("api-")) for file in (Path(settings.data) / "metrics").glob("api-*.json"))
        context = multiprocessing.get_context("spawn")
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(settings.port, pid, readers, authors, send))
        process.start()
        run = receive.recv()
        process.join()
    return _figures(run, data)


def _cast(data: Data) -> tuple[list[int], list[int]]:
    """Readers, who all follow someone, and the author of each post."""
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    random = np.random.default_rng(13)
    readers = random.permutation(np.unique(edges[:, 0]))[:STREAMS]
    authors = edges[random.integers(0, len(edges), int(POSTS_A_SECOND * SECONDS)), 1]
    return readers.tolist(), authors.tolist()


def _follow_celebrity(settings: Settings, readers: list[int]) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{settings.port}", headers={"Authorization": f"Bearer {KEY}"}) as http:
        for at in range(0, len(readers), 1000):
            rows = [{"op": "add", "source": str(r), "destination": str(CELEBRITY)} for r in readers[at : at + 1000]]
            http.post("/api/v1/graph/follows/edges", json={"edges": rows}, timeout=60).raise_for_status()


def _figures(run: Run, data: Data) -> list[Figure]:
    before, opened, idle, busy = run.marks
    p50, p99 = np.percentile(run.latencies, [50, 99]) * 1000
    everyone = np.percentile(run.celebrity, [50, 99]) * 1000
    told = len(run.latencies) / (POSTS_A_SECOND * SECONDS)
    says = f"{data.says}; {STREAMS:,} streams, {POSTS_A_SECOND} posts/s, {told:.1f} streams told a post"
    if len(run.celebrity) != CELEBRITY_POSTS * STREAMS:
        raise RuntimeError(f"{len(run.celebrity)} of {CELEBRITY_POSTS * STREAMS} deliveries came")
    return [
        Figure("streams-open", STREAMS / run.opening_s, "streams/s", "", data=says),
        Figure("streams-memory", (opened[2] - before[2]) / STREAMS / 1000, "KB/stream", "", data=says),
        Figure("streams-idle-cpu", 100 * (idle[1] - opened[1]) / (idle[0] - opened[0]), "% of a core", "", data=says),
        Figure("streams-cpu", 100 * (busy[1] - idle[1]) / (busy[0] - idle[0]), "% of a core", "", data=says),
        Figure("streams-p50", float(p50), "ms", "", data=says),
        Figure("streams-p99", float(p99), "ms", "", data=says),
        Figure("streams-all-p50", float(everyone[0]), "ms", "", data=f"{STREAMS:,} streams told of each post"),
        Figure("streams-all-p99", float(everyone[1]), "ms", "", data=f"{STREAMS:,} streams told of each post"),
    ]
