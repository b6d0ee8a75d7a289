"""Devices of users: registered, handed on, bounded, and removed when their provider does not know them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from cast import ALICE, CAROL, SECRET
from coroutines import Run, answer, without_waits
from push_world import Browser, PushWorld, app_address, is_for, mention

from kith.core.errors import DeviceLimitReached, DeviceNotFound
from kith.notifications.push import devices
from kith.notifications.push.pending import PREFIX
from kith.outbound.outbound import Answer
from kith.records.store import RecordKind


@pytest.mark.parametrize(
    ("kind", "said"),
    [("webpush", Answer(404, {}, b"")), ("webpush", Answer(410, {}, b"")),
     ("apns", Answer(410, {}, b'{"reason": "Unregistered", "timestamp": 4102444800000}')),
     ("fcm", Answer(404, {}, b'{"error": {"status": "NOT_FOUND", "details": [{"errorCode": "UNREGISTERED"}]}}'))],
)  # fmt: skip
def test_a_device_that_its_provider_does_not_know_is_forgotten(
    run: Run, push_world: PushWorld, kind: str, said: Answer
) -> None:
    async def scenario() -> None:
        gone, other = await push_world.add(ALICE, kind), await push_world.add(ALICE, "apns", "another")
        push_world.push_services.say = lambda asked: said if is_for(asked, gone) else 200
        await mention(push_world)
        await push_world.follow_log()
        assert (await push_world.devices.of([ALICE]))[ALICE] == [other]
        assert await answer(push_world.devices.one(ALICE, gone.id)) is DeviceNotFound
        assert len(push_world.push_services.accepted_by(other)) == 1

    run(scenario())


def test_an_app_that_registered_after_apple_saw_it_gone_is_kept(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        device = await push_world.add(ALICE)
        before = device.registered_ms - 1
        push_world.push_services.say = lambda _: Answer(
            410, {}, b'{"reason": "Unregistered", "timestamp": %d}' % before
        )
        await mention(push_world)
        await push_world.follow_log()
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(60)
        assert len(push_world.push_services.accepted_by(device)) == 1

    run(scenario())


def test_a_device_that_registers_again_while_it_is_found_gone_is_kept(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        device = await push_world.add(ALICE, "fcm")
        push_world.clock.ms += 1_000
        again = await push_world.add(ALICE, "fcm")
        assert again.id == device.id
        await push_world.devices.prune(ALICE, device)
        assert (await push_world.devices.of([ALICE]))[ALICE] == [again]
        await push_world.devices.prune(ALICE, again)
        assert (await push_world.devices.of([ALICE]))[ALICE] == []

    run(scenario())


def test_a_device_belongs_to_the_user_who_registered_it_last(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        mine = await push_world.add(ALICE, name="the phone")
        push_world.clock.ms += 1
        theirs = await push_world.add(CAROL, name="the phone")
        assert await push_world.devices.of([ALICE, CAROL]) == {ALICE: [], CAROL: [theirs]}
        await mention(push_world)
        await push_world.follow_log()
        assert push_world.push_services.got == []
        back = await push_world.add(ALICE, name="the phone")
        assert (back.id, await push_world.devices.of([ALICE, CAROL])) == (mine.id, {ALICE: [back], CAROL: []})
        await push_world.devices.forget(ALICE)
        assert (await push_world.devices.of([ALICE]))[ALICE] == []

    run(scenario())


async def holders(push_world: PushWorld, *names: str) -> list[bool]:
    """Whether a holder is stored for each of these phones."""
    ids = [devices._id_of(app_address("apns", name)) for name in names]
    found = await push_world.world.posts.store.get_many(RecordKind.DEVICE_HOLDER, ids)
    return [one is not None for one in found]


def test_nothing_is_stored_of_a_device_without_a_user(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        names = ("removed", "gone", "of one who left", "handed on")
        added = [await push_world.add(ALICE, name=name) for name in names]
        push_world.clock.ms += 1
        theirs = await push_world.add(CAROL, name="handed on")
        await push_world.devices.remove(ALICE, added[0].id)
        await push_world.devices.prune(ALICE, added[1])
        assert await holders(push_world, *names) == [False, False, True, True]
        await push_world.devices.forget(ALICE)
        assert await holders(push_world, *names) == [False, False, False, True]
        assert await push_world.devices.of([ALICE, CAROL]) == {ALICE: [], CAROL: [theirs]}
        await push_world.devices.forget(CAROL)
        assert await holders(push_world, *names) == [False] * 4
        back = await push_world.add(ALICE, name="removed")
        assert await push_world.devices.of([ALICE]) == {ALICE: [back]}

    run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_a_device_that_is_registered_while_it_is_removed_is_whole_or_not_there(
    run: Run, push_world: PushWorld, seed: int
) -> None:
    """By the same user or another. The last answer must be right: a device that is listed rings."""
    chosen = random.Random(seed)

    class Slow:
        """A store that lets other tasks run before each call."""

        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            async def call(*args: Any, **named: Any) -> Any:
                for _ in range(chosen.choice((0, 1, 40))):
                    await asyncio.sleep(0)
                return await getattr(self._store, name)(*args, **named)

            return call

    async def scenario() -> None:
        slow = devices.Devices(Slow(push_world.world.posts.store), push_world.world.services.graph.clock, SECRET)  # type: ignore[arg-type]
        phone, users = app_address("apns", "the phone"), (ALICE, CAROL)
        for at in range(30):
            added = [slow.add(chosen.choice(users), at * 10 + one, phone) for one in range(chosen.randrange(3))]
            await asyncio.gather(*added, *(slow.forget(user) for user in users if chosen.random() < 0.7))
            before = await slow.of(users)
            last = chosen.choice(users)
            device, _ = await slow.add(last, at * 10 + 9, phone)
            assert await slow.of(users) == {ALICE: [], CAROL: []} | {last: [device]}, (before, at)
            if chosen.random() < 0.5:
                await slow.forget(last)
                assert await slow.of(users) == {ALICE: [], CAROL: []}
            await slow.forget(CAROL)
            await asyncio.gather(slow.add(ALICE, 1, phone), slow.forget(ALICE))
            listed = (await slow._read(ALICE))[1]
            assert (await slow.of([ALICE]))[ALICE] == listed, "devices listed for the only user are theirs"

    with without_waits():
        run(scenario())


def test_two_devices_that_register_at_once_are_both_kept(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        for number in range(10):
            both = await asyncio.gather(*(push_world.add(ALICE, kind, f"of {number}") for kind in ("apns", "fcm")))
            found = (await push_world.devices.of([ALICE]))[ALICE]
            assert {one.id for one in both} <= {one.id for one in found}
            await push_world.devices.forget(ALICE)

    run(scenario())


def test_notices_owed_to_a_device_do_not_ring_for_the_next_user_on_it(run: Run, push_world: PushWorld) -> None:
    """Alice is owed five notices; while the first is sent she logs out, and Carol logs in."""

    async def scenario() -> None:
        phone = await push_world.add(ALICE, name="the phone")
        push_world.push_services.say = lambda _: 503
        for number in range(5):
            await mention(push_world, text=f"secret {number}")
            await push_world.follow_log()

        async def handed_over() -> int:
            push_world.push_services.say = lambda _: 200
            push_world.clock.ms += 1
            await push_world.devices.remove(ALICE, phone.id)
            await push_world.add(CAROL, name="the phone")
            return 200

        push_world.push_services.say = lambda _: handed_over()
        await push_world.pass_time(600)
        assert len(push_world.push_services.accepted_by(phone)) == 1

    run(scenario())


def test_stored_data_of_devices_names_no_endpoint(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        for kind in ("webpush", "apns"):
            await push_world.add(ALICE, kind)
        log = push_world.world.whole.log
        logged = b"".join(event.data for event in (await log.read(push_world.world.log_start, 1_000)).events)
        push_world.push_services.say = lambda _: 503
        await mention(push_world)
        await push_world.follow_log()
        notes = await push_world.world.services.graph.store.notes(PREFIX)
        for secret in (Browser("a-browser").endpoint, app_address("apns", str(ALICE)).endpoint):
            assert secret.encode() not in logged + b"".join(notes.values())

    run(scenario())


def test_the_number_of_devices_of_a_user_is_bounded(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "DEVICES_MAX", 2)

    async def scenario() -> None:
        for name in ("one", "two", "one"):
            await push_world.add(ALICE, name=name)
        three = await push_world.add(CAROL, name="three")
        assert await answer(push_world.add(ALICE, name="three")) is DeviceLimitReached
        assert (await push_world.devices.of([CAROL]))[CAROL] == [three], "a refused user takes no device"
        await push_world.add(CAROL, name="two")  # it is no longer Alice's
        await push_world.add(ALICE, name="three")
        assert len((await push_world.devices.of([ALICE]))[ALICE]) == 2

    run(scenario())
