"""Devices of users: registered, handed on, bounded, and removed when their provider does not know them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from cast import ALICE, CAROL, SECRET
from coroutines import Run, answer, time_flies
from pushing import Browser, PushDesk, app_address, is_for, mention

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
    run: Run, ringing: PushDesk, kind: str, said: Answer
) -> None:
    async def scenario() -> None:
        gone, other = await ringing.add(ALICE, kind), await ringing.add(ALICE, "apns", "another")
        ringing.clouds.say = lambda asked: said if is_for(asked, gone) else 200
        await mention(ringing)
        await ringing.follow_log()
        assert (await ringing.devices.of([ALICE]))[ALICE] == [other]
        assert await answer(ringing.devices.one(ALICE, gone.id)) is DeviceNotFound
        assert len(ringing.clouds.rang(other)) == 1

    run(scenario())


def test_an_app_that_registered_after_apple_saw_it_gone_is_kept(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        device = await ringing.add(ALICE)
        before = device.registered_ms - 1
        ringing.clouds.say = lambda _: Answer(410, {}, b'{"reason": "Unregistered", "timestamp": %d}' % before)
        await mention(ringing)
        await ringing.follow_log()
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(60)
        assert len(ringing.clouds.rang(device)) == 1

    run(scenario())


def test_a_device_that_registers_again_while_it_is_found_gone_is_kept(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        device = await ringing.add(ALICE, "fcm")
        ringing.clock.ms += 1_000
        again = await ringing.add(ALICE, "fcm")
        assert again.id == device.id
        await ringing.devices.prune(ALICE, device)
        assert (await ringing.devices.of([ALICE]))[ALICE] == [again]
        await ringing.devices.prune(ALICE, again)
        assert (await ringing.devices.of([ALICE]))[ALICE] == []

    run(scenario())


def test_a_device_belongs_to_the_user_who_registered_it_last(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        mine = await ringing.add(ALICE, name="the phone")
        ringing.clock.ms += 1
        theirs = await ringing.add(CAROL, name="the phone")
        assert await ringing.devices.of([ALICE, CAROL]) == {ALICE: [], CAROL: [theirs]}
        await mention(ringing)
        await ringing.follow_log()
        assert ringing.clouds.got == []
        back = await ringing.add(ALICE, name="the phone")
        assert (back.id, await ringing.devices.of([ALICE, CAROL])) == (mine.id, {ALICE: [back], CAROL: []})
        await ringing.devices.forget(ALICE)
        assert (await ringing.devices.of([ALICE]))[ALICE] == []

    run(scenario())


async def holders(ringing: PushDesk, *names: str) -> list[bool]:
    """Whether a holder is stored for each of these phones."""
    ids = [devices._id_of(app_address("apns", name)) for name in names]
    found = await ringing.desk.posts.store.get_many(RecordKind.DEVICE_HOLDER, ids)
    return [one is not None for one in found]


def test_nothing_is_stored_of_a_device_without_a_user(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        names = ("removed", "gone", "of one who left", "handed on")
        added = [await ringing.add(ALICE, name=name) for name in names]
        ringing.clock.ms += 1
        theirs = await ringing.add(CAROL, name="handed on")
        await ringing.devices.remove(ALICE, added[0].id)
        await ringing.devices.prune(ALICE, added[1])
        assert await holders(ringing, *names) == [False, False, True, True]
        await ringing.devices.forget(ALICE)
        assert await holders(ringing, *names) == [False, False, False, True]
        assert await ringing.devices.of([ALICE, CAROL]) == {ALICE: [], CAROL: [theirs]}
        await ringing.devices.forget(CAROL)
        assert await holders(ringing, *names) == [False] * 4
        back = await ringing.add(ALICE, name="removed")
        assert await ringing.devices.of([ALICE]) == {ALICE: [back]}

    run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_a_device_that_is_registered_while_it_is_removed_is_whole_or_not_there(
    run: Run, ringing: PushDesk, seed: int
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
        slow = devices.Devices(Slow(ringing.desk.posts.store), ringing.desk.services.graph.clock, SECRET)  # type: ignore[arg-type]
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

    with time_flies():
        run(scenario())


def test_two_devices_that_register_at_once_are_both_kept(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        for number in range(10):
            both = await asyncio.gather(*(ringing.add(ALICE, kind, f"of {number}") for kind in ("apns", "fcm")))
            found = (await ringing.devices.of([ALICE]))[ALICE]
            assert {one.id for one in both} <= {one.id for one in found}
            await ringing.devices.forget(ALICE)

    run(scenario())


def test_notices_owed_to_a_device_do_not_ring_for_the_next_user_on_it(run: Run, ringing: PushDesk) -> None:
    """Alice is owed five notices; while the first is sent she logs out, and Carol logs in."""

    async def scenario() -> None:
        phone = await ringing.add(ALICE, name="the phone")
        ringing.clouds.say = lambda _: 503
        for number in range(5):
            await mention(ringing, text=f"secret {number}")
            await ringing.follow_log()

        async def handed_over() -> int:
            ringing.clouds.say = lambda _: 200
            ringing.clock.ms += 1
            await ringing.devices.remove(ALICE, phone.id)
            await ringing.add(CAROL, name="the phone")
            return 200

        ringing.clouds.say = lambda _: handed_over()
        await ringing.pass_time(600)
        assert len(ringing.clouds.rang(phone)) == 1

    run(scenario())


def test_stored_data_of_devices_names_no_endpoint(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        for kind in ("webpush", "apns"):
            await ringing.add(ALICE, kind)
        log = ringing.desk.whole.log
        logged = b"".join(event.data for event in (await log.read(ringing.desk.began, 1_000)).events)
        ringing.clouds.say = lambda _: 503
        await mention(ringing)
        await ringing.follow_log()
        notes = await ringing.desk.services.graph.store.notes(PREFIX)
        for secret in (Browser("a-browser").endpoint, app_address("apns", str(ALICE)).endpoint):
            assert secret.encode() not in logged + b"".join(notes.values())

    run(scenario())


def test_the_number_of_devices_of_a_user_is_bounded(
    run: Run, ringing: PushDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "DEVICES_MAX", 2)

    async def scenario() -> None:
        for name in ("one", "two", "one"):
            await ringing.add(ALICE, name=name)
        three = await ringing.add(CAROL, name="three")
        assert await answer(ringing.add(ALICE, name="three")) is DeviceLimitReached
        assert (await ringing.devices.of([CAROL]))[CAROL] == [three], "a refused user takes no device"
        await ringing.add(CAROL, name="two")  # it is no longer Alice's
        await ringing.add(ALICE, name="three")
        assert len((await ringing.devices.of([ALICE]))[ALICE]) == 2

    run(scenario())
