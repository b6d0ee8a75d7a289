"""What every TimelineStore must do. Each test is one claim of `home.timelines`.

`fault/test_timeline_kill.py` tests what happens when a process dies, and what other processes see.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from blocking_timelines import BlockingTimelines
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from engines import Engine
from timeline_helpers import floor, ids, push_all, shown, withheld_rate_min

from kith.core.ids import ID_MAX
from kith.engines.embedded.ring_file import LINE, WIDTH
from kith.home.timelines import BUILD_PUSHES, RATE_MAX, RATE_WINDOW_MS, TimelineStore

PORT = "timelines"
SLOTS = 3
EVERYONE = (0, ALICE, BOB, CAROL, DANA, 2**53 + 1, ID_MAX)


@pytest.fixture
def timelines(engine: Engine, tmp_path: Path, clock: FakeClock, run: Run) -> Iterator[BlockingTimelines]:
    """Timelines for three users at a time."""
    assert engine.timelines
    with engine.timelines(tmp_path / "timelines", slots=SLOTS, now_ms=clock) as opened:
        yield BlockingTimelines(opened, run)


# --- one timeline --------------------------------------------------------------------------------------


def test_a_push_creates_no_timeline(timelines: BlockingTimelines) -> None:
    assert timelines.push(1, ids(ALICE, BOB)) == 0
    timelines.touch(ALICE)
    assert shown(timelines, ALICE) is None
    assert timelines.count() == 0
    assert not timelines.drop(ALICE)


def test_an_empty_timeline_is_not_none(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, ids())
    assert shown(timelines, ALICE) == []
    assert shown(timelines, BOB) is None
    assert timelines.count() == 1


def test_pushed_posts_come_first_newest_first_before_put_ones(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, ids(30, 20, 10))
    assert timelines.push(5, ids(ALICE)) == 1
    assert timelines.push(40, ids(BOB, ALICE)) == 1
    assert shown(timelines, ALICE) == [40, 5, 30, 20, 10]


def test_ids_of_all_63_bits_come_back(timelines: BlockingTimelines) -> None:
    timelines.put(ID_MAX, ids(ID_MAX, 0))
    timelines.put(0, ids(2**53 + 1))
    timelines.push(ID_MAX - 1, ids(0, ID_MAX))
    assert shown(timelines, ID_MAX) == [ID_MAX - 1, ID_MAX, 0]
    assert shown(timelines, 0) == [ID_MAX - 1, 2**53 + 1]


def test_a_number_that_is_no_id_has_no_timeline(timelines: BlockingTimelines) -> None:
    timelines.put(0, ids(1))
    timelines.drop(0)
    negative = ids(-1, -2, -(2**63))
    assert timelines.push(1, negative) == 0
    assert [shown(timelines, int(user)) for user in negative] == [None] * 3


@pytest.mark.parametrize("before", [0, 1, 499, 500])
@pytest.mark.parametrize("pushed", [1, LINE - 1, LINE, LINE + 1, 500, WIDTH, WIDTH + 1, 3 * WIDTH])
def test_only_the_newest_500_are_kept(timelines: BlockingTimelines, before: int, pushed: int) -> None:
    timelines.put(ALICE, np.arange(before, 0, -1))
    for post in range(before + 1, before + pushed + 1):
        timelines.push(post, ids(ALICE))
    assert shown(timelines, ALICE) == [*range(before + pushed, max(0, before + pushed - 500), -1)]


def test_the_floor_is_the_greatest_dropped_id_in_any_order(timelines: BlockingTimelines) -> None:
    chosen = np.random.default_rng(7)
    all_ids = [*range(1, 401)]
    timelines.put(ALICE, np.array(all_ids[::-1]))
    assert floor(timelines, ALICE) == 0
    for post in chosen.integers(1, 5000, 1500).tolist():
        timelines.push(post, ids(ALICE))
        all_ids.append(post)
        assert floor(timelines, ALICE) == max(all_ids[:-500], default=0)


def test_putting_more_than_500_ids_sets_the_floor(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, np.arange(1499, 1000, -1))
    assert floor(timelines, ALICE) == 0
    timelines.put(ALICE, np.arange(1500, 1000, -1))
    assert floor(timelines, ALICE) == 1000
    timelines.put(ALICE, np.arange(1600, 1000, -1))
    assert floor(timelines, ALICE) == 1100
    timelines.put(ALICE, ids(1))
    assert floor(timelines, ALICE) == 0


def test_putting_more_than_500_ids_keeps_500(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, np.arange(700, 0, -1))
    assert shown(timelines, ALICE) == [*range(700, 200, -1)]


def test_put_replaces_the_timeline_and_does_not_change_the_given_array(timelines: BlockingTimelines) -> None:
    given_ids = ids(3, 2, 1)
    timelines.put(ALICE, ids(9, 8, 7, 6, 5))
    timelines.put(ALICE, given_ids)
    timelines.push(4, ids(ALICE))
    assert shown(timelines, ALICE) == [4, 3, 2, 1]
    assert given_ids.tolist() == [3, 2, 1]
    assert timelines.count() == 1


def test_a_timeline_that_was_read_does_not_change_later(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, ids(2, 1))
    before = timelines.read(ALICE)
    push_all(timelines, range(1000), ALICE)
    assert before is not None
    assert before.ids.tolist() == [2, 1]


# --- repetition ----------------------------------------------------------------------------------------


def test_a_post_that_is_pushed_again_is_there_again(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, ids(2, 1))
    for post in (3, 4, 3, 1):
        timelines.push(post, ids(ALICE))
    assert shown(timelines, ALICE) == [1, 3, 4, 3, 2, 1]


def test_repeated_posts_count_towards_the_cap(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, np.arange(500, 0, -1))
    for _ in range(499):
        timelines.push(7, ids(ALICE))
    assert shown(timelines, ALICE) == [7] * 499 + [500]
    assert floor(timelines, ALICE) == 499


# --- many users ----------------------------------------------------------------------------------------


def test_a_push_to_no_users_does_nothing(timelines: BlockingTimelines) -> None:
    assert timelines.push(1, ids()) == 0


def test_a_push_reaches_every_user_of_a_large_store(
    compared: Engine, tmp_path: Path, clock: FakeClock, run: Run
) -> None:
    assert compared.timelines
    chosen = np.random.default_rng(3)
    users = np.unique(chosen.integers(0, 2**63 - 1, 40_000))
    strangers = chosen.integers(0, 2**63 - 1, 10_000)

    async def pushed(store: TimelineStore) -> None:
        async def give(user: int) -> None:
            await store.put(user, ids(), await store.begin(user))

        async def check(user: int) -> None:
            timeline = await store.read(user)
            assert timeline is not None
            assert timeline.ids.tolist() == [7]

        async def each(do: Callable[[int], Awaitable[None]]) -> None:
            for start in range(0, len(users), 50):
                await asyncio.gather(*map(do, users[start : start + 50].tolist()))

        await each(give)
        assert await store.push(7, chosen.permutation(np.concatenate([users, strangers]))) == len(users)
        await each(check)
        assert await store.count() == len(users)

    with compared.timelines(tmp_path, slots=50_000, now_ms=clock) as opened:
        run(pushed(opened))


# --- slots --------------------------------------------------------------------------------------------


def test_the_timeline_read_longest_ago_makes_room(timelines: BlockingTimelines, clock: FakeClock) -> None:
    for user in (ALICE, BOB, CAROL):
        timelines.put(user, ids(user))
        clock.ms += 1
    timelines.touch(ALICE)
    clock.ms += 1
    timelines.put(BOB, ids(BOB))  # counts as a read
    timelines.push(9, ids(CAROL))  # is not a read
    clock.ms += 1
    timelines.put(DANA, ids(4))
    assert [shown(timelines, user) for user in (ALICE, BOB, CAROL, DANA)] == [[ALICE], [BOB], None, [4]]
    assert timelines.count() == SLOTS


def test_a_reused_slot_shows_nothing_of_its_earlier_user(timelines: BlockingTimelines) -> None:
    for user in (ALICE, BOB, CAROL):
        timelines.put(user, np.arange(500))
    assert timelines.drop(BOB)
    assert shown(timelines, BOB) is None
    timelines.put(DANA, ids(1))
    timelines.push(2, ids(BOB, DANA))
    assert shown(timelines, DANA) == [2, 1]
    assert shown(timelines, BOB) is None


def test_timelines_not_read_since_are_evicted(timelines: BlockingTimelines, clock: FakeClock) -> None:
    for user in (ALICE, BOB, CAROL):
        timelines.put(user, ids(user))
        clock.ms += 10
    timelines.touch(ALICE)
    assert timelines.evict(clock.ms - 10) == 1
    assert timelines.evict(clock.ms - 10) == 0
    assert [shown(timelines, user) for user in (ALICE, BOB, CAROL)] == [[ALICE], None, [CAROL]]
    timelines.put(DANA, ids())
    assert timelines.count() == SLOTS


# --- how often they are read, and what they lack -------------------------------------------------------


def test_reads_are_counted_and_fade(timelines: BlockingTimelines, clock: FakeClock) -> None:
    timelines.put(ALICE, ids(1))
    timelines.put(BOB, ids(1))
    for _ in range(10):
        timelines.touch(ALICE)
    timelines.put(ALICE, ids(1, 2))  # does not count as a read
    assert timelines.habits(ids(ALICE, CAROL, BOB)).reads == pytest.approx([11, -1, 1])
    clock.ms += RATE_WINDOW_MS
    assert timelines.habits(ids(ALICE, BOB)).reads == pytest.approx([11 / math.e, 1 / math.e])
    timelines.touch(BOB)
    clock.ms -= 5_000  # a clock that goes back adds no reads
    assert timelines.habits(ids(BOB)).reads == pytest.approx([1 + 1 / math.e], abs=0.05)
    timelines.touch(BOB)
    assert timelines.habits(ids(BOB)).reads == pytest.approx([2 + 1 / math.e], abs=0.1)


@pytest.mark.parametrize("a_week", [2, 20, 500])
def test_evenly_spaced_reads_give_their_rate(timelines: BlockingTimelines, clock: FakeClock, a_week: int) -> None:
    timelines.put(ALICE, ids())
    for _ in range(6 * a_week):
        clock.ms += RATE_WINDOW_MS // a_week
        timelines.touch(ALICE)
    assert timelines.habits(ids(ALICE)).reads[0] == pytest.approx(a_week, rel=0.15, abs=1)


def test_a_timeline_knows_the_lowest_rate_that_was_withheld_since_it_was_put(timelines: BlockingTimelines) -> None:
    assert withheld_rate_min(timelines, ALICE) == 0
    for user in (ALICE, BOB):
        timelines.put(user, ids(1))
    assert withheld_rate_min(timelines, ALICE) == RATE_MAX
    for rate in (64, 8, 16):
        timelines.withhold(rate, ids(ALICE, CAROL))
    timelines.withhold(1, ids())
    assert [withheld_rate_min(timelines, user) for user in (ALICE, BOB, CAROL)] == [8, RATE_MAX, 0]
    assert timelines.habits(ids(CAROL, BOB, ALICE)).withheld_rate_min.tolist() == [0, RATE_MAX, 8]
    assert shown(timelines, ALICE) == [1]
    timelines.put(ALICE, ids(2, 1))
    assert withheld_rate_min(timelines, ALICE) == RATE_MAX


def test_a_reused_slot_does_not_inherit_the_withheld_rate_or_reads(timelines: BlockingTimelines) -> None:
    for user in (ALICE, BOB, CAROL):
        timelines.put(user, ids(user))
        timelines.touch(user)
        timelines.withhold(8, ids(user))
    timelines.drop(BOB)
    assert withheld_rate_min(timelines, BOB) == 0
    timelines.put(DANA, ids(1))
    assert withheld_rate_min(timelines, DANA) == RATE_MAX
    assert timelines.habits(ids(DANA)).reads == pytest.approx([1])


# --- timelines that are being built --------------------------------------------------------------------


def test_posts_pushed_during_a_build_come_before_the_built_ones(timelines: BlockingTimelines) -> None:
    epoch = timelines.begin(ALICE)
    push_all(timelines, (5, 7), ALICE)
    assert shown(timelines, ALICE) is None
    assert timelines.push(6, ids(BOB, ALICE)) == 0, "no timeline has the post yet"
    assert timelines.end(ALICE, ids(5, 4), epoch)
    assert shown(timelines, ALICE) == [6, 7, 5, 5, 4]
    push_all(timelines, (8,), ALICE)
    assert shown(timelines, ALICE) == [8, 6, 7, 5, 5, 4]


def test_a_timeline_gets_pushes_while_its_replacement_is_built(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, ids(1))
    epoch = timelines.begin(ALICE)
    assert timelines.push(2, ids(ALICE)) == 1
    assert shown(timelines, ALICE) == [2, 1]
    assert timelines.end(ALICE, ids(1), epoch)
    assert shown(timelines, ALICE) == [2, 1]


def test_a_timeline_lacks_posts_that_were_withheld_during_its_build(timelines: BlockingTimelines) -> None:
    epoch = timelines.begin(ALICE)
    for rate in (64, 8, 16):
        timelines.withhold(rate, ids(BOB, ALICE))
    assert timelines.end(ALICE, ids(1), epoch)
    assert withheld_rate_min(timelines, ALICE) == 8


@pytest.mark.parametrize("had", [True, False], ids=["had one", "had none"])
def test_a_timeline_dropped_during_its_build_is_not_put(timelines: BlockingTimelines, had: bool) -> None:
    if had:
        timelines.put(ALICE, ids(1))
    epoch = timelines.begin(ALICE)
    assert timelines.drop(BOB, ALICE) == had
    assert not timelines.end(ALICE, ids(3, 2), epoch)
    assert shown(timelines, ALICE) is None
    timelines.put(ALICE, ids(3, 2))
    assert shown(timelines, ALICE) == [3, 2]


def test_after_a_clear_no_earlier_build_is_put(timelines: BlockingTimelines) -> None:
    timelines.put(ALICE, ids(1))
    epoch = timelines.begin(BOB)
    timelines.clear()
    assert not timelines.end(BOB, ids(3, 2), epoch)
    assert (timelines.count(), shown(timelines, ALICE)) == (0, None)


def test_of_two_builds_of_the_same_timeline_the_later_one_is_put(timelines: BlockingTimelines) -> None:
    first = timelines.begin(ALICE)
    push_all(timelines, (5,), ALICE)
    later = timelines.begin(ALICE)
    push_all(timelines, (6,), ALICE)
    assert not timelines.end(ALICE, ids(1), first)
    assert timelines.end(ALICE, ids(5, 1), later)
    assert shown(timelines, ALICE) == [6, 5, 1]
    assert not timelines.end(ALICE, ids(9), later), "the build has ended already"


def test_a_build_survives_the_eviction_of_the_earlier_timeline(timelines: BlockingTimelines, clock: FakeClock) -> None:
    timelines.put(ALICE, ids(1))
    epoch = timelines.begin(ALICE)
    for user in (BOB, CAROL, DANA):
        clock.ms += 1
        timelines.put(user, ids())
    assert shown(timelines, ALICE) is None
    push_all(timelines, (5,), ALICE)
    clock.ms += 1
    assert timelines.end(ALICE, ids(1), epoch)
    assert shown(timelines, ALICE) == [5, 1]


def test_a_build_with_too_many_pushes_is_dropped_and_no_post_is_lost(timelines: BlockingTimelines) -> None:
    epoch = timelines.begin(ALICE)
    push_all(timelines, range(BUILD_PUSHES), ALICE)
    assert timelines.end(ALICE, np.arange(1000, 0, -1), epoch)
    assert len(shown(timelines, ALICE) or ()) == 500
    assert floor(timelines, ALICE) == 1000 - (500 - BUILD_PUSHES)
    epoch = timelines.begin(ALICE)
    push_all(timelines, range(2_000, 2_001 + BUILD_PUSHES), ALICE)
    assert not timelines.end(ALICE, ids(1), epoch)
    assert (shown(timelines, ALICE) or ())[0] == 2_000 + BUILD_PUSHES


def test_two_writers_of_the_same_timelines_lose_no_push(
    engine: Engine, tmp_path: Path, clock: FakeClock, timelines: BlockingTimelines, run: Run
) -> None:
    if not engine.keeps:
        pytest.skip("timelines are in the memory of one writer")
    assert engine.timelines
    with engine.timelines(tmp_path / "timelines", slots=SLOTS, now_ms=clock) as opened:
        other_writer = BlockingTimelines(opened, run)
        epoch = other_writer.begin(BOB)
        timelines.put(ALICE, ids(1))
        for post in range(2, 40):
            (timelines, other_writer)[post % 2].push(post, ids(ALICE, BOB, CAROL)[: 1 if post > 20 else 3])
        assert shown(timelines, ALICE) == shown(other_writer, ALICE) == [*range(39, 0, -1)]
        assert other_writer.end(BOB, ids(1), epoch)
        assert shown(timelines, BOB) == [*range(20, 0, -1)]
        other_writer.put(CAROL, ids(3))
        timelines.put(DANA, ids(4))
        assert [shown(store, DANA) for store in (timelines, other_writer)] == [[4], [4]]
        assert timelines.count() == other_writer.count() == SLOTS
        epoch = timelines.begin(BOB)
        other_writer.drop(BOB)
        assert not timelines.end(BOB, ids(2), epoch)
