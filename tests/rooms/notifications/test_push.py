"""Notices ring on devices, whichever provider fails and whatever changes meanwhile. Over each engine; no network."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, answer
from pushing import PushDesk, app_address, is_for, mention

from kith.core.errors import Overloaded
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.graphs import LIKES
from kith.notifications import rings
from kith.notifications.preferences import Preferences, QuietHours
from kith.notifications.push import pending
from kith.notifications.push.message import TTL_MS
from kith.notifications.push.pending import FAULTS
from kith.notifications.rings import Rings
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.outbound import Answer
from kith.people.profiles import Profile
from kith.posts.post import PostEdit

HALF_AN_HOUR_S = 1_800
MINUTE_S = 60


def test_a_notice_rings_on_each_device_once_and_says_what_happened(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        await ringing.desk.services.profiles.change(BOB, lambda _: Profile(display_name="Bob B."))
        found = [await ringing.add(ALICE, kind) for kind in ("webpush", "apns", "fcm")]
        await mention(ringing, text="look\nat this")
        await ringing.follow_log(times=3)
        ringing.rewind()
        await ringing.follow_log()
        (notice,) = await ringing.desk.listed(ALICE)
        assert [ringing.clouds.rang(device) for device in found] == [[str(notice.id)]] * 3
        by_kind = {
            device.address.kind: next(one for one in ringing.clouds.got if is_for(one, device)) for device in found
        }
        parts = {"id": str(notice.id), "type": "mention", "actorId": str(BOB), "mentionedId": str(ALICE),
                 "postId": str(notice.post), "at": str(notice.at_ms)}  # fmt: skip
        shown = {"title": "Bob B. mentioned you", "body": "look at this"}
        assert ringing.browser.opened(by_kind["webpush"].body) == {**parts, **shown, "tag": str(notice.id)}
        apns, fcm = (json.loads(by_kind[kind].body) for kind in ("apns", "fcm"))
        assert (apns["aps"]["alert"], apns["kith"]) == (shown, parts)
        assert (fcm["message"]["notification"], fcm["message"]["data"]) == (shown, parts)
        assert fcm["message"]["android"]["notification"] == {"tag": str(notice.id)}

    run(scenario())


def test_followers_notified_by_a_chunk_hear_it_on_their_devices_once(run: Run, ringing: PushDesk) -> None:
    """Bob mentions Alice. Carol and Dana follow her and want it; Erin, of the last tier, finds it in the inbox."""

    async def scenario() -> None:
        desk = ringing.desk
        telling = Rings(desk.whole.records, desk.services.graph.clock)
        erin = NodeId(44)
        followers = (CAROL, DANA, erin)
        for follower in followers:
            await desk.people.follow(follower, ALICE)
            await desk.preferences.put(follower, Preferences(mentions="followed"))
        found = [await ringing.add(follower) for follower in (CAROL, erin)]
        assert await desk.external_mentions.accept("an event", BOB, ALICE, None, None)
        desk.whole.settle()
        (told,) = [notice.id for notice in await desk.listed(ALICE) if notice.type == "mention"]
        await desk.inbox.add_for_all(told, np.array(sorted(followers), np.int64))
        for _ in range(2):
            await telling.ring(told, np.array(sorted((CAROL, DANA)), np.int64), devices=True)
        await telling.ring(told, np.array([erin], np.int64), devices=False)
        await ringing.follow_log(times=3)
        assert [ringing.clouds.rang(device) for device in found] == [[str(told)], []]

    run(scenario())


def test_a_ring_of_many_is_logged_in_parts(run: Run, ringing: PushDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(rings, "USERS_MAX", 2)
        desk = ringing.desk
        followers = [NodeId(100 + more) for more in range(5)]
        found = [await ringing.add(follower) for follower in followers]
        for follower in followers:
            await desk.people.follow(follower, ALICE)
            await desk.preferences.put(follower, Preferences(mentions="followed"))
        assert await desk.external_mentions.accept("an event", BOB, ALICE, None, None)
        desk.whole.settle()
        (told,) = [notice.id for notice in await desk.listed(ALICE) if notice.type == "mention"]
        users = np.array(followers, np.int64)
        await desk.inbox.add_for_all(told, users)
        await Rings(desk.whole.records, desk.services.graph.clock).ring(told, users, devices=True)
        await ringing.follow_log()
        assert [ringing.clouds.rang(device) for device in found] == [[str(told)]] * 5

    run(scenario())


@pytest.mark.parametrize("dead", [503, SendFailed(SendFault.TIMEOUT, "no answer"), RuntimeError("a defect")], ids=str)
def test_a_provider_that_is_dead_for_half_an_hour_loses_nothing_and_delays_no_other(
    run: Run, ringing: PushDesk, dead: Any
) -> None:
    async def scenario() -> None:
        apns, fcm = await ringing.add(ALICE, "apns"), await ringing.add(ALICE, "fcm")
        ringing.clouds.say = lambda asked: dead if is_for(asked, apns) else 200
        for number in range(6):
            await mention(ringing, text=f"number {number}")
            await ringing.follow_log()
            await ringing.pass_time(HALF_AN_HOUR_S / 6)
            if number == 3:
                ringing.restart()
        told = [str(one.id) for one in reversed(await ringing.desk.listed(ALICE))]
        assert ringing.clouds.rang(fcm) == told
        assert ringing.clouds.rang(apns) == []
        assert len(ringing.clouds.got) < 100, "the dead provider is not called all the time"
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(20 * MINUTE_S)
        assert sorted(ringing.clouds.rang(apns)) == sorted(told)
        assert ringing.clouds.rang(fcm) == told
        assert await ringing.owed.all() == []

    run(scenario() if not isinstance(dead, RuntimeError) else defect(ringing, dead))


async def defect(ringing: PushDesk, error: Exception) -> None:
    """An error before a message is sent is reported to a person, and other devices get theirs."""
    apns, fcm = await ringing.add(ALICE, "apns"), await ringing.add(ALICE, "fcm")
    ringing.clouds.say = lambda asked: error if is_for(asked, apns) else 200
    await mention(ringing)
    await ringing.follow_log()
    assert (len(ringing.clouds.rang(apns)), len(ringing.clouds.rang(fcm))) == (0, 1)
    assert await faults(ringing) == {"apns": b"RuntimeError"}


async def faults(ringing: PushDesk) -> dict[str, bytes]:
    notes = await ringing.desk.services.graph.store.notes(FAULTS)
    return {key.removeprefix(FAULTS): why for key, why in notes.items()}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("kind", ["webpush", "apns", "fcm"])
def test_a_provider_that_refuses_our_credentials_is_reported_and_retried(
    run: Run, ringing: PushDesk, kind: str, status: int
) -> None:
    async def scenario() -> None:
        device = await ringing.add(ALICE, kind)
        ringing.clouds.say = lambda asked: status if is_for(asked, device) else 200
        await mention(ringing)
        await ringing.follow_log()
        assert set(await faults(ringing)) == {kind}
        assert (await ringing.devices.of([ALICE]))[ALICE] == [device]
        asked = len(ringing.clouds.got)
        await ringing.pass_time(4 * MINUTE_S)
        assert len(ringing.clouds.got) == asked
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(4 * MINUTE_S)
        assert len(ringing.clouds.rang(device)) == 1
        assert await faults(ringing) == {}

    run(scenario())


@pytest.mark.parametrize("status", [400, 404, 413])
def test_an_error_of_ours_is_reported_and_costs_no_device(run: Run, ringing: PushDesk, status: int) -> None:
    async def scenario() -> None:
        device = await ringing.add(ALICE, "fcm")
        ringing.clouds.say = lambda asked: status if is_for(asked, device) else 200
        await mention(ringing)
        await ringing.follow_log()
        assert str(status).encode() in (await faults(ringing))["fcm"]
        assert (await ringing.devices.of([ALICE]))[ALICE] == [device]
        assert await ringing.owed.all() == []
        ringing.restart()
        ringing.clouds.say = lambda _: 200
        await mention(ringing, text="another")
        await ringing.follow_log()
        assert len(ringing.clouds.rang(device)) == 1
        assert await faults(ringing) == {}

    run(scenario())


@pytest.mark.parametrize(("status", "others_wait"), [(429, False), (503, True)])
def test_retry_after_is_respected(run: Run, ringing: PushDesk, status: int, others_wait: bool) -> None:
    async def scenario() -> None:
        device, other = await ringing.add(ALICE), await ringing.add(CAROL)
        ringing.clouds.say = lambda asked: Answer(status, {}, b"", 600.0) if is_for(asked, device) else 200
        await mention(ringing)
        await ringing.follow_log()
        await mention(ringing, CAROL)
        await ringing.follow_log()
        assert len(ringing.clouds.rang(other)) == (0 if others_wait else 1)
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(9 * MINUTE_S)
        assert ringing.clouds.rang(device) == []
        await ringing.pass_time(6 * MINUTE_S)
        assert len(ringing.clouds.rang(device)) == len(ringing.clouds.rang(other)) == 1

    run(scenario())


def test_an_access_token_is_requested_once_and_again_when_it_expires(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        device = await ringing.add(ALICE, "fcm")
        for text in ("one", "two"):
            await mention(ringing, text=text)
        await ringing.follow_log()
        assert ringing.clouds.tokens == 1
        ringing.clock.ms += 3_400_000
        ringing.clouds.say = lambda asked: 200 if is_for(asked, device) else 400
        await mention(ringing, text="three")
        await ringing.follow_log()
        assert set(await faults(ringing)) == {"fcm"}
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(10 * MINUTE_S)
        assert ringing.clouds.tokens == 3, "the second was refused"
        assert len(ringing.clouds.rang(device)) == 3

    run(scenario())


Act = Callable[[PushDesk], Awaitable[Any]]


async def _block(ringing: PushDesk) -> None:
    await ringing.desk.people.block(ALICE, BOB)


async def _hide(ringing: PushDesk) -> None:
    (post,), _ = await ringing.desk.posts.outbox(BOB, BOB, Window(1))
    await ringing.desk.posts.edit(BOB, NodeId(post.id), PostEdit(visibility="private"))


async def _delete(ringing: PushDesk) -> None:
    (post,), _ = await ringing.desk.posts.outbox(BOB, BOB, Window(1))
    await ringing.desk.posts.delete(BOB, NodeId(post.id))


async def _want_none(ringing: PushDesk) -> None:
    await ringing.desk.preferences.put(ALICE, Preferences(mentions="none"))


async def _sleep(ringing: PushDesk) -> None:
    await ringing.desk.preferences.put(ALICE, Preferences(quiet=QuietHours(0, 1_439, "Europe/Berlin")))


async def _read(ringing: PushDesk) -> None:
    (notice,) = await ringing.desk.listed(ALICE)
    await ringing.desk.notifications.read(ALICE, [notice.id])


async def _log_out(ringing: PushDesk) -> None:
    (device,) = (await ringing.devices.of([ALICE]))[ALICE]
    await ringing.devices.remove(ALICE, device.id)


async def _hand_on(ringing: PushDesk) -> None:
    await ringing.devices.add(CAROL, NodeId(77), app_address("apns", str(ALICE)))


async def _grow_old(ringing: PushDesk) -> None:
    ringing.clock.ms += TTL_MS


ENDING = [_block, _hide, _delete, _want_none, _sleep, _read, _log_out, _hand_on, _grow_old]


@pytest.mark.parametrize("end", ENDING)
@pytest.mark.parametrize("tried", [False, True], ids=["before it is sent", "between two tries"])
def test_a_notice_that_must_not_ring_any_more_does_not(run: Run, ringing: PushDesk, end: Act, tried: bool) -> None:
    async def scenario() -> None:
        await ringing.add(ALICE)
        await mention(ringing)
        ringing.clouds.say = lambda _: 503
        if tried:
            await ringing.follow_log()
            assert len(await ringing.owed.all()) == 1
        else:
            await ringing.desk.handle()
        await end(ringing)
        ringing.desk.whole.settle()
        ringing.clouds.say = lambda _: 200
        await ringing.follow_log()
        await ringing.pass_time(20 * MINUTE_S)
        assert ringing.clouds.taken == []
        assert await ringing.owed.all() == []

    run(scenario())


def test_a_process_that_dies_repeats_with_the_same_topic_and_loses_nothing(run: Run, ringing: PushDesk) -> None:
    async def scenario() -> None:
        device, away = await ringing.add(ALICE), await ringing.add(CAROL, "fcm")
        ringing.clouds.say = lambda asked: 503 if is_for(asked, away) else 200
        await mention(ringing)
        await mention(ringing, CAROL)
        await ringing.follow_log()
        ringing.restart()
        ringing.rewind()
        ringing.clouds.say = lambda _: 200
        await ringing.follow_log()
        await ringing.pass_time(MINUTE_S)
        (first,), (second,) = await ringing.desk.listed(ALICE), await ringing.desk.listed(CAROL)
        assert ringing.clouds.rang(device) == [str(first.id)] * 2
        assert ringing.clouds.rang(away) == [str(second.id)]

    run(scenario())


def test_the_log_waits_while_too_much_is_owed(run: Run, ringing: PushDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "PENDING_DEVICES_MAX", 1)

    async def scenario() -> None:
        first, second = await ringing.add(ALICE), await ringing.add(CAROL, "fcm")
        ringing.clouds.say = lambda _: 503
        await mention(ringing)
        await ringing.follow_log()
        await mention(ringing, CAROL)
        assert await answer(ringing.follow_log()) is Overloaded
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(MINUTE_S)
        await ringing.follow_log()
        assert len(ringing.clouds.rang(first)) == len(ringing.clouds.rang(second)) == 1

    run(scenario())


def test_of_many_notices_owed_to_one_device_the_newest_ring(
    run: Run, ringing: PushDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "NOTICES_MAX", 3)

    async def scenario() -> None:
        device = await ringing.add(ALICE)
        ringing.clouds.say = lambda _: 503
        post = await ringing.desk.services.write(ALICE)
        for liker in range(10, 15):
            await ringing.desk.services.engagement.add(LIKES, NodeId(liker), NodeId(post.id))
            ringing.clock.ms += 1
        await ringing.follow_log()
        ringing.clouds.say = lambda _: 200
        await ringing.pass_time(MINUTE_S)
        told = [str(one.id) for one in await ringing.desk.listed(ALICE)]
        assert ringing.clouds.rang(device) == told[:3][::-1]

    run(scenario())
