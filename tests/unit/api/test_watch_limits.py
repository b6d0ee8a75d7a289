"""Limits on watchers of a process hold for concurrent requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from cast import ALICE
from coroutines import run_coroutine

from kith.api.resources.watch import WatchResource
from kith.core.errors import BadToken, Overloaded, TooManyStreams
from kith.core.events import NOWHERE
from kith.graph.graphs import Graphs

BOUNDS = {"watchers_max": 3, "user_max": 2}


class Waiting:
    """A `Watch` whose `place` waits for `found`, as on a standby that lags."""

    def __init__(self) -> None:
        self.found, self.following, self.watching_now = asyncio.Event(), list[Any](), 0
        self.watching_most = 0

    async def place(self, token: str | None, _: Any) -> Any:
        await self.found.wait()
        if token is not None:
            raise BadToken("of another store")
        return NOWHERE

    async def follow(self, watcher: Any, _: Any) -> None:
        self.following.append(watcher)

    def token(self, *_: Any) -> str:
        return ""

    def leave(self, watcher: Any) -> None:
        """Nothing to forget."""

    def observe(self, *_: Any) -> None:
        """See `WatchObserver`."""

    def watching(self, watchers: int) -> None:
        self.watching_now, self.watching_most = watchers, max(watchers, self.watching_most)


def call_of(user: Any) -> Any:
    """A request by a user, or by the app if `user` is None. Its client stays connected."""
    outgoing = SimpleNamespace(send=lambda _: None, end=lambda: None, cut=lambda: None, unsent=lambda: 0)
    exchange = SimpleNamespace(stream=lambda *_: outgoing, disconnected=asyncio.Event().wait)
    caller = SimpleNamespace(server=user is None)
    return SimpleNamespace(caller=caller, acting_user=user, exchange=exchange, started=0.0, header=lambda _: None)


async def request_watches(
    users: list[Any], *, token: str | None = None, stops: bool = False
) -> tuple[Waiting, list[Any]]:
    """The outcome of each concurrent watch request: "open", or the error that refused it."""
    watch = Waiting()
    resource = WatchResource(
        watch, Graphs({}), watch, when_invalid=lambda *_: lambda: None, buffer_bytes=1_000, **BOUNDS  # type: ignore[arg-type]
    )  # fmt: skip
    tasks = [asyncio.create_task(resource.watch(call_of(user), after=token)) for user in users]
    await asyncio.sleep(0)
    if stops:
        resource.close()
    watch.found.set()
    for _ in range(10):
        await asyncio.sleep(0)
    became = [type(task.exception()) if task.done() else "open" for task in tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert watch.watching_now == 0
    return watch, became


@pytest.mark.parametrize(
    ("users", "expected"),
    [([None] * 5, ["open"] * 3 + [Overloaded] * 2), ([ALICE] * 3, ["open"] * 2 + [TooManyStreams])],
)
def test_concurrent_watch_requests_stay_within_the_limits(users: list[Any], expected: list[Any]) -> None:
    async def scenario() -> None:
        watch, became = await request_watches(users)
        assert became == expected
        assert len(watch.following) == watch.watching_most == expected.count("open")

    run_coroutine(scenario())


def test_a_watcher_with_a_refused_token_takes_no_place() -> None:
    async def scenario() -> None:
        watch, became = await request_watches([ALICE] * 2, token="of another store")
        assert (became, watch.following) == ([BadToken] * 2, [])

    run_coroutine(scenario())


def test_a_process_that_stops_meanwhile_opens_no_watcher() -> None:
    async def scenario() -> None:
        watch, became = await request_watches([ALICE, None], stops=True)
        assert (became, watch.following) == ([Overloaded] * 2, [])

    run_coroutine(scenario())
