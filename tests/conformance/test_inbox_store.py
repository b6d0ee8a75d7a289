"""What every engine that keeps inboxes must do, in the words of `notifications.inbox.InboxStore`."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run
from engines import Engine, in_new_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_inbox import ReferenceInboxes

from kith.core.errors import BatchTooLarge
from kith.core.ids import EPOCH_MS, ID_MAX, TIME_SHIFT
from kith.notifications.inbox import ADDED_MAX, PAGE_MAX, PERIOD_MS, InboxRow, InboxStore, base_of, period_of

PORT = "inboxes"
FEW = 10
USERS = [0, ALICE, BOB, 4_095, 4_096, 4_097, (1 << 40) - 1, 1 << 40, (1 << 60) - 1, 1 << 60, (1 << 60) + 1, ID_MAX]


def at(ms: int, number: int = 0) -> int:
    """The id of a notice that was made then."""
    return (START_MS + ms - EPOCH_MS) << TIME_SHIFT | number


WEEK = period_of(at(0))
EDGES = [base_of(week) + aside for week in (WEEK - 1, WEEK, WEEK + 1) for aside in (-1, 0, 1)]
NOTICES = [0, 1, *EDGES, at(0), at(1), at(1, 1), at(5 * PERIOD_MS), ID_MAX]


def told(*users: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(users, np.int64)


def test_rows_are_read_newest_first_by_their_user_alone(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.add([InboxRow(ALICE, at(1)), InboxRow(BOB, at(2)), InboxRow(ALICE, at(3)), InboxRow(ALICE, at(2))]))
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(3), at(2), at(1)]
    assert run(inboxes.page(BOB, limit=FEW)) == [at(2)]
    assert run(inboxes.page(CAROL, limit=FEW)) == []


def test_a_row_is_new_once_however_it_is_written(run: Run, inboxes: InboxStore) -> None:
    row = InboxRow(ALICE, at(1))
    assert run(inboxes.add([row, InboxRow(BOB, at(1)), row])) == [True, True, False]
    assert run(inboxes.add_for_all(at(1), told(ALICE, BOB, CAROL))) == 1
    assert run(inboxes.add_for_all(at(1), told(ALICE, CAROL))) == 0
    assert run(inboxes.add([InboxRow(CAROL, at(1))])) == [False]
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(1)]


def test_nothing_is_added_to_nobody(run: Run, inboxes: InboxStore) -> None:
    assert run(inboxes.add([])) == []
    assert run(inboxes.add_for_all(at(1), told())) == 0
    assert run(inboxes.holding(at(1), told())).tolist() == []


def test_rows_are_put_without_asking_which_are_new(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.put([]))
    rows = [InboxRow(ALICE, at(1)), InboxRow(BOB, at(2)), InboxRow(ALICE, at(5 * PERIOD_MS)), InboxRow(ALICE, at(1))]
    run(inboxes.put(rows))
    run(inboxes.put(rows[:2]))
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(5 * PERIOD_MS), at(1)]
    assert run(inboxes.add(rows[:2])) == [False, False]
    with pytest.raises(BatchTooLarge):
        run(inboxes.put([InboxRow(ALICE, at(1))] * (ADDED_MAX + 1)))


@pytest.mark.parametrize("user", USERS)
def test_any_user_is_told_of_any_notice(run: Run, inboxes: InboxStore, user: int) -> None:
    rows = [InboxRow(user, notice) for notice in NOTICES]
    assert run(inboxes.add(rows)) == [True] * len(rows)
    assert run(inboxes.page(user, limit=PAGE_MAX)) == sorted(NOTICES, reverse=True)
    for other in USERS:
        if other != user:
            assert run(inboxes.page(other, limit=FEW)) == []


@pytest.mark.parametrize("notice", NOTICES)
def test_all_users_are_told_of_one_notice(run: Run, inboxes: InboxStore, notice: int) -> None:
    assert run(inboxes.add_for_all(notice, told(*USERS))) == len(USERS)
    assert run(inboxes.holding(notice, told(*USERS))).all()
    for user in USERS:
        assert run(inboxes.page(user, limit=FEW)) == [notice]


def test_more_rows_than_one_commit_takes_are_all_there(run: Run, inboxes: InboxStore) -> None:
    users = np.arange(0, 300_000, 3, dtype=np.int64)
    assert run(inboxes.add_for_all(at(1), users)) == len(users)
    assert run(inboxes.add_for_all(at(1), users + 1)) == len(users)
    assert run(inboxes.add_for_all(at(1), users)) == 0
    assert run(inboxes.holding(at(1), np.arange(6, dtype=np.int64))).tolist() == [True, True, False] * 2
    assert run(inboxes.page(299_997, limit=FEW)) == [at(1)]


def test_pages_go_both_ways_over_weeks(run: Run, inboxes: InboxStore) -> None:
    notices = [at(day * 86_400_000) for day in range(40)]
    run(inboxes.add([InboxRow(user, notice) for user in (ALICE, BOB) for notice in notices]))
    down: list[int] = []
    for _ in range(6):
        down += run(inboxes.page(ALICE, before=down[-1] if down else None, limit=7))
    assert down == notices[::-1]
    up: list[int] = []
    for _ in range(6):
        up = run(inboxes.page(ALICE, after=up[0] if up else -1, limit=7)) + up
    assert up == notices[::-1]
    between = run(inboxes.page(ALICE, before=notices[30], after=notices[10], limit=5))
    assert between == notices[25:30][::-1]
    assert run(inboxes.page(ALICE, before=notices[11], after=notices[10], limit=5)) == []


def test_holding_is_told_in_the_order_of_the_users(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.add_for_all(at(1), told(ALICE, CAROL)))
    assert run(inboxes.holding(at(1), told(ALICE, BOB, CAROL, DANA))).tolist() == [True, False, True, False]
    assert run(inboxes.holding(at(1), told(DANA, CAROL, ALICE))).tolist() == [False, True, True]
    assert not run(inboxes.holding(at(2), told(ALICE))).any()
    assert not run(inboxes.holding(at(9 * PERIOD_MS), told(ALICE))).any()


def test_removed_rows_are_gone_and_may_come_back(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.add([InboxRow(user, at(ms)) for user in (ALICE, BOB) for ms in (1, 2, PERIOD_MS)]))
    run(inboxes.remove(ALICE, [at(1), at(7), at(PERIOD_MS), at(9 * PERIOD_MS)]))
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(2)]
    assert run(inboxes.page(BOB, limit=FEW)) == [at(PERIOD_MS), at(2), at(1)]
    assert run(inboxes.add([InboxRow(ALICE, at(1))])) == [True]


@pytest.mark.parametrize("user", USERS)
def test_all_rows_of_a_user_are_removed_and_no_others(run: Run, inboxes: InboxStore, user: int) -> None:
    run(inboxes.add([InboxRow(one, at(ms)) for one in USERS for ms in (1, 2, 2 * PERIOD_MS)]))
    run(inboxes.remove_all(user))
    assert [len(run(inboxes.page(one, limit=FEW))) for one in USERS] == [0 if one == user else 3 for one in USERS]


def test_periods_that_are_over_are_forgotten_whole(run: Run, inboxes: InboxStore) -> None:
    weeks = [base_of(WEEK + week) for week in range(4)]
    run(inboxes.add([InboxRow(ALICE, notice) for notice in weeks]))
    over_ms = (WEEK + 2) * PERIOD_MS
    assert run(inboxes.expire(over_ms - 1)) == 1  # that of the second is not over yet
    assert run(inboxes.page(ALICE, limit=FEW)) == weeks[:0:-1]
    assert run(inboxes.expire(over_ms)) == 1
    assert run(inboxes.expire(over_ms)) == 0
    assert run(inboxes.page(ALICE, limit=FEW)) == weeks[:1:-1]
    assert not run(inboxes.holding(weeks[0], told(ALICE))).any()
    assert run(inboxes.add([InboxRow(ALICE, weeks[3])])) == [False]


def test_what_is_too_large_is_refused(run: Run, inboxes: InboxStore) -> None:
    with pytest.raises(BatchTooLarge):
        run(inboxes.page(ALICE, limit=PAGE_MAX + 1))
    with pytest.raises(BatchTooLarge):
        run(inboxes.add_for_all(at(1), np.arange(ADDED_MAX + 1, dtype=np.int64)))
    with pytest.raises(BatchTooLarge):
        run(inboxes.add([InboxRow(ALICE, at(1))] * (ADDED_MAX + 1)))


def test_rows_are_there_when_the_store_is_opened_again(run: Run, lasting: Engine, tmp_path: Path) -> None:
    assert lasting.inboxes
    with lasting.inboxes(tmp_path / "data") as store:
        run(store.add([InboxRow(user, at(ms)) for user in (ALICE, ID_MAX) for ms in (1, PERIOD_MS)]))
    with lasting.inboxes(tmp_path / "data") as store:
        assert run(store.page(ALICE, limit=FEW)) == run(store.page(ID_MAX, limit=FEW)) == [at(PERIOD_MS), at(1)]
        assert run(store.add([InboxRow(ALICE, at(1))])) == [False]


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_any_history_reads_as_the_reference_reads(run: Run, compared: Engine, seed: int) -> None:
    assert compared.inboxes
    reference = ReferenceInboxes()
    with in_new_folder(compared.inboxes) as store:
        for step in range(30):
            answers = [run(one_call(one, random.Random(f"{seed} {step}"))) for one in (store, reference)]
            assert answers[0] == answers[1]
            pages = [run(one_page(one, random.Random(f"{seed} {step}"))) for one in (store, reference)]
            assert pages[0] == pages[1]


async def one_call(store: InboxStore, chance: random.Random) -> object:
    """Some change; what it answers."""
    user, notice = chance.choice(USERS), chance.choice(NOTICES)
    match chance.randrange(7):
        case 6:
            return await store.put([InboxRow(chance.choice(USERS), chance.choice(NOTICES)) for _ in range(4)])
        case 0 | 1:
            return await store.add([InboxRow(chance.choice(USERS), chance.choice(NOTICES)) for _ in range(4)])
        case 2:
            return await store.add_for_all(notice, told(*sorted(chance.sample(USERS, chance.randrange(len(USERS))))))
        case 3:
            return await store.remove(user, chance.sample(NOTICES, 3))
        case 4:
            return await store.remove_all(user)
        case _:
            return await store.expire((WEEK + chance.randrange(-1, 3)) * PERIOD_MS) * 0  # some may be there, and empty


async def one_page(store: InboxStore, chance: random.Random) -> object:
    """Some page, and who of all holds some notice."""
    before, after = chance.choice([None, *NOTICES]), chance.choice([None, *NOTICES])
    holding = await store.holding(chance.choice(NOTICES), told(*USERS))
    page = await store.page(chance.choice(USERS), before=before, after=after, limit=chance.choice([1, 2, FEW]))
    return page, holding.tolist()
