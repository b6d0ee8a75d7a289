"""Failures while devices ring: no message is sent twice, and no device waits for one that cannot be served."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from push_world import TOKEN_URL, Browser, PushWorld, apns_key, app_address, is_for, mention

from kith.core.errors import StoreUnavailable, Unavailable
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.log.runner import Runner
from kith.notifications.notice import Notice
from kith.notifications.push import pending, push
from kith.notifications.push.apns import Apns
from kith.notifications.push.device import Device
from kith.notifications.push.message import PushMessage
from kith.notifications.push.pending import FAULTS
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.outbound import Answer


def test_a_batch_that_fails_while_messages_are_in_flight_is_sent_once(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One device is gone, and cannot be deleted now. The other's service answers long after that."""

    async def scenario() -> None:
        fcm, apns = await push_world.add(ALICE, "fcm"), await push_world.add(ALICE, "apns")
        answering, failed, prune = asyncio.Event(), asyncio.Event(), push_world.devices.prune

        async def late() -> int:
            await answering.wait()
            return 200

        async def away(*_: Any) -> None:
            failed.set()
            raise StoreUnavailable("not now")

        async def handle_twice() -> None:
            with pytest.raises(StoreUnavailable):
                await push_world.follow_log()
            monkeypatch.setattr(push_world.devices, "prune", prune)
            push_world.rewind()
            await push_world.follow_log()

        def say(asked: Any) -> Any:
            return late() if is_for(asked, fcm) else Answer(410, {}, b"{}") if is_for(asked, apns) else 200

        push_world.push_services.say = say
        await mention(push_world)
        monkeypatch.setattr(push_world.devices, "prune", away)
        handling = asyncio.ensure_future(handle_twice())
        await failed.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        answering.set()
        await handling
        assert len(push_world.push_services.accepted_by(fcm)) == 1

    run(scenario())


@pytest.mark.parametrize("said", [Answer(400, {}, b'{"reason": "BadDeviceToken"}'), Answer(401, {}, b"")])
def test_a_made_up_device_is_no_fault_while_its_provider_accepts_messages_for_others(
    run: Run, push_world: PushWorld, said: Answer
) -> None:
    async def scenario() -> None:
        phone, made_up = await push_world.add(ALICE), await push_world.add(CAROL)
        push_world.push_services.say = lambda asked: said if is_for(asked, made_up) else 200
        for text in ("one", "two"):
            await mention(push_world, text=text)
            await push_world.follow_log()
            await mention(push_world, CAROL, text=text)
            await push_world.follow_log()
        assert len(push_world.push_services.accepted_by(phone)) == 2
        assert await push_world.world.services.graph.store.notes(FAULTS) == {}

    run(scenario())


def test_a_made_up_device_is_no_fault_where_its_host_has_accepted_nothing(run: Run, push_world: PushWorld) -> None:
    """Its user chose the host. A host that refuses several users is a fault, though."""

    async def scenario() -> None:
        await push_world.add(ALICE, "webpush")
        quiet = "https://quiet.push.example"
        for user in (CAROL, DANA, BOB):
            made_up = Browser(f"made-up-by-{user}", quiet).address
            await push_world.devices.add(user, push_world.world.services.snowflakes.next(), made_up)
        push_world.push_services.say = lambda asked: 403 if asked.url.startswith(quiet) else 200
        await mention(push_world)
        await push_world.follow_log()
        for user, count in ((CAROL, 0), (CAROL, 0), (DANA, 0), (BOB, 1)):
            push_world.clock.ms += push.ACCEPTED_RECENTLY_MS
            await mention(push_world, user, by=ALICE)
            await push_world.follow_log()
            await push_world.pass_time(1)
            assert len(await push_world.world.services.graph.store.notes(FAULTS)) == count

    run(scenario())


@pytest.mark.parametrize("said", [500, Answer(503, {}, b"", 600.0)])
def test_notices_owed_to_a_device_ring_though_the_clock_was_put_back(
    run: Run, push_world: PushWorld, said: int | Answer
) -> None:
    async def scenario() -> None:
        phone = await push_world.add(ALICE)
        push_world.push_services.say = lambda _: said
        await mention(push_world, text="by a clock that is far ahead")
        await push_world.follow_log()
        push_world.push_services.say = lambda _: 200
        push_world.clock.ms -= 400 * 86_400_000
        await mention(push_world, text="by the right clock")
        await push_world.follow_log()
        await push_world.pass_time(60)
        assert len(push_world.push_services.accepted_by(phone)) == 2

    run(scenario())


def test_owed_notices_are_tried_while_the_log_waits_for_room(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner does deferred work only after a batch. Carol's device is refused all the time."""
    monkeypatch.setattr(pending, "PENDING_DEVICES_MAX", 1)

    async def scenario() -> None:
        runner = Runner(push_world.push, push_world.world.whole.log, now_ms=push_world.clock)
        await runner.step()

        async def follow_log() -> None:
            await push_world.world.handle()
            for _ in range(20):
                push_world.clock.ms += 15_000
                with contextlib.suppress(Unavailable):
                    await runner.step()

        phone, refused = await push_world.add(ALICE), await push_world.add(CAROL, "fcm")
        push_world.push_services.say = lambda _: 503
        await mention(push_world)
        await follow_log()
        assert push_world.owed.known == {phone.id}
        await mention(push_world, CAROL)
        await follow_log()
        push_world.push_services.say = lambda asked: 403 if is_for(asked, refused) else 200
        await follow_log()
        await follow_log()
        assert len(push_world.push_services.accepted_by(phone)) == 1
        assert push_world.owed.known == {refused.id}

    run(scenario())


def test_invented_hosts_do_not_hold_up_the_devices_of_others(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, users who register browsers at hosts that do not exist fill the bound, and nobody is rung."""
    monkeypatch.setattr(pending, "PENDING_DEVICES_MAX", 3)
    monkeypatch.setattr(push, "UNPROVEN_MAX", 2)

    async def scenario() -> None:
        phone = await push_world.add(ALICE, "webpush")
        await mention(push_world, text="the first")
        await push_world.follow_log()
        for number in range(5):
            invented = Browser(f"invented-{number}", f"https://x{number}.push.example").address
            await push_world.devices.add(CAROL, push_world.world.services.snowflakes.next(), invented)
        push_world.push_services.say = lambda asked: 200 if is_for(asked, phone) else 503
        await mention(push_world, CAROL, by=DANA)
        await push_world.follow_log()
        assert len(push_world.owed.known) == 2
        push_world.push_services.say = lambda _: 503
        await mention(push_world, text="while its own host is away")
        await push_world.follow_log()
        assert phone.id in push_world.owed.known, "its host has taken a message, so this one is owed"

    run(scenario())


def test_devices_of_a_provider_that_is_no_longer_set_up_delay_no_other(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "RETRY_DEVICES_MAX", 2)

    async def scenario() -> None:
        for user in (ALICE, CAROL, DANA):
            await push_world.add(user, "fcm")
        apns = await push_world.add(ALICE, "apns")
        push_world.push_services.say = lambda _: 503
        for user in (ALICE, CAROL, DANA):
            await mention(push_world, user)
        await push_world.follow_log()
        assert len(await push_world.owed.all()) == 4
        push_world.restart(without="fcm")
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(20 * 60)
        assert len(push_world.push_services.accepted_by(apns)) == 1
        assert await push_world.owed.all() == []

    run(scenario())


def test_a_provider_that_refuses_some_of_many_soon_gets_the_others_again(run: Run, push_world: PushWorld) -> None:
    """It accepts three messages, and then says that it is busy, again and again."""

    async def scenario() -> None:
        phone = await push_world.add(ALICE)
        push_world.push_services.say = lambda _: 503
        for number in range(20):
            await mention(push_world, text=f"number {number}")
            await push_world.follow_log()
        push_world.push_services.say = lambda _: 503 if len(push_world.push_services.got) % 4 == 0 else 200
        await push_world.pass_time(120)
        assert len(push_world.push_services.accepted_by(phone)) == 20

    run(scenario())


def test_late_refusals_of_an_old_token_cause_one_new_token(run: Run) -> None:
    """Apple refuses senders that sign a new token within 20 minutes."""

    async def scenario() -> None:
        tokens, answering = list[str](), [asyncio.Event() for _ in range(3)]
        now_ms = EPOCH_MS + 1_000_000

        async def send(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            number = len(tokens)
            tokens.append(headers["authorization"])
            if number >= len(answering):
                return Answer(200, {}, b"")
            await answering[number].wait()
            return Answer(403, {}, b'{"reason":"ExpiredProviderToken"}')

        apns, device = Apns(send, apns_key()), Device(1, now_ms, app_address("apns", "a phone"))
        message = PushMessage(Notice(1_000 << TIME_SHIFT, "like", 1, 2, now_ms), "a title", "a body")
        waiting = [asyncio.ensure_future(apns.send(device, message, now_ms)) for _ in answering]
        await asyncio.sleep(0)
        for late, sending in zip(answering, waiting, strict=True):
            late.set()
            await sending
            await apns.send(device, message, now_ms)
        assert len(set(tokens)) == 2

    run(scenario())


@pytest.mark.parametrize("said", [SendFailed(SendFault.TIMEOUT, "oauth.example did not answer"), 503, 400])
def test_messages_that_wait_for_one_access_token_share_its_failure(
    run: Run, push_world: PushWorld, said: int | SendFailed
) -> None:
    """If each of them waited for a silent host in turn, all other devices would wait for the sum."""

    async def scenario() -> None:
        for name in ("a phone", "a tablet", "a watch"):
            await push_world.add(ALICE, "fcm", name)

        async def late() -> int | SendFailed:
            for _ in range(100):
                await asyncio.sleep(0)
            return said

        push_world.push_services.say = lambda asked: late() if asked.url == TOKEN_URL else 200
        await mention(push_world)
        await push_world.follow_log()
        assert push_world.push_services.tokens == 1
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(10 * 60)
        assert len(push_world.push_services.taken) == 3

    run(scenario())


def test_of_several_refusals_of_a_device_the_longest_wait_counts(run: Run, push_world: PushWorld) -> None:
    """Two messages are refused at once; only the answer to the second says how long to wait."""

    async def scenario() -> None:
        phone = await push_world.add(ALICE)
        push_world.push_services.say = lambda _: (
            429 if len(push_world.push_services.got) == 0 else Answer(429, {}, b"", 600.0)
        )
        for text in ("one", "two"):
            await mention(push_world, text=text)
        await push_world.follow_log()
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(9 * 60)
        assert push_world.push_services.accepted_by(phone) == []
        await push_world.pass_time(2 * 60)
        assert len(push_world.push_services.accepted_by(phone)) == 2

    run(scenario())


def test_a_device_that_was_handed_on_while_a_message_waited_to_be_sent_does_not_ring(
    run: Run, push_world: PushWorld
) -> None:
    """All slots are taken by a provider that answers slowly; meanwhile Dana logs in on Carol's phone."""

    async def scenario() -> None:
        phone, tablet = [await push_world.add(CAROL, "apns", name) for name in ("a phone", "a tablet")]
        slots = push_world.push._send_slots
        for _ in range(push.SENDING_MAX):
            await slots.acquire()
        await mention(push_world, CAROL)
        handling = asyncio.ensure_future(push_world.follow_log())
        for _ in range(10_000):
            if len(slots._waiters or ()) == 2:
                break
            await asyncio.sleep(0)
        await push_world.add(DANA, "apns", "a phone")
        push_world.clock.ms += push.QUEUED_MS_MAX + 1
        for _ in range(push.SENDING_MAX):
            slots.release()
        await handling
        await push_world.pass_time(60)
        assert (push_world.push_services.accepted_by(phone), len(push_world.push_services.accepted_by(tablet))) == (
            [],
            1,
        )

    run(scenario())
