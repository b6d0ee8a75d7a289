"""`kith serve` killed under load: every answered write is still there, and one dead worker does not end the service."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from ledger import check_audit, opened
from processes import ServerGroup, serving
from servers import PLAIN, named

_HUB = 1_000_000_000
_PATIENCE_S = 20.0
Pair = tuple[int, int]


class Unknown(Exception):
    """Raised for an answer that leaves open whether a write is stored."""


class Load:
    """Clients that write as long as the server answers, and remember the answers.

    `unknown`: whether answers may leave open if a write is stored.
    """

    def __init__(self, seed: int, *, unknown: bool = False) -> None:
        self._unknown = unknown
        self.present: set[Pair] = set()
        self.absent: set[Pair] = set()
        self.answered = self.unanswered = 0
        self._chosen = random.Random(seed)
        self._next = 1

    async def run(self, server: ServerGroup, stop: asyncio.Event) -> None:
        """Write until `stop` is set. A broken connection is not an answer."""
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=10, **PLAIN) as client:
            await asyncio.gather(*(self._writer(client, stop) for _ in range(8)))

    async def _writer(self, client: httpx.AsyncClient, stop: asyncio.Event) -> None:
        while not stop.is_set():
            kind = self._chosen.random()
            try:
                if kind < 0.4:
                    await self._bulk(client)
                elif kind < 0.8 or not self.present:
                    await self._follow(client)
                else:
                    await self._unfollow(client)
                self.answered += 1
            except (httpx.TransportError, Unknown):
                self.unanswered += 1
                await asyncio.sleep(0.01)

    async def _bulk(self, client: httpx.AsyncClient) -> None:
        size = self._chosen.choice((1, 10, 200))
        first = self._take(size)
        edges = [{"op": "add", "source": first + step, "destination": _HUB} for step in range(size)]
        answer = await client.post("/api/v1/graph/follows/edges", json={"edges": edges})
        assert self._of(answer)["applied"] == size
        self.present.update((first + step, _HUB) for step in range(size))

    async def _follow(self, client: httpx.AsyncClient) -> None:
        pair = (self._take(1), self._chosen.randrange(1, 1_000))
        if pair[0] == pair[1]:
            return
        answer = await client.post(f"/api/v1/users/{pair[1]}/follow", headers={"x-kith-user": str(pair[0])})
        assert self._of(answer)["following"]
        self.present.add(pair)

    async def _unfollow(self, client: httpx.AsyncClient) -> None:
        pair = self.present.pop()  # until it is answered, nothing is known about this pair
        answer = await client.delete(f"/api/v1/users/{pair[1]}/follow", headers={"x-kith-user": str(pair[0])})
        assert not self._of(answer)["following"]
        self.absent.add(pair)

    def _of(self, answer: httpx.Response) -> dict[str, Any]:
        """The body of an answer. Raises `Unknown` for an open outcome, if those are allowed."""
        body: dict[str, Any] = answer.json()
        if self._unknown and body.get("error", {}).get("code") == "STORE_UNAVAILABLE":
            raise Unknown
        assert answer.status_code == 200, answer.text
        return body

    def _take(self, ids: int) -> int:
        self._next += ids
        return self._next - ids

    def check(self, server: ServerGroup) -> None:
        """Check that every write answered as done is there, and every follow answered as removed is gone."""
        assert holding(server, self.present) == self.present
        assert holding(server, self.absent) == set()


def holding(server: ServerGroup, pairs: set[Pair]) -> set[Pair]:
    """The pairs that exist, as the server answers."""
    ordered, existing = sorted(pairs), set()
    with server.client(30.0) as client:
        for start in range(0, len(ordered), 1_000):
            chunk = ordered[start : start + 1_000]
            answer = client.post("/api/v1/graph/follows/check", json={"pairs": [list(pair) for pair in chunk]})
            existing.update(pair for pair, exists in zip(chunk, answer.json()["exists"], strict=True) if exists)
    return existing


def committers(workers: list[int]) -> list[int]:
    """The pids of the workers' committers."""
    return [pid for worker in workers for pid in named("committer", worker)]


async def write_while(
    load: Load, server: ServerGroup, harm: float, victims: list[int] | None = None, replaced: list[int] | None = None
) -> None:
    """Write; then, `harm` seconds after 50 answers, kill.

    It kills the `victims`, and waits until they are replaced and 50 more writes are answered. Without victims it kills
    the whole server and stops. `replaced`: the workers that get replaced, if these are not the victims.
    """
    stop = asyncio.Event()
    writing = asyncio.create_task(load.run(server, stop))
    await _answers(load, 50, server)
    await asyncio.sleep(harm)
    if victims is None:
        server.kill_group()
        stop.set()
    else:
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        await asyncio.to_thread(wait_for_other_workers, server, replaced or victims)
        await _answers(load, 50, server)
        stop.set()
    await writing


async def _answers(load: Load, count: int, server: ServerGroup) -> None:
    """Wait until `count` more writes are answered."""
    answered_before, deadline = load.answered, time.monotonic() + _PATIENCE_S
    while load.answered < answered_before + count:
        assert time.monotonic() < deadline, f"the service answers no more writes:\n{server.log()[-4000:]}"
        await asyncio.sleep(0.02)


def wait_for_other_workers(server: ServerGroup, dead: list[int]) -> None:
    """Wait until two workers run that are not among `dead`."""
    server.wait_until(
        "two workers again", lambda: len([pid for pid in server.workers() if pid not in dead]) == 2, _PATIENCE_S
    )


def kill_servers(folder: Path, seed: int, times: int) -> None:
    """Load and kill a server of two workers `times` times over one folder; check every answered write."""
    chosen, load = random.Random(seed), Load(seed)
    for _ in range(times):
        with serving(folder, workers=2) as server:
            load.check(server)
            asyncio.run(write_while(load, server, chosen.uniform(0.2, 0.8)))
    with serving(folder, workers=2) as server:
        load.check(server)
    assert load.answered >= 50 * times, load.answered
    with opened(folder) as (environment, store):
        check_audit(environment, store)
    print(f"{times} kills, {load.answered} answered, {load.unanswered} not; {len(load.present)} pairs")


@pytest.mark.short_of("test_a_server_killed_five_times_under_load_has_every_answered_write")
def test_a_server_killed_under_load_has_every_answered_write_after_its_restart(tmp_path: Path, seed: int) -> None:
    kill_servers(tmp_path / "data", seed, 1)


@pytest.mark.long
def test_a_server_killed_five_times_under_load_has_every_answered_write(tmp_path: Path, seed: int) -> None:
    kill_servers(tmp_path / "data", seed, 5)


def test_a_killed_worker_is_replaced_while_the_service_continues(tmp_path: Path, seed: int) -> None:
    load = Load(seed)
    with serving(tmp_path / "data", workers=2) as server:
        before = server.workers()
        asyncio.run(write_while(load, server, 0.5, before[:1]))
        assert before[1] in server.workers(), "the other worker keeps running"
        load.check(server)
    with opened(tmp_path / "data") as (environment, store):
        check_audit(environment, store)


def test_requests_that_wait_for_a_killed_committer_are_answered_and_its_process_is_replaced(
    tmp_path: Path, seed: int
) -> None:
    load = Load(seed, unknown=True)
    with serving(tmp_path / "data", workers=2) as server:
        before = server.workers()
        asyncio.run(write_while(load, server, 0.5, committers(before)[:1], replaced=before[:1]))
        assert before[1] in server.workers(), "the other worker keeps running"
        load.check(server)
        server.wait_until("no other committer", lambda: len(committers(server.workers())) == 2)
    with opened(tmp_path / "data") as (environment, store):
        check_audit(environment, store)


@pytest.mark.slow
def test_both_workers_killed_at_once_are_replaced(tmp_path: Path, seed: int) -> None:
    load = Load(seed)
    with serving(tmp_path / "data", workers=2) as server:
        asyncio.run(write_while(load, server, 0.5, server.workers()))
        load.check(server)


def test_a_worker_that_keeps_dying_soon_after_its_start_harms_no_other_worker(tmp_path: Path) -> None:
    with serving(tmp_path / "data", workers=2) as server:
        first = min(server.workers())
        for _ in range(3):
            before = server.workers()
            os.kill(max(before), signal.SIGKILL)
            server.wait_until("replaced", lambda before=before: bool(set(server.workers()) - set(before)))
        server.wait_until("ready", lambda: server.is_ready() and len(server.workers()) == 2)
        assert first in server.workers()


@pytest.mark.slow
def test_a_service_whose_workers_all_keep_dying_ends(tmp_path: Path) -> None:
    """A service that looks alive to its monitoring, but cannot serve, would be the worst case."""
    with serving(tmp_path / "data", workers=2) as server:
        deadline = time.monotonic() + 60
        while server.process.poll() is None:
            assert time.monotonic() < deadline
            for pid in server.workers():
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        assert server.process.returncode != 0, "monitoring must see that it failed"
        assert not server.is_ready(), "no worker keeps serving"


def test_workers_of_a_killed_supervisor_stop_before_the_next_server_serves(tmp_path: Path) -> None:
    """They would answer on the same port with old settings, and nothing would ever stop them."""
    with serving(tmp_path / "data", workers=2) as server:
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.wait_until("the workers are gone", lambda: not server.is_ready(), 5)
