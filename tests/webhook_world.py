"""Webhooks over a store with a log, the workers that deliver, and the app that receives."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from cast import SECRET, START_MS, FakeClock
from edges import edge_of, writes_of
from reference_leases import ReferenceLeases
from store_types import Logged

from kith.graph.graphs import Graphs
from kith.leases.holding import Leases
from kith.outbound.outbound import Answer
from kith.watch.tokens import WatchTokens
from kith.webhooks.webhook import Secrets
from kith.webhooks.webhooks import WebhookProgress, Webhooks
from kith.webhooks.worker import WebhookWorker

SOURCES = range(1, 8)
URL = "https://app.example/hook-with-a-secret-path"
LIMIT_S = 30.0
GAP = {"kind": "gap"}


class Sent(NamedTuple):
    """A request to an app."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def destinations(self) -> list[int]:
        """The destinations of its edges, which are the numbers of the writes."""
        return [int(change["destination"]) for change in self.body["changes"] if change != GAP]


class App:
    """Answers every URL. `got`: all requests. `taken`: those that were answered 2xx.

    `answer`: decides the answer to a request: a status, an error to raise, or an awaitable of one.
    """

    def __init__(self) -> None:
        self.got: list[Sent] = []
        self.taken: list[Sent] = []
        self.answer: Callable[[Sent], Any] = lambda _: 200

    async def send(self, method: str, url: str, headers: Any, body: bytes) -> Answer:
        sent = Sent(url, dict(headers), json.loads(body))
        self.got.append(sent)
        answered = self.answer(sent)
        if isinstance(answered, Awaitable):
            answered = await answered
        if isinstance(answered, Exception):
            raise answered
        if 200 <= answered < 300:
            self.taken.append(sent)
        return Answer(answered, {}, b"")

    def numbers(self, url: str = URL) -> list[int]:
        """The numbers of the writes that a URL accepted, in order of arrival."""
        return [number for sent in self.taken if sent.url == url for number in sent.destinations]


class RacingClock:
    """A clock that advances by a second with each call."""

    ms = START_MS

    def __call__(self) -> int:
        self.ms += 1_000
        return self.ms


class WebhookWorld:
    """A store with a log, its webhooks, workers and the app."""

    def __init__(self, logged: Logged, *, give_up_ms: int = 3_600_000, webhooks_max: int = 3) -> None:
        self.edges, self.log, self.app, self.clock = logged.edges, logged.log, App(), RacingClock()
        self.secrets, self._give_up_ms, self._next_id, self.written = Secrets(SECRET), give_up_ms, 0, 0
        self.webhooks = Webhooks(self.edges, self.log, self.secrets, webhooks_max=webhooks_max, now_ms=self.clock)
        self._leases = ReferenceLeases(FakeClock())

    async def create(self, url: str = URL, **asked: Any) -> WebhookProgress:
        seen, _ = await self.made(url, **asked)
        return seen

    async def made(self, url: str = URL, **asked: Any) -> tuple[WebhookProgress, str]:
        self._next_id += 1
        known = Graphs(await self.edges.declare(()))
        wants = {"graphs": ["follows"], "kinds": [], "known": known, **asked}
        return await self.webhooks.create(self._next_id, url, **wants)

    async def write(self, count: int) -> None:
        """Write `count` edges with consecutive numbers as destinations, from a few sources in turn."""
        for _ in range(count):
            self.written += 1
            source = SOURCES[self.written % len(SOURCES)]
            (change,) = await self.edges.apply(writes_of(edge_of(source, self.written)))
            assert await self.log.reached(change.log_position)

    def worker(self) -> WebhookWorker:
        """A worker as of a new process."""
        return WebhookWorker(
            self.webhooks,
            self.log,
            lambda: self.edges.declare(()),
            Leases(self._leases, now_s=lambda: 0.0),
            self.app.send,
            self.secrets,
            WatchTokens(SECRET).issue_all,
            give_up_ms=self._give_up_ms,
            now_ms=self.clock,
        )

    @asynccontextmanager
    async def working(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run a worker process. In the end it is stopped, unless it was killed."""
        worker = self.worker()
        task = asyncio.create_task(worker.run())
        try:
            yield task
        finally:
            worker.stop()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def kill(self, process: asyncio.Task[None], at: int) -> None:
        """Kill a worker after the app got `at` more deliveries, before the last one is saved."""
        killed, first = asyncio.Event(), len(self.app.got)

        def answer(_: Sent) -> int:
            if len(self.app.got) == first + at:
                for task in deliveries():
                    task.cancel()
                killed.set()
            return 200

        self.app.answer = answer
        await killed.wait()
        await until(lambda: not deliveries())  # its leases are released
        process.cancel()
        await asyncio.wait([process])

    async def state(self, seen: WebhookProgress) -> WebhookProgress:
        return await self.webhooks.progress_of(seen.webhook.id)


async def until(condition: Callable[[], Any]) -> None:
    """Let other tasks run until a condition is true. Fails after LIMIT_S."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < deadline, "it never became so"
        await asyncio.sleep(0)


def deliveries() -> list[asyncio.Task[Any]]:
    """The tasks that are delivering now."""
    return [task for task in asyncio.all_tasks() if "Background" in getattr(task.get_coro(), "__qualname__", "")]


def in_order(numbers: Sequence[int]) -> bool:
    """Whether the writes of each source arrived in order. Repeated ones are ignored."""
    first = list(dict.fromkeys(numbers))
    by_source = [[number for number in first if number % len(SOURCES) == at] for at in range(len(SOURCES))]
    return all(of_one == sorted(of_one) for of_one in by_source)


Play = Callable[..., None]
"""The type of the fixture `play`: runs a scene over an empty store, in which time passes without waiting."""
