"""Followers who want mentions of a celebrity pull them when they look; two followers make a celebrity here."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from notification_world import NotificationWorld

from kith.core.errors import StoreFull
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.notifications.preferences import Preferences
from kith.notifications.recent import ACCOUNTS_MAX, MENTIONS_MAX, RECENT_MS, SHARDS, Shard

DAVE = NodeId(7)


async def alice_is_mentioned(world: NotificationWorld) -> None:
    """Dave mentions Alice in public. Bob and Carol follow her, and Carol wants her mentions."""
    for fan in (BOB, CAROL):
        await world.people.follow(fan, ALICE)
    await world.preferences.put(CAROL, Preferences(mentions="followed"))
    await world.handle()
    await world.services.write(DAVE, text="look", mentions=(ALICE,))
    await world.handle(times=2)


def test_a_mention_of_a_celebrity_is_pulled_by_followers_who_want_it_and_kept(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        await alice_is_mentioned(world)
        assert [user for user, _ in world.rows.rows].count(CAROL) == 0, (
            "nothing is written for a user who does not look"
        )
        assert (await world.notifications.unread(CAROL)).number == 1
        (found,) = await world.listed(CAROL)
        assert (found.type, found.actor, found.recipient) == ("mention", DAVE, ALICE)
        assert await world.types_and_actors(BOB) == []
        world.services.clock.ms += RECENT_MS + 1
        assert await world.listed(CAROL) == [found]
        await world.people.unfollow(CAROL, ALICE)
        assert await world.listed(CAROL) == []

    run(scenario())


def test_the_inbox_is_read_while_no_row_can_be_written(
    run: Run, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise StoreFull("the disk is full")

    async def scenario() -> None:
        await alice_is_mentioned(world)
        await world.people.follow(BOB, CAROL)
        await world.handle()
        with monkeypatch.context() as patched:
            patched.setattr(world.rows, "add", full)
            assert (await world.notifications.unread(CAROL)).number == 1
            page = await world.page(CAROL)
            assert [entry.notices[0].type for entry in page.entries] == ["follow"]
            assert page.partial
        assert {type_ for type_, _ in await world.types_and_actors(CAROL)} == {"follow", "mention"}
        assert not (await world.page(CAROL)).partial

    run(scenario())


def test_own_acts_of_a_mentioned_account_notify_whether_or_not_it_is_followed(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        await alice_is_mentioned(world)
        assert await world.types_and_actors(CAROL) == [("mention", DAVE)]
        await world.people.unfollow(CAROL, ALICE)
        await world.people.follow(ALICE, CAROL)
        await world.handle()
        assert await world.types_and_actors(CAROL) == [("follow", ALICE)]

    run(scenario())


def test_a_follower_who_looks_too_late_or_wants_other_accounts_finds_nothing(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        await alice_is_mentioned(world)
        await world.preferences.put(CAROL, Preferences(mentions="these", accounts=(BOB,)))
        assert await world.listed(CAROL) == []
        world.services.clock.ms += RECENT_MS + 1
        await world.preferences.put(CAROL, Preferences(mentions="these", accounts=(ALICE,)))
        assert await world.listed(CAROL) == []

    run(scenario())


def test_mentions_that_other_systems_report_need_no_worker(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        for fan in (BOB, CAROL):
            await world.people.follow(fan, ALICE)
        world.whole.settle()
        await world.preferences.put(CAROL, Preferences(mentions="these", accounts=(ALICE,)))
        assert await world.external_mentions.accept("e", DAVE, ALICE, None, None)
        assert await world.types_and_actors(CAROL) == [("mention", DAVE)]
        assert await world.types_and_actors(BOB) == []

    run(scenario())


def test_a_full_list_leaves_out_the_oldest_and_says_so() -> None:
    now_ms = EPOCH_MS + 10 * RECENT_MS
    ids = [at << TIME_SHIFT for at in range(now_ms - EPOCH_MS, now_ms - EPOCH_MS + 100)]
    shard = Shard().adding([(SHARDS * account, ids[account]) for account in range(ACCOUNTS_MAX)], now_ms)
    assert (len(shard.mentions), shard.left_out) == (ACCOUNTS_MAX, -1)
    assert shard.adding([(0, ids[0])], now_ms) == shard, "a repetition changes nothing"
    more = shard.adding([(SHARDS * ACCOUNTS_MAX, ids[ACCOUNTS_MAX])], now_ms)
    assert (len(more.mentions), more.left_out, 0 in more.mentions) == (ACCOUNTS_MAX, ids[0], False)
    many = Shard().adding([(0, id_) for id_ in ids[: MENTIONS_MAX + 1]], now_ms)
    assert (many.mentions, many.left_out) == ({0: ids[1 : MENTIONS_MAX + 1]}, ids[0])
    assert shard.adding([], now_ms + RECENT_MS + 100).mentions == {}
