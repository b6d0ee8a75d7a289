"""Deliveries over each kind of log: at least once, in order for a key, whatever endpoints and processes do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from webhook_world import GAP, LIMIT_S, URL, Play, Sent, WebhookWorld, deliveries, in_order, until

from kith.core.errors import StoreMoved, StoreUnavailable
from kith.outbound.errors import SendFailed, SendFault
from kith.webhooks import delivery, webhooks
from kith.webhooks.next_step import CHANGES_MAX, TRIES_MIN
from kith.webhooks.webhook import group_of

PORT = "logs"


def test_each_change_comes_once_and_in_order_for_a_key(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
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


def test_an_endpoint_that_fails_delays_only_itself(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        await world.create()
        bad = await world.create("https://down.example/")
        hung = await world.create("https://hangs.example/")
        forever = asyncio.Event()
        answers = {URL: 200, "https://down.example/": SendFailed(SendFault.TIMEOUT, "down.example did not answer")}
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
    async def scene(world: WebhookWorld) -> None:
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


def test_only_the_refused_change_becomes_a_dead_letter_and_it_can_be_replayed(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        id_ = seen.webhook.id

        async def letters_are(count: int) -> bool:
            """Whether there are so many letters, and none of them is to be sent again."""
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
            assert await world.webhooks.replay(id_) == 1  # it is refused again, and stays a dead letter
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
    for module in (delivery, webhooks):
        monkeypatch.setattr(module, "DEAD_MAX", 2)

    async def scene(world: WebhookWorld) -> None:
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
def test_a_worker_that_is_killed_between_a_delivery_and_its_checkpoint_repeats_it_in_order(
    play: Play, times: int
) -> None:
    async def scene(world: WebhookWorld) -> None:
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


def test_a_kill_repeats_the_delivery_in_flight_and_no_other(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
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
    async def scene(world: WebhookWorld) -> None:
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


def test_a_delivery_has_a_bounded_size_and_an_id_that_follows_from_its_changes(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "BODY_BYTES_MAX", 1_000)

    async def scene(world: WebhookWorld) -> None:
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
    async def scene(world: WebhookWorld) -> None:
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
        for _ in range(4):  # a worker retries what failed when it looks again
            async with world.working():
                await until(lambda: left <= 0 or not deliveries())
        async with world.working():
            await until(lambda: len(world.app.numbers()) == 10)

    play(scene)


def test_a_still_empty_graph_that_another_process_declared_may_be_wanted(play: Play) -> None:
    async def scene(world: WebhookWorld) -> None:
        other = "https://other.example/"
        await world.create(other)
        async with world.working():
            await world.write(3)
            await until(lambda: len(world.app.numbers(other)) == 3)
            await world.edges.declare(["matches"])
            await world.create(graphs=["follows", "matches"])
            await world.write(5)
            await until(lambda: len(world.app.numbers()) == 5)

    play(scene)


@pytest.mark.parametrize("lost", [False, True])
def test_nothing_is_sent_while_the_store_takes_no_writes(
    play: Play, monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    async def scene(world: WebhookWorld) -> None:
        seen = await world.create()
        await world.write(10)
        if lost:
            await world.log.forget(group_of(seen.webhook.id))
        refused = 0

        async def refuses(*_: Any, **__: Any) -> None:
            nonlocal refused
            refused += 1
            raise StoreMoved("it was moved")

        with monkeypatch.context() as patched:
            patched.setattr(world.log, "save", refuses)
            patched.setattr(world.edges, "put_note", refuses)
            async with world.working():
                await until(lambda: refused >= 5)
        assert world.app.got == []
        async with world.working():
            await until(lambda: world.app.taken)
            await world.write(5)
            await until(lambda: 15 in world.app.numbers())
        assert world.app.taken[0].body["changes"].count(GAP) == lost
        assert sorted(world.app.numbers()) == list(range(11 if lost else 1, 16))

    play(scene)


def test_dead_letters_wait_while_their_host_rests(play: Play) -> None:
    """A replay that is not tried does not count: the letter is not dead again, and is sent once the host is called."""

    async def scene(world: WebhookWorld) -> None:
        id_, app = (await world.create()).webhook.id, world.app

        async def are_dead() -> bool:
            return bool(await world.webhooks.dead(id_))

        app.answer = lambda _: 500
        await world.write(1)
        async with world.working():
            await until(are_dead)
            app.answer = lambda _: SendFailed(SendFault.RESTING, "app.example rests", 5.0)
            asked = len(app.got)
            assert await world.webhooks.replay(id_) == 1
            await until(lambda: len(app.got) > asked + 1)
            assert not await are_dead()
            app.answer = lambda _: 200
            await until(lambda: app.numbers() == [1])

    play(scene, give_up_ms=1)


@pytest.mark.parametrize("turns", range(5))
def test_a_delivery_that_waits_ends_when_it_is_stopped_though_events_ring_at_that_moment(
    play: Play, turns: int
) -> None:
    async def scene(world: WebhookWorld) -> None:
        worker = world.worker()
        waiting = asyncio.create_task(worker.wait_for_events(worker.rings, LIMIT_S))
        await asyncio.sleep(0)
        worker._rung.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        stopped = waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() == stopped

    play(scene)
