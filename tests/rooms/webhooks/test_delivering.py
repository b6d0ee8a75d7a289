"""Webhooks over each kind of log: at least once, in order for a key, whatever endpoints and processes do."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest
import structlog
from cast import SECRET, START_MS, FakeClock
from coroutines import answer, run_all, time_flies
from edges import edge_of, writes_of
from engines import Engine, Logged
from reference_leases import ReferenceLeases

from kith.core.errors import BadRequest, IdempotencyKeyReused, StoreUnavailable, WebhookLimitReached, WebhookNotFound
from kith.graph.graphs import Graphs
from kith.leases.holding import Leases
from kith.outbound.errors import SendFailed, Why
from kith.outbound.outbound import Answer
from kith.watch.tokens import WatchTokens
from kith.webhooks import delivering, webhooks
from kith.webhooks.next_step import CHANGES_MAX, TRIES_MIN
from kith.webhooks.webhook import Secrets, Webhook, group_of
from kith.webhooks.webhooks import Seen, Webhooks
from kith.webhooks.worker import WebhookWorker

PORT = "logs"
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
        """What its edges lead to: the numbers of the writes."""
        return [int(change["destination"]) for change in self.body["changes"] if change != GAP]


class App:
    """What answers every URL. `answer`: a status, an error, or something to wait for, by the request."""

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
        """The writes that were taken at a URL, in the order in which they came."""
        return [number for sent in self.taken if sent.url == url for number in sent.destinations]


class Racing:
    """A clock that goes on by a second whenever it is asked."""

    ms = START_MS

    def __call__(self) -> int:
        self.ms += 1_000
        return self.ms


class World:
    """A store with a log, its webhooks, workers and the app."""

    def __init__(self, logged: Logged, *, give_up_ms: int = 3_600_000, webhooks_max: int = 3) -> None:
        self.edges, self.log, self.app, self.clock = logged.edges, logged.log, App(), Racing()
        self.secrets, self._give_up_ms, self._next_id, self.written = Secrets(SECRET), give_up_ms, 0, 0
        self.webhooks = Webhooks(self.edges, self.log, self.secrets, webhooks_max=webhooks_max, now_ms=self.clock)
        self._leases = ReferenceLeases(FakeClock())

    async def create(self, url: str = URL, **asked: Any) -> Seen:
        seen, _ = await self.made(url, **asked)
        return seen

    async def made(self, url: str = URL, **asked: Any) -> tuple[Seen, str]:
        self._next_id += 1
        known = Graphs(await self.edges.declare(()))
        wants = {"graphs": ["follows"], "kinds": [], "known": known, **asked}
        return await self.webhooks.create(self._next_id, url, **wants)

    async def write(self, count: int) -> None:
        """So many edges, numbered on; each source's come in this order."""
        for _ in range(count):
            self.written += 1
            source = SOURCES[self.written % len(SOURCES)]
            (change,) = await self.edges.apply(writes_of(edge_of(source, self.written)))
            assert await self.log.reached(change.mark)

    def worker(self) -> WebhookWorker:
        """As a new process has it."""
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
        """A worker process; it is stopped in the end, if it was not killed."""
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
        """End a worker after the app took its delivery of this number, before that is noted."""
        killed, first = asyncio.Event(), len(self.app.got)

        def answer(_: Sent) -> int:
            if len(self.app.got) == first + at:
                for task in deliveries():
                    task.cancel()
                killed.set()
            return 200

        self.app.answer = answer
        await killed.wait()
        await until(lambda: not deliveries())  # its lease is free
        process.cancel()
        await asyncio.wait([process])

    async def state(self, seen: Seen) -> Seen:
        return await self.webhooks.look_at(seen.webhook.id)


async def until(condition: Callable[[], Any]) -> None:
    """Let others run until it is so."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < deadline, "it never became so"
        await asyncio.sleep(0)


def deliveries() -> list[asyncio.Task[Any]]:
    """The tasks that deliver now."""
    return [task for task in asyncio.all_tasks() if "Background" in repr(task)]


def in_order(numbers: Sequence[int]) -> bool:
    """Whether what one source did came in its order: what came again is left out."""
    first = list(dict.fromkeys(numbers))
    by_source = [[number for number in first if number % len(SOURCES) == at] for at in range(len(SOURCES))]
    return all(of_one == sorted(of_one) for of_one in by_source)


Play = Callable[..., None]


@pytest.fixture
def play(engine: Engine, tmp_path: Path) -> Play:
    """Plays a scene over an empty store, in which time passes without waiting."""

    def played(scene: Callable[[World], Awaitable[None]], *, events_max: int = 100_000, **settings: int) -> None:
        async def acted() -> None:
            assert engine.logs is not None
            with engine.logs(tmp_path, events_max=events_max) as logged:
                await logged.edges.declare(["follows"])
                with time_flies():
                    await scene(World(logged, **settings))

        run_all(acted())

    return played


def test_each_change_comes_once_and_in_order_for_a_key(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.write(5)
        seen = await world.create()
        await world.write(2 * CHANGES_MAX + 30)
        async with world.working():
            await until(lambda: len(world.app.numbers()) >= world.written - 5)
            await world.write(20)
            await until(lambda: len(world.app.numbers()) >= world.written - 5)

            async def is_level() -> bool:
                behind = (await world.state(seen)).behind
                return behind is not None and behind.events == 0

            await until(is_level)
        numbers = world.app.numbers()
        assert sorted(numbers) == list(range(6, world.written + 1))
        assert in_order(numbers)
        assert max(len(sent.body["changes"]) for sent in world.app.got) == CHANGES_MAX

    play(scene)


def test_an_endpoint_that_fails_holds_back_itself_alone(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.create()
        bad = await world.create("https://down.example/")
        hung = await world.create("https://hangs.example/")
        forever = asyncio.Event()
        answers = {URL: 200, "https://down.example/": SendFailed(Why.TIMEOUT, "down.example did not answer")}
        world.app.answer = lambda sent: answers.get(sent.url) or forever.wait()
        await world.write(40)
        async with world.working():
            await until(lambda: len(world.app.numbers()) == 40)
            await until(lambda: len([one for one in world.app.got if one.url == "https://down.example/"]) > 3)
            standing = (await world.state(bad)).webhook.standing
            assert standing.failures >= 3
            assert standing.error == "down.example did not answer"
            assert (await world.state(hung)).webhook.standing.failures == 0
        assert in_order(world.app.numbers())

    play(scene)


def test_nothing_is_missing_and_the_order_holds_after_an_endpoint_was_down_for_long(play: Play) -> None:
    async def scene(world: World) -> None:
        seen = await world.create()
        left = 25
        async with world.working():
            await world.write(10)
            await until(lambda: len(world.app.numbers()) == 10)

            def fails(_: Sent) -> int:
                nonlocal left
                left -= 1
                return 500 if left > 0 else 200

            world.app.answer = fails
            await world.write(150)
            await until(lambda: len(world.app.numbers()) == 160)
        assert sorted(world.app.numbers()) == list(range(1, 161))
        assert in_order(world.app.numbers())
        after = await world.state(seen)
        assert (after.dead, after.webhook.standing.failures, after.webhook.standing.status) == (0, 0, 200)

    play(scene, give_up_ms=10**12)


def test_only_the_change_that_is_not_taken_becomes_a_dead_letter_and_it_can_be_replayed(play: Play) -> None:
    async def scene(world: World) -> None:
        seen = await world.create()
        id_ = seen.webhook.id

        async def letters_are(count: int) -> bool:
            """And none of them is to be sent again."""
            found = await world.log.failures(group_of(id_))
            return len(found) == count and all(one.dead for one in found)

        world.app.answer = lambda sent: 422 if 17 in sent.destinations else 200
        await world.write(40)
        async with world.working():
            await until(lambda: len(world.app.numbers()) == 39)
            assert 17 not in world.app.numbers()
            assert in_order(world.app.numbers())
            (letter,) = await world.webhooks.dead(id_)
            assert (letter.event.destination, letter.tries >= TRIES_MIN, letter.error) == (
                17, True, "it answered 422"
            )  # fmt: skip

            tried = len(world.app.got)
            assert await world.webhooks.replay(id_) == 1  # it is not taken again: it stays a dead letter
            await until(lambda: len(world.app.got) > tried)
            await until(lambda: letters_are(1))
            assert len(world.app.got) == tried + 1

            world.app.answer = lambda _: 200
            assert await world.webhooks.replay(id_) == 1
            await until(lambda: 17 in world.app.numbers())
            await until(lambda: letters_are(0))
        assert [sent.body["replayed"] for sent in world.app.taken if 17 in sent.destinations] == [True]

    play(scene, give_up_ms=1)


def test_nothing_is_given_up_while_there_is_no_room_for_another_dead_letter(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (delivering, webhooks):
        monkeypatch.setattr(module, "DEAD_MAX", 2)

    async def scene(world: World) -> None:
        seen = await world.create()
        world.app.answer = lambda _: 500
        await world.write(5)
        async with world.working():

            async def third_is_tried_on() -> bool:
                found = await world.state(seen)
                return found.dead == 2 and found.webhook.standing.failures > 2 * TRIES_MIN

            await until(third_is_tried_on)
            world.app.answer = lambda _: 200
            await until(lambda: len(world.app.numbers()) == 3)
        assert len(await world.webhooks.dead(seen.webhook.id)) == 2

    play(scene, give_up_ms=1)


@pytest.mark.parametrize("times", [1, 4])
def test_a_worker_that_is_killed_between_a_delivery_and_its_note_repeats_it_in_order(play: Play, times: int) -> None:
    async def scene(world: World) -> None:
        await world.create()
        await world.write(10)
        for _ in range(times):
            async with world.working() as process:
                await world.kill(process, at=1)
            await world.write(10)
        world.app.answer = lambda _: 200
        async with world.working():
            await until(lambda: set(world.app.numbers()) == set(range(1, world.written + 1)))
        numbers = world.app.numbers()
        assert len(numbers) > len(set(numbers))
        assert in_order(numbers)

    play(scene)


def test_a_kill_repeats_the_delivery_under_way_and_no_other(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.create()
        await world.write(2 * CHANGES_MAX + 50)
        async with world.working() as process:
            await world.kill(process, at=2)
        world.app.answer = lambda _: 200
        async with world.working():
            await until(lambda: set(world.app.numbers()) == set(range(1, world.written + 1)))
        assert len(world.app.numbers()) == world.written + CHANGES_MAX
        assert in_order(world.app.numbers())

    play(scene)


def test_of_two_workers_one_delivers_a_webhook_and_the_other_takes_it_over(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.create()
        async with world.working():
            async with world.working():
                await world.write(30)
                await until(lambda: len(world.app.numbers()) >= 30)
            await world.write(30)
            await until(lambda: len(world.app.numbers()) >= 60)
        assert sorted(world.app.numbers()) == list(range(1, 61))
        assert in_order(world.app.numbers())

    play(scene)


def test_the_log_is_kept_for_a_webhook_whose_endpoint_is_down(play: Play) -> None:
    async def scene(world: World) -> None:
        seen = await world.create()
        world.app.answer = lambda _: 500
        await world.write(10)

        async def kept() -> list[str]:
            return [lease.name for lease in await world.log.leases()]

        async with world.working():
            await until(kept)
            await world.write(600)
        async with world.working():  # another process, which is told what the first one did not send
            world.app.answer = lambda _: 200
            await until(lambda: len(world.app.numbers()) >= 610)
            assert sorted(world.app.numbers()) == list(range(1, 611))
            assert GAP not in [change for sent in world.app.taken for change in sent.body["changes"]]
            await world.webhooks.delete(seen.webhook.id)
            await until(lambda: not deliveries())
        assert await kept() == []

    play(scene, events_max=60, give_up_ms=10**12)


def test_the_log_is_kept_from_when_a_webhook_is_made(play: Play) -> None:
    async def scene(world: World) -> None:
        seen = await world.create()
        await world.write(600)
        async with world.working():
            await until(lambda: len(world.app.numbers()) >= 600)
        assert in_order(world.app.numbers())
        assert GAP not in [change for sent in world.app.taken for change in sent.body["changes"]]
        await world.create("https://second.example/")
        await world.create("https://third.example/")
        with pytest.raises(WebhookLimitReached):
            await world.create("https://fourth.example/")
        await world.webhooks.delete(seen.webhook.id)
        assert len(await world.log.leases()) == 2

    play(scene, events_max=60)


def test_what_was_forgotten_unread_is_told_as_a_gap_and_once(play: Play) -> None:
    async def scene(world: World) -> None:
        seen = await world.create()
        world.app.answer = lambda _: 500
        async with world.working():
            await world.write(20)
            await until(lambda: world.app.got)
        await world.log.release(group_of(seen.webhook.id))  # as when it is too old, or keeps too much
        await world.write(600)
        world.app.answer = lambda _: 200
        async with world.working():
            await until(lambda: 620 in world.app.numbers())
            await world.write(5)
            await until(lambda: 625 in world.app.numbers())
        changes = [change for sent in world.app.taken for change in sent.body["changes"]]
        assert changes[0] == GAP
        assert changes.count(GAP) == 1
        assert len(world.app.numbers()) < 625
        assert in_order(world.app.numbers())

    play(scene, events_max=60, give_up_ms=1)


def test_a_webhook_whose_place_is_lost_goes_on_from_now_and_says_so(play: Play) -> None:
    """As after `kith rebuild`: its note is in the log, its place is not."""

    async def scene(world: World) -> None:
        seen = await world.create()
        await world.webhooks.delete(seen.webhook.id)
        strange = Webhook(
            id=99, url=URL, graphs=("follows",), kinds=(),
            secret=world.secrets.seal(99, "whsec_of-another-life"), created_ms=START_MS,
        )  # fmt: skip
        await world.write(10)
        await world.edges.put_note(f"{webhooks.PREFIX}00000", msgspec.json.encode(strange))
        async with world.working():
            await until(lambda: world.app.taken)
            await world.write(5)
            await until(lambda: len(world.app.numbers()) == 5)
        assert world.app.taken[0].body["changes"] == [GAP]
        assert sorted(world.app.numbers()) == [11, 12, 13, 14, 15]

    play(scene)


def test_a_webhook_that_is_ended_gets_nothing_more_and_frees_its_slot(play: Play) -> None:
    async def scene(world: World) -> None:
        first = await world.create("https://first.example/")
        await world.create()
        async with world.working():
            await world.write(5)
            await until(lambda: len(world.app.numbers("https://first.example/")) == 5)
            await world.webhooks.delete(first.webhook.id)
            await world.write(30)
            await until(lambda: len(world.app.numbers()) == 35)
            await asyncio.sleep(0)
            ended = len(world.app.numbers("https://first.example/"))
            await world.write(10)
            await until(lambda: len(world.app.numbers()) == 45)
            assert len(world.app.numbers("https://first.example/")) == ended
        assert await answer(world.webhooks.look_at(first.webhook.id)) is WebhookNotFound
        assert await world.log.progress(group_of(first.webhook.id)) is None
        await world.create()
        await world.create()

    play(scene)


def test_nothing_is_left_of_one_that_is_ended_while_it_gives_up(play: Play) -> None:
    async def scene(world: World) -> None:
        seen = await world.create()
        group = group_of(seen.webhook.id)

        async def ended_at_the_last_try() -> int:
            if (await world.webhooks.look_at(seen.webhook.id)).webhook.standing.failures + 1 == TRIES_MIN:
                stand = world.webhooks.stand

                async def then_ended(*arguments: Any) -> Any:
                    found = await stand(*arguments)
                    await world.webhooks.delete(seen.webhook.id)
                    return found

                cast(Any, world.webhooks).stand = then_ended
            return 500

        world.app.answer = lambda _: ended_at_the_last_try()
        await world.write(1)
        async with world.working():
            await until(lambda: len(world.app.got) == TRIES_MIN)
            await until(lambda: not deliveries())
        assert not await world.log.failures(group)
        assert await world.log.progress(group) is None
        assert not await world.log.leases()

    play(scene, give_up_ms=1)


def test_one_that_wants_nothing_of_a_long_history_lets_others_go_on_and_keeps_its_place(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "READ_MAX", 4)

    async def scene(world: World) -> None:
        seen = await world.create(graphs=[], kinds=["profile"])
        await world.write(110)
        turns, at_read = 0, []
        saved = []
        read = world.log.read

        async def noted(*arguments: Any) -> Any:
            at_read.append(turns)
            saved.append((await world.state(seen)).at)
            return await read(*arguments)

        monkeypatch.setattr(world.log, "read", noted)
        async with world.working():
            while len(at_read) < 25:
                await asyncio.sleep(0)
                turns += 1
        assert len(set(at_read[:25])) == 25, "others have their turns between two readings"
        assert len(set(saved)) > 1, "its place moves meanwhile"

    play(scene)


def test_the_bound_on_webhooks_holds_for_those_that_are_made_at_once(play: Play) -> None:
    async def scene(world: World) -> None:
        made = await asyncio.gather(*(answer(world.create()) for _ in range(6)))
        assert sum(one is WebhookLimitReached for one in made) == 3
        assert len(await world.webhooks.all()) == 3

    play(scene)


def test_one_idempotency_key_makes_one_webhook_however_often_and_at_once_it_comes(play: Play) -> None:
    async def scene(world: World) -> None:
        made = await asyncio.gather(*(world.made(key="k") for _ in range(3)))
        (kept,) = await world.webhooks.all()
        assert {(seen.webhook.id, secret) for seen, secret in made} == {
            (kept.webhook.id, world.secrets.open(kept.webhook))
        }
        assert await answer(world.made("https://other.example/", key="k")) is IdempotencyKeyReused
        assert await answer(world.made(key="k", secret="another secret of mine")) is IdempotencyKeyReused
        await world.webhooks.delete(kept.webhook.id)
        assert (await world.create(key="k")).webhook.id != kept.webhook.id

    play(scene)


@pytest.mark.parametrize(
    "asked", [{"url": "app"}, {"url": "https://me:x@app.example"}, {"secret": "short"}, {"secret": "ü" * 20},
              {"kinds": ["likes"]}, {"key": "k" * 201}]
)  # fmt: skip
def test_what_cannot_be_a_webhook_is_refused(play: Play, asked: dict[str, Any]) -> None:
    async def scene(world: World) -> None:
        assert await answer(world.made(**asked)) is BadRequest
        assert not await world.webhooks.all()

    play(scene)


def test_a_delivery_has_so_many_bytes_at_most_and_a_name_that_follows_from_its_changes(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "BODY_BYTES_MAX", 1_000)

    async def scene(world: World) -> None:
        await world.create()
        await world.write(30)
        failed = 0

        def fails_once(_: Sent) -> int:
            nonlocal failed
            failed += 1
            return 503 if failed == 1 else 200

        world.app.answer = fails_once
        async with world.working():
            await until(lambda: len(world.app.numbers()) == 30)
        assert 1 < max(len(sent.body["changes"]) for sent in world.app.got) < 10
        first, again = world.app.got[:2]
        assert first.destinations == again.destinations
        assert first.headers["Kith-Delivery"] == again.headers["Kith-Delivery"] == first.body["delivery"]
        assert len({sent.body["delivery"] for sent in world.app.taken}) == len(world.app.taken)

    play(scene)


def test_deliveries_wait_for_a_store_that_is_away(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World) -> None:
        await world.create()
        read, left = world.log.read, 3

        async def away(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left > 0:
                raise StoreUnavailable("not now")
            return await read(*arguments)

        monkeypatch.setattr(world.log, "read", away)
        await world.write(10)
        for _ in range(4):  # a worker takes up what failed when it looks again
            async with world.working():
                await until(lambda: left <= 0 or not deliveries())
        async with world.working():
            await until(lambda: len(world.app.numbers()) == 10)

    play(scene)


def test_no_secret_is_kept_readable_or_logged(play: Play) -> None:
    async def scene(world: World) -> None:
        _, secret = await world.made(secret="whsec_a-secret-of-this-test")
        notes = await world.edges.notes("webhook")
        assert secret.encode() not in b"".join(notes.values())
        world.app.answer = lambda _: 500
        await world.write(3)
        with structlog.testing.capture_logs() as logged:
            async with world.working():
                await until(lambda: len(world.app.got) > 2)
        assert logged
        assert secret not in repr(logged)
        assert "secret-path" not in repr(logged)

    play(scene)


@pytest.mark.parametrize("turns", range(5))
def test_a_delivery_that_waits_ends_when_it_is_stopped_though_events_ring_at_that_moment(
    play: Play, turns: int
) -> None:
    async def scene(world: World) -> None:
        worker = world.worker()
        waiting = asyncio.create_task(worker.news(worker.rings, LIMIT_S))
        await asyncio.sleep(0)
        worker._rung.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        stopped = waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() == stopped

    play(scene)
