"""Notifications over HTTP: opening an inbox, and the delay from a like to a stream. One API process and its workers."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import random
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import uvloop

from bench.figures import KEY, SECONDS, Figure, server
from bench.lists import put_edges
from bench.load import request, run
from bench.processes import cpu_s
from bench.routes import client, expected
from bench.town import Town, town
from kith.core.ids import NodeId
from kith.graph.graphs import LIKES, MENTIONED
from kith.notifications.notice import NoticeDraft
from kith.notifications.preferences import Preferences
from kith.notifications.recent import RecentMentions
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.posts_and_notices import notice_services
from kith.run.services import open_services

_READERS, _MENTIONED_LATELY = 200, 1_000
_PAGE, _CONNECTIONS, _TARGET = 50, 16, 2_000
_LEAST_BYTES = 5_000
_RATE, _STREAMS, _STREAMS_OPEN_S = 500, 50, 1.0
_POLL_S, _POLLS_MAX = 0.05, 200


def inbox_open(folder: Path) -> list[Figure]:
    """The newest 50 items of inboxes whose readers want mentions of everyone they follow; 1,000 accounts were mentioned
    lately.

    Each inbox is opened again and again: its rows are read each time; the answer made of them is cached.
    """
    at = town(folder)
    settings = at.copied("inbox-open")
    readers = np.unique(at.posts[:, 1])[:_READERS].tolist()
    asyncio.run(_fill(settings, at, readers))
    with server(settings):
        with client(settings, readers[0]) as http:
            page = http.get(f"/notifications?grouped=false&limit={_PAGE}").raise_for_status().json()
            expected(len(page["items"]), _PAGE, "the length of a page")
        load = functools.partial(
            run, settings.port, functools.partial(_pages, readers),
            connections=_CONNECTIONS, seconds=SECONDS, least_bytes=_LEAST_BYTES,
        )  # fmt: skip
        load()  # the workers start meanwhile, and every inbox is opened once
        files = (Path(settings.data) / "metrics").glob("api-*.json")  # written by now
        reading = [int(file.stem.removeprefix("api-")) for file in files]
        started_s = cpu_s(reading)
        most = load(warm_s=0)  # no warm-up, so that all of its CPU time counts
        a_core = most.requests / (cpu_s(reading) - started_s)
        arriving = load(arrivals=_TARGET / 2)
    says = f"{at.says}; {_READERS} inboxes of {_PAGE} and more, {_MENTIONED_LATELY:,} accounts mentioned lately"
    return [
        Figure("inbox-open", most.rate, "pages/s", f">= {_TARGET:,}", data=says),
        Figure("inbox-open-core", a_core, "pages/s of one core", f">= {_TARGET:,}", data=f"{says}; of the API process"),
        Figure("inbox-open-p99", arriving.p99_ms, "ms", "< 5", data=f"{says}; {_TARGET // 2:,} pages/s arrive"),
    ]


async def _fill(settings: Settings, at: Town, readers: Sequence[int]) -> None:
    """Write for each reader likes of a post of theirs and mentions by others, half of each."""
    chosen = random.Random(7)
    posts, half = at.posts.tolist(), _PAGE // 2
    own = {author: post for post, author in posts}
    async with open_services(settings) as services:
        told = notice_services(settings, services.stores, services.posts)
        now = int(time.time() * 1000)
        likers = at.profiles[:half].tolist()
        likes = [NoticeDraft("like", liker, reader, now, own[reader]) for reader in readers for liker in likers]
        mentions = [
            NoticeDraft("mention", author, reader, now, post)
            for reader in readers
            for post, author in chosen.sample(posts, half)
            if author != reader
        ]
        await put_edges(services, LIKES, [(one.actor, one.post or 0) for one in likes])
        await put_edges(services, MENTIONED, [(one.recipient, one.post or 0) for one in mentions])
        await told.notices.notify([*likes, *mentions])
        for reader in readers:
            await services.notifications.preferences.put(NodeId(reader), Preferences(mentions="followed"))
        lately = at.profiles[1_000 : 1_000 + _MENTIONED_LATELY].tolist()
        drafts = [NoticeDraft("mention", likers[0], account, now, event="bench") for account in lately]
        recent = RecentMentions(services.stores.records, services.stores.graph, 0)
        await recent.note(list(zip(drafts, await told.notices.notify(drafts), strict=True)))
        log = services.stores.log
        for worker in [name for name, one in CONSUMERS.items() if one.has_position]:
            await log.save(worker, await log.end(), {})  # the workers skip what was filled in; readers find it by pull


def _pages(readers: Sequence[int]) -> list[bytes]:
    path = f"/api/v1/notifications?grouped=false&limit={_PAGE}"
    return [request("GET", path, KEY, user=reader) for reader in readers]


def notify(folder: Path) -> list[Figure]:
    """500 likes a second of posts whose authors have a stream open: the time from request to notification."""
    at = town(folder)
    settings = at.copied("notify")
    own = dict(at.posts[:, ::-1].tolist())  # author -> a post
    authors = list(own)[:_STREAMS]
    likers = sorted({*at.profiles.tolist()} - {*authors})
    pairs = [(likers[number // _STREAMS], own[authors[number % _STREAMS]]) for number in range(int(_RATE * SECONDS))]
    with server(settings):
        context = multiprocessing.get_context("spawn")
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(settings.port, authors, pairs, send))
        process.start()
        told_ms, never = receive.recv()
        process.join()
    p50, p99 = (float(ms) for ms in np.percentile(told_ms, [50, 99]))
    says = f"{at.says}; {_RATE} likes/s for {SECONDS:g} s, {_STREAMS} streams; {never} were not told"
    return [
        Figure("notify-p50", p50, "ms", "< 20", data=says),
        Figure("notify-p99", p99, "ms", "< 1,000", data=says),
    ]


def _process(port: int, authors: Sequence[int], pairs: Sequence[tuple[int, int]], answer: object) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer.send(runner.run(_Likes(port).run(authors, pairs)))  # type: ignore[attr-defined]


class _Likes:
    """Sends likes at a steady rate, and reads the streams that announce them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sent: dict[tuple[int, int], float] = {}
        self._told_ms: list[float] = []
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def run(self, authors: Sequence[int], pairs: Sequence[tuple[int, int]]) -> tuple[list[float], int]:
        """Milliseconds until each like was announced, and how many never were."""
        streams = [asyncio.create_task(self._listen(author)) for author in authors]
        for _ in range(_CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))
        await asyncio.sleep(_STREAMS_OPEN_S)
        started, likes = time.perf_counter(), []
        for number, pair in enumerate(pairs):
            await asyncio.sleep(max(0.0, started + number / _RATE - time.perf_counter()))
            likes.append(asyncio.create_task(self._like(*pair)))
        await asyncio.gather(*likes)
        for _ in range(_POLLS_MAX):
            if len(self._told_ms) == len(pairs):
                break
            await asyncio.sleep(_POLL_S)
        for stream in streams:
            stream.cancel()
        return self._told_ms, len(pairs) - len(self._told_ms)

    async def _like(self, user: int, post: int) -> None:
        reading, writing = await self._free.get()
        self._sent[user, post] = time.perf_counter()
        writing.write(request("POST", f"/api/v1/posts/{post}/like", KEY, b"", user))
        head = (await reading.readuntil(b"\r\n\r\n")).lower()
        at = head.index(b"content-length: ") + 16
        await reading.readexactly(int(head[at : head.index(b"\r", at)]))
        self._free.put_nowait((reading, writing))

    async def _listen(self, author: int) -> None:
        reading, writing = await asyncio.open_connection("127.0.0.1", self._port)
        writing.write(request("GET", "/api/v1/feed/stream", KEY, user=author))
        name = b""
        while line := await reading.readline():
            if line.startswith(b"event: "):
                name = line[7:].strip()
            elif line.startswith(b"data: ") and name == b"notification":
                told = msgspec.json.decode(line[6:])
                sent = self._sent.get((int(told["actorId"]), int(told["postId"])))
                if sent is not None:
                    self._told_ms.append((time.perf_counter() - sent) * 1000)
