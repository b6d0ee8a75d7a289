"""Notices ring on devices, whichever provider fails and whatever changes meanwhile. Over each engine; no network."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, answer
from push_world import PushWorld, app_address, is_for, mention

from kith.core.errors import Overloaded
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.graphs import LIKES
from kith.notifications import rings
from kith.notifications.preferences import Preferences, QuietHours
from kith.notifications.push import pending, push
from kith.notifications.push.device import Device
from kith.notifications.push.message import TTL_MS
from kith.notifications.push.pending import FAULTS
from kith.notifications.rings import Rings
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.outbound import Answer
from kith.people.profiles import Profile
from kith.posts.post import PostEdit

HALF_AN_HOUR_S = 1_800
MINUTE_S = 60


def test_a_notice_rings_on_each_device_once_and_says_what_happened(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        await push_world.world.services.profiles.change(BOB, lambda _: Profile(display_name="Bob B."))
        found = [await push_world.add(ALICE, kind) for kind in ("webpush", "apns", "fcm")]
        await mention(push_world, text="look\nat this")
        await push_world.follow_log(times=3)
        push_world.rewind()
        await push_world.follow_log()
        (notice,) = await push_world.world.listed(ALICE)
        assert [push_world.push_services.accepted_by(device) for device in found] == [[str(notice.id)]] * 3
        by_kind = {
            device.address.kind: next(one for one in push_world.push_services.got if is_for(one, device))
            for device in found
        }
        parts = {"id": str(notice.id), "type": "mention", "actorId": str(BOB), "mentionedId": str(ALICE),
                 "postId": str(notice.post), "at": str(notice.at_ms)}  # fmt: skip
        shown = {"title": "Bob B. mentioned you", "body": "look at this"}
        assert push_world.browser.opened(by_kind["webpush"].body) == {**parts, **shown, "tag": str(notice.id)}
        apns, fcm = (json.loads(by_kind[kind].body) for kind in ("apns", "fcm"))
        assert (apns["aps"]["alert"], apns["kith"]) == (shown, parts)
        assert (fcm["message"]["notification"], fcm["message"]["data"]) == (shown, parts)
        assert fcm["message"]["android"]["notification"] == {"tag": str(notice.id)}

    run(scenario())


def test_followers_notified_by_a_chunk_hear_it_on_their_devices_once(run: Run, push_world: PushWorld) -> None:
    """Bob mentions Alice. Carol and Dana follow her and want it; Erin, of the last tier, finds it in the inbox."""

    async def scenario() -> None:
        world = push_world.world
        telling = Rings(world.whole.records, world.services.graph.clock)
        erin = NodeId(44)
        followers = (CAROL, DANA, erin)
        for follower in followers:
            await world.people.follow(follower, ALICE)
            await world.preferences.put(follower, Preferences(mentions="followed"))
        found = [await push_world.add(follower) for follower in (CAROL, erin)]
        assert await world.external_mentions.accept("an event", BOB, ALICE, None, None)
        world.whole.settle()
        (told,) = [notice.id for notice in await world.listed(ALICE) if notice.type == "mention"]
        await world.inbox.add_for_all(told, np.array(sorted(followers), np.int64))
        for _ in range(2):
            await telling.ring(told, np.array(sorted((CAROL, DANA)), np.int64), devices=True)
        await telling.ring(told, np.array([erin], np.int64), devices=False)
        await push_world.follow_log(times=3)
        assert [push_world.push_services.accepted_by(device) for device in found] == [[str(told)], []]

    run(scenario())


async def ring_followers(push_world: PushWorld) -> tuple[list[NodeId], list[Device], int]:
    """Five followers of Alice, their devices, and a mention of Alice for which these are to ring."""
    world = push_world.world
    followers = [NodeId(100 + more) for more in range(5)]
    found = [await push_world.add(follower) for follower in followers]
    for follower in followers:
        await world.people.follow(follower, ALICE)
        await world.preferences.put(follower, Preferences(mentions="followed"))
    assert await world.external_mentions.accept("an event", BOB, ALICE, None, None)
    world.whole.settle()
    (told,) = [notice.id for notice in await world.listed(ALICE) if notice.type == "mention"]
    users = np.array(followers, np.int64)
    await world.inbox.add_for_all(told, users)
    await Rings(world.whole.records, world.services.graph.clock).ring(told, users, devices=True)
    return followers, found, told


def test_many_followers_are_decided_in_parts_each_right_before_it_is_sent(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one wants no mentions any more once the first one's device has rung."""
    monkeypatch.setattr(push, "DECIDED_MAX", 2)

    async def scenario() -> None:
        world = push_world.world
        followers, found, _ = await ring_followers(push_world)

        async def refuse() -> int:
            await world.preferences.put(followers[-1], Preferences())
            return 200

        push_world.push_services.say = lambda asked: refuse() if is_for(asked, found[0]) else 200
        await push_world.follow_log()
        rung = [len(push_world.push_services.accepted_by(device)) for device in found]
        assert rung == [1, 1, 1, 1, 0]

    run(scenario())


def test_a_ring_of_many_is_logged_in_parts(run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(rings, "USERS_MAX", 2)
        _, found, told = await ring_followers(push_world)
        await push_world.follow_log()
        assert [push_world.push_services.accepted_by(device) for device in found] == [[str(told)]] * 5

    run(scenario())


@pytest.mark.parametrize("dead", [503, SendFailed(SendFault.TIMEOUT, "no answer"), RuntimeError("a defect")], ids=str)
def test_a_provider_that_is_dead_for_half_an_hour_loses_nothing_and_delays_no_other(
    run: Run, push_world: PushWorld, dead: Any
) -> None:
    async def scenario() -> None:
        apns, fcm = await push_world.add(ALICE, "apns"), await push_world.add(ALICE, "fcm")
        push_world.push_services.say = lambda asked: dead if is_for(asked, apns) else 200
        for number in range(6):
            await mention(push_world, text=f"number {number}")
            await push_world.follow_log()
            await push_world.pass_time(HALF_AN_HOUR_S / 6)
            if number == 3:
                push_world.restart()
        told = [str(one.id) for one in reversed(await push_world.world.listed(ALICE))]
        assert push_world.push_services.accepted_by(fcm) == told
        assert push_world.push_services.accepted_by(apns) == []
        assert len(push_world.push_services.got) < 100, "the dead provider is not called all the time"
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(20 * MINUTE_S)
        assert sorted(push_world.push_services.accepted_by(apns)) == sorted(told)
        assert push_world.push_services.accepted_by(fcm) == told
        assert await push_world.owed.all() == []

    run(scenario() if not isinstance(dead, RuntimeError) else defect(push_world, dead))


async def defect(push_world: PushWorld, error: Exception) -> None:
    """An error before a message is sent is reported to a person, and other devices get theirs."""
    apns, fcm = await push_world.add(ALICE, "apns"), await push_world.add(ALICE, "fcm")
    push_world.push_services.say = lambda asked: error if is_for(asked, apns) else 200
    await mention(push_world)
    await push_world.follow_log()
    assert (len(push_world.push_services.accepted_by(apns)), len(push_world.push_services.accepted_by(fcm))) == (0, 1)
    assert await faults(push_world) == {"apns": b"RuntimeError"}


async def faults(push_world: PushWorld) -> dict[str, bytes]:
    notes = await push_world.world.services.graph.store.notes(FAULTS)
    return {key.removeprefix(FAULTS): why for key, why in notes.items()}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("kind", ["webpush", "apns", "fcm"])
def test_a_provider_that_refuses_our_credentials_is_reported_and_retried(
    run: Run, push_world: PushWorld, kind: str, status: int
) -> None:
    async def scenario() -> None:
        device = await push_world.add(ALICE, kind)
        push_world.push_services.say = lambda asked: status if is_for(asked, device) else 200
        await mention(push_world)
        await push_world.follow_log()
        assert set(await faults(push_world)) == {kind}
        assert (await push_world.devices.of([ALICE]))[ALICE] == [device]
        asked = len(push_world.push_services.got)
        await push_world.pass_time(4 * MINUTE_S)
        assert len(push_world.push_services.got) == asked
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(4 * MINUTE_S)
        assert len(push_world.push_services.accepted_by(device)) == 1
        assert await faults(push_world) == {}

    run(scenario())


@pytest.mark.parametrize("status", [400, 404, 413])
def test_an_error_of_ours_is_reported_and_costs_no_device(run: Run, push_world: PushWorld, status: int) -> None:
    async def scenario() -> None:
        device = await push_world.add(ALICE, "fcm")
        push_world.push_services.say = lambda asked: status if is_for(asked, device) else 200
        await mention(push_world)
        await push_world.follow_log()
        assert str(status).encode() in (await faults(push_world))["fcm"]
        assert (await push_world.devices.of([ALICE]))[ALICE] == [device]
        assert await push_world.owed.all() == []
        push_world.restart()
        push_world.push_services.say = lambda _: 200
        await mention(push_world, text="another")
        await push_world.follow_log()
        assert len(push_world.push_services.accepted_by(device)) == 1
        assert await faults(push_world) == {}

    run(scenario())


@pytest.mark.parametrize(("status", "others_wait"), [(429, False), (503, True)])
def test_retry_after_is_respected(run: Run, push_world: PushWorld, status: int, others_wait: bool) -> None:
    async def scenario() -> None:
        device, other = await push_world.add(ALICE), await push_world.add(CAROL)
        push_world.push_services.say = lambda asked: Answer(status, {}, b"", 600.0) if is_for(asked, device) else 200
        await mention(push_world)
        await push_world.follow_log()
        await mention(push_world, CAROL)
        await push_world.follow_log()
        assert len(push_world.push_services.accepted_by(other)) == (0 if others_wait else 1)
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(9 * MINUTE_S)
        assert push_world.push_services.accepted_by(device) == []
        await push_world.pass_time(6 * MINUTE_S)
        assert (
            len(push_world.push_services.accepted_by(device)) == len(push_world.push_services.accepted_by(other)) == 1
        )

    run(scenario())


def test_an_access_token_is_requested_once_and_again_when_it_expires(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        device = await push_world.add(ALICE, "fcm")
        for text in ("one", "two"):
            await mention(push_world, text=text)
        await push_world.follow_log()
        assert push_world.push_services.tokens == 1
        push_world.clock.ms += 3_400_000
        push_world.push_services.say = lambda asked: 200 if is_for(asked, device) else 400
        await mention(push_world, text="three")
        await push_world.follow_log()
        assert set(await faults(push_world)) == {"fcm"}
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(10 * MINUTE_S)
        assert push_world.push_services.tokens == 3, "the second was refused"
        assert len(push_world.push_services.accepted_by(device)) == 3

    run(scenario())


Act = Callable[[PushWorld], Awaitable[Any]]


async def _block(push_world: PushWorld) -> None:
    await push_world.world.people.block(ALICE, BOB)


async def _hide(push_world: PushWorld) -> None:
    (post,), _ = await push_world.world.posts.outbox(BOB, BOB, Window(1))
    await push_world.world.posts.edit(BOB, NodeId(post.id), PostEdit(visibility="private"))


async def _delete(push_world: PushWorld) -> None:
    (post,), _ = await push_world.world.posts.outbox(BOB, BOB, Window(1))
    await push_world.world.posts.delete(BOB, NodeId(post.id))


async def _want_none(push_world: PushWorld) -> None:
    await push_world.world.preferences.put(ALICE, Preferences(mentions="none"))


async def _sleep(push_world: PushWorld) -> None:
    await push_world.world.preferences.put(ALICE, Preferences(quiet=QuietHours(0, 1_439, "Europe/Berlin")))


async def _read(push_world: PushWorld) -> None:
    (notice,) = await push_world.world.listed(ALICE)
    await push_world.world.notifications.read(ALICE, [notice.id])


async def _log_out(push_world: PushWorld) -> None:
    (device,) = (await push_world.devices.of([ALICE]))[ALICE]
    await push_world.devices.remove(ALICE, device.id)


async def _hand_on(push_world: PushWorld) -> None:
    await push_world.devices.add(CAROL, NodeId(77), app_address("apns", str(ALICE)))


async def _grow_old(push_world: PushWorld) -> None:
    push_world.clock.ms += TTL_MS


ENDING = [_block, _hide, _delete, _want_none, _sleep, _read, _log_out, _hand_on, _grow_old]


@pytest.mark.parametrize("end", ENDING)
@pytest.mark.parametrize("tried", [False, True], ids=["before it is sent", "between two tries"])
def test_a_notice_that_must_not_ring_any_more_does_not(run: Run, push_world: PushWorld, end: Act, tried: bool) -> None:
    async def scenario() -> None:
        await push_world.add(ALICE)
        await mention(push_world)
        push_world.push_services.say = lambda _: 503
        if tried:
            await push_world.follow_log()
            assert len(await push_world.owed.all()) == 1
        else:
            await push_world.world.handle()
        await end(push_world)
        push_world.world.whole.settle()
        push_world.push_services.say = lambda _: 200
        await push_world.follow_log()
        await push_world.pass_time(20 * MINUTE_S)
        assert push_world.push_services.taken == []
        assert await push_world.owed.all() == []

    run(scenario())


def test_a_process_that_dies_repeats_with_the_same_topic_and_loses_nothing(run: Run, push_world: PushWorld) -> None:
    async def scenario() -> None:
        device, away = await push_world.add(ALICE), await push_world.add(CAROL, "fcm")
        push_world.push_services.say = lambda asked: 503 if is_for(asked, away) else 200
        await mention(push_world)
        await mention(push_world, CAROL)
        await push_world.follow_log()
        push_world.restart()
        push_world.rewind()
        push_world.push_services.say = lambda _: 200
        await push_world.follow_log()
        await push_world.pass_time(MINUTE_S)
        (first,), (second,) = await push_world.world.listed(ALICE), await push_world.world.listed(CAROL)
        assert push_world.push_services.accepted_by(device) == [str(first.id)] * 2
        assert push_world.push_services.accepted_by(away) == [str(second.id)]

    run(scenario())


def test_the_log_waits_while_too_much_is_owed(run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "PENDING_DEVICES_MAX", 1)

    async def scenario() -> None:
        first, second = await push_world.add(ALICE), await push_world.add(CAROL, "fcm")
        push_world.push_services.say = lambda _: 503
        await mention(push_world)
        await push_world.follow_log()
        await mention(push_world, CAROL)
        assert await answer(push_world.follow_log()) is Overloaded
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(MINUTE_S)
        await push_world.follow_log()
        assert (
            len(push_world.push_services.accepted_by(first)) == len(push_world.push_services.accepted_by(second)) == 1
        )

    run(scenario())


def test_of_many_notices_owed_to_one_device_the_newest_ring(
    run: Run, push_world: PushWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "NOTICES_MAX", 3)

    async def scenario() -> None:
        device = await push_world.add(ALICE)
        push_world.push_services.say = lambda _: 503
        post = await push_world.world.services.write(ALICE)
        for liker in range(10, 15):
            await push_world.world.services.engagement.add(LIKES, NodeId(liker), NodeId(post.id))
            push_world.clock.ms += 1
        await push_world.follow_log()
        push_world.push_services.say = lambda _: 200
        await push_world.pass_time(MINUTE_S)
        told = [str(one.id) for one in await push_world.world.listed(ALICE)]
        assert push_world.push_services.accepted_by(device) == told[:3][::-1]

    run(scenario())
