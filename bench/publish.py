"""Posts at a steady rate, and the delay until followers see them: the load in one process, API and worker in others."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import uvloop

from bench.figures import DATA_SETS, KEY, Data, Figure, copied, generated, imported, server
from bench.load import request
from kith.commands.transfer.formats import read

_RATE, _SECONDS, _CONNECTIONS = 500, 15, 64
_WATCHED_SHARE, _POLL_S, _TIMEOUT_S = 0.02, 0.01, 10.0


class Seen(NamedTuple):
    """Results of a run, in ms. `late_s`: how far the load fell behind its own schedule at most."""

    acknowledged: list[float]
    visible: list[float]
    never: int
    late_s: float


def publish(folder: Path) -> list[Figure]:
    """500 posts a second by authors drawn in proportion to their followers; some are awaited in a follower's home."""
    data = _graph(folder)
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    chosen = np.random.default_rng(5).choice(len(edges), _RATE * _SECONDS)
    pairs = [(int(author), int(reader)) for reader, author in edges[chosen]]
    with server(copied(imported(folder, data), "publish")) as settings:
        seen = _apart(settings.port, pairs)
    if seen.never or seen.late_s > 1:
        raise RuntimeError(f"{seen.never} posts were never seen; the load fell {seen.late_s:.1f} s behind")
    says = f"{data.says}; {_RATE} posts/s for {_SECONDS} s, {len(seen.visible)} of them looked for every 10 ms"
    acknowledged, visible = (np.percentile(ms, [50, 99]) for ms in (seen.acknowledged, seen.visible))
    return [
        Figure("publish-p50", float(acknowledged[0]), "ms", "< 10", data=says),
        Figure("publish-p99", float(acknowledged[1]), "ms", "", data=says),
        Figure("publish-visible-p50", float(visible[0]), "ms", "", data=says),
        Figure("publish-visible-p99", float(visible[1]), "ms", "< 2,000", data=says),
    ]


def _graph(folder: Path) -> Data:
    file = DATA_SETS / "higgs" / "interaction-follows.txt.gz"
    if file.exists():
        return Data(file, "Higgs who-acted-on-whom (SNAP), 461,192 edges, one with 23,143 followers")
    return generated(folder, 300_000, 460_000, {"dana": 23_000})


def _apart(port: int, pairs: list[tuple[int, int]]) -> Seen:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(port, pairs, send))
    process.start()
    seen = receive.recv()
    process.join()
    assert isinstance(seen, Seen)
    return seen


def _process(port: int, pairs: list[tuple[int, int]], answer: object) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer.send(runner.run(_Load(port).run(pairs)))  # type: ignore[attr-defined]


class _Load:
    """Sends each post on schedule, on any free connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._seen = Seen([], [], 0, 0.0)

    async def run(self, pairs: list[tuple[int, int]]) -> Seen:
        for _ in range(_CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))
        chosen, watched = random.Random(2), set()
        for number in range(len(pairs)):
            if chosen.random() < _WATCHED_SHARE:
                watched.add(number)
        for number in watched:  # so that these readers have a timeline, as active readers do
            await self._home(pairs[number][1])
        tasks, started, late = [], time.perf_counter(), 0.0
        for number, (author, reader) in enumerate(pairs):
            wait = started + number / _RATE - time.perf_counter()
            late = max(late, -wait)
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(self._post(author, reader if number in watched else None, number)))
        never = sum(await asyncio.gather(*tasks))
        return self._seen._replace(never=never, late_s=late)

    async def _post(self, author: int, reader: int | None, number: int) -> bool:
        """Post, and wait until the reader, if given, sees the post. Returns whether they never saw it."""
        started = time.perf_counter()
        body = msgspec.json.encode({"content": {"text": f"a post like many others, number {number}"}})
        made = await self._ask(request("POST", "/api/v1/posts", KEY, body, author))
        done = time.perf_counter()
        self._seen.acknowledged.append((done - started) * 1000)
        if reader is None:
            return False
        while time.perf_counter() - done < _TIMEOUT_S:
            if made["id"] in await self._home(reader):
                self._seen.visible.append((time.perf_counter() - done) * 1000)
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _home(self, reader: int) -> list[str]:
        answer = await self._ask(request("GET", "/api/v1/feed?type=latest&limit=50", KEY, user=reader))
        return [post["id"] for post in answer["posts"]]

    async def _ask(self, raw: bytes) -> dict[str, Any]:
        reading, writing = await self._free.get()
        try:
            writing.write(raw)
            head = (await reading.readuntil(b"\r\n\r\n")).lower()
            at = head.index(b"content-length: ") + 16
            body = await reading.readexactly(int(head[at : head.index(b"\r", at)]))
        finally:
            self._free.put_nowait((reading, writing))
        if head[9:10] != b"2":
            raise RuntimeError(body.decode())
        return msgspec.json.decode(body)  # type: ignore[no-any-return]
