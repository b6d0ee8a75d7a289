"""Marking as read covers the rows that are there: a row written late, with an older notice, is unread."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from notification_world import NotificationWorld

from kith.core.ids import ID_MAX, NodeId
from kith.core.tokens import NO_MARK
from kith.graph.graphs import LIKES
from kith.notifications import notifications
from kith.notifications.inbox import PAGE_MAX, InboxRow, base_of
from kith.notifications.marks import AT_ONCE_MAX, LATE_MS, NO_MARKS
from kith.notifications.preferences import Preferences


async def mention(world: NotificationWorld) -> int:
    """Let Bob mention Alice, whose mentions Carol wants; return the notice, of which Carol has no row yet."""
    await world.people.follow(CAROL, ALICE)
    await world.preferences.put(CAROL, Preferences(mentions="followed"))
    world.services.clock.ms += 1_000
    assert await world.external_mentions.accept("event", BOB, ALICE, None, None)
    (notice,) = await world.inbox.page(ALICE, limit=1)
    return notice


async def likes(world: NotificationWorld, count: int) -> None:
    """Let users like a post of Carol."""
    post = NodeId((await world.services.write(CAROL)).id)
    for user in range(100, 100 + count):
        await world.services.engagement.add(LIKES, NodeId(user), post)
    world.services.clock.ms += 1_000
    await world.handle()


@pytest.mark.parametrize(("later_ms", "unread"), [(0, 1), (LATE_MS - 60_000, 1), (LATE_MS + 60_000, 0)])
def test_a_mention_that_comes_late_is_unread_though_everything_was_read(
    run: Run, world: NotificationWorld, later_ms: int, unread: int
) -> None:
    async def scenario() -> None:
        notice = await mention(world)
        world.services.clock.ms += later_ms
        await likes(world, 3)
        await world.notifications.read_up_to(CAROL, ID_MAX)
        assert (await world.notifications.unread(CAROL)).number == 0
        await world.inbox.add_for_all(notice, np.array([CAROL], np.int64))
        assert (await world.types_and_actors(CAROL))[3:] == [("mention", BOB)]
        assert await world.notifications.unread(CAROL) == (unread, False)
        await world.notifications.read_up_to(CAROL, ID_MAX)
        assert await world.notifications.unread(CAROL) == (0, False)

    run(scenario())


@pytest.mark.parametrize(("later_ms", "seen"), [(0, False), (LATE_MS - 60_000, False), (LATE_MS + 60_000, True)])
def test_a_mention_that_comes_late_is_not_seen_though_everything_was_seen(
    run: Run, world: NotificationWorld, later_ms: int, seen: bool
) -> None:
    async def scenario() -> None:
        notice = await mention(world)
        world.services.clock.ms += later_ms
        await likes(world, 3)
        await world.notifications.seen_up_to(CAROL, ID_MAX)
        await world.inbox.add_for_all(notice, np.array([CAROL], np.int64))
        assert [entry.seen for entry in (await world.page(CAROL)).entries] == [True, seen]
        await world.notifications.seen_up_to(CAROL, ID_MAX)
        assert [entry.seen for entry in (await world.page(CAROL)).entries] == [True, True]
        assert (await world.notifications.unread(CAROL)).number == 4
        world.services.clock.ms += 1_000
        assert await world.notifications.seen_up_to(CAROL, ID_MAX) == NO_MARK, "nothing is written if nothing is new"

    run(scenario())


def test_where_very_many_are_read_at_once_a_late_older_one_counts_as_read(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        notice = await mention(world)
        await likes(world, AT_ONCE_MAX + 5)
        await world.notifications.read_up_to(CAROL, ID_MAX)
        assert await world.notifications.unread(CAROL) == (0, False)
        await world.inbox.add_for_all(notice, np.array([CAROL], np.int64))
        assert await world.notifications.unread(CAROL) == (0, False)
        await world.people.follow(BOB, CAROL)
        await world.handle()
        assert await world.notifications.unread(CAROL) == (1, False)

    run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_reading_covers_the_rows_there_and_all_older_than_the_late_ones(seed: int) -> None:
    chosen = random.Random(seed)
    marks, rows, read, up_to = NO_MARKS, set[int](), set[int](), -1
    for _ in range(50):
        rows |= {*chosen.sample(range(1_000), 5)}
        newest, since = chosen.choice(sorted(rows)), chosen.randrange(1_000)
        there = [row for row in rows if row <= newest]
        marks = marks.reading_up_to(newest, there, since)
        read, up_to = read | {*there}, max(up_to, min(newest, since))
        assert {row for row in range(1_000) if marks.is_read(row)} == read | {*range(up_to + 1)}


@pytest.mark.parametrize("marked", ["a page", "all over"])
def test_ids_of_no_notice_mark_nothing_however_many(run: Run, world: NotificationWorld, marked: str) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await likes(world, 5)
        mine = await world.inbox.page(CAROL, limit=10)
        step = 1 if marked == "a page" else (mine[4] - mine[5]) // 1_000
        others = [mine[4] - step * number for number in range(1, 901)]
        for _ in range(2):
            await world.notifications.read(CAROL, others)
            await world.notifications.read(CAROL, [id_ - step // 2 - 1 for id_ in others[:-1]])
        assert await world.notifications.unread(CAROL) == (10, False)
        await world.notifications.read(CAROL, [*others[:900], mine[1], mine[9]])
        assert await world.notifications.unread(CAROL) == (8, False)

    run(scenario())


def test_single_notices_of_many_are_read_wherever_they_lie(
    run: Run, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PAGE_MAX", 2)

    async def scenario() -> None:
        await likes(world, 9)
        mine = await world.inbox.page(CAROL, limit=10)
        await world.notifications.read(CAROL, [mine[8], mine[4], mine[1], mine[0]])
        entries = (await world.page(CAROL, grouped=False)).entries
        assert [at for at, entry in enumerate(entries) if entry.read] == [0, 1, 4, 8]

    run(scenario())


def test_concurrent_marks_all_take_effect(run: Run, world: NotificationWorld) -> None:
    """All marks change one record, and of concurrent writes one succeeds each time."""

    async def scenario() -> None:
        await likes(world, 40)
        mine = await world.inbox.page(CAROL, limit=40)
        await asyncio.gather(*(world.notifications.read(CAROL, [one]) for one in mine[1:]))
        assert await world.notifications.unread(CAROL) == (1, False)

    run(scenario())


def test_marking_a_few_that_lie_far_apart_reads_little_of_a_long_inbox(
    run: Run, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        rows = [base_of(3_000) + number for number in range(20 * PAGE_MAX)]
        await world.inbox.add([InboxRow(ALICE, row) for row in rows])
        page, read = world.inbox.page, list[int]()

        async def counted(*args: Any, **asked: Any) -> list[int]:
            found: list[int] = await page(*args, **asked)
            read.append(len(found))
            return found

        monkeypatch.setattr(world.inbox, "page", counted)
        ids = [rows[at] + shift for at in range(0, len(rows), PAGE_MAX) for shift in (0, 1, 2)]
        assert await world.notifications.held_ids(ALICE, [*ids, ID_MAX, 0]) == set(ids)
        assert sum(read) < 3 * PAGE_MAX
        assert await world.notifications.held_ids(ALICE, rows[-PAGE_MAX:]) == set(rows[-PAGE_MAX:])

    run(scenario())
