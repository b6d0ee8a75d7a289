"""What every InboxStore must do, as `notifications.inbox.InboxStore` promises."""

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
    """The id of a notice that was created `ms` after START_MS."""
    return (START_MS + ms - EPOCH_MS) << TIME_SHIFT | number


WEEK = period_of(at(0))
EDGES = [base_of(week) + aside for week in (WEEK - 1, WEEK, WEEK + 1) for aside in (-1, 0, 1)]
NOTICES = [0, 1, *EDGES, at(0), at(1), at(1, 1), at(5 * PERIOD_MS), ID_MAX]


def users_of(*users: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(users, np.int64)


def test_rows_are_read_newest_first_by_their_user_alone(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.add([InboxRow(ALICE, at(1)), InboxRow(BOB, at(2)), InboxRow(ALICE, at(3)), InboxRow(ALICE, at(2))]))
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(3), at(2), at(1)]
    assert run(inboxes.page(BOB, limit=FEW)) == [at(2)]
    assert run(inboxes.page(CAROL, limit=FEW)) == []


def test_a_row_is_reported_as_new_once_however_it_is_written(run: Run, inboxes: InboxStore) -> None:
    row = InboxRow(ALICE, at(1))
    assert run(inboxes.add([row, InboxRow(BOB, at(1)), row])) == [True, True, False]
    assert run(inboxes.add_for_all(at(1), users_of(ALICE, BOB, CAROL))) == 1
    assert run(inboxes.add_for_all(at(1), users_of(ALICE, CAROL))) == 0
    assert run(inboxes.add([InboxRow(CAROL, at(1))])) == [False]
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(1)]


def test_adding_rows_for_no_users_does_nothing(run: Run, inboxes: InboxStore) -> None:
    assert run(inboxes.add([])) == []
    assert run(inboxes.add_for_all(at(1), users_of())) == 0
    assert run(inboxes.holding(at(1), users_of())).tolist() == []


def test_rows_can_be_put_without_learning_which_are_new(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.put([]))
    rows = [InboxRow(ALICE, at(1)), InboxRow(BOB, at(2)), InboxRow(ALICE, at(5 * PERIOD_MS)), InboxRow(ALICE, at(1))]
    run(inboxes.put(rows))
    run(inboxes.put(rows[:2]))
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(5 * PERIOD_MS), at(1)]
    assert run(inboxes.add(rows[:2])) == [False, False]
    with pytest.raises(BatchTooLarge):
        run(inboxes.put([InboxRow(ALICE, at(1))] * (ADDED_MAX + 1)))


@pytest.mark.parametrize("user", USERS)
def test_any_user_can_hold_any_notice(run: Run, inboxes: InboxStore, user: int) -> None:
    rows = [InboxRow(user, notice) for notice in NOTICES]
    assert run(inboxes.add(rows)) == [True] * len(rows)
    assert run(inboxes.page(user, limit=PAGE_MAX)) == sorted(NOTICES, reverse=True)
    for holder in USERS:
        if holder != user:
            assert run(inboxes.page(holder, limit=FEW)) == []


@pytest.mark.parametrize("notice", NOTICES)
def test_one_notice_can_be_added_for_all_users(run: Run, inboxes: InboxStore, notice: int) -> None:
    assert run(inboxes.add_for_all(notice, users_of(*USERS))) == len(USERS)
    assert run(inboxes.holding(notice, users_of(*USERS))).all()
    for user in USERS:
        assert run(inboxes.page(user, limit=FEW)) == [notice]


def test_more_rows_than_fit_one_commit_are_all_stored(run: Run, inboxes: InboxStore) -> None:
    users = np.arange(0, 300_000, 3, dtype=np.int64)
    assert run(inboxes.add_for_all(at(1), users)) == len(users)
    assert run(inboxes.add_for_all(at(1), users + 1)) == len(users)
    assert run(inboxes.add_for_all(at(1), users)) == 0
    assert run(inboxes.holding(at(1), np.arange(6, dtype=np.int64))).tolist() == [True, True, False] * 2
    assert run(inboxes.page(299_997, limit=FEW)) == [at(1)]


def test_pages_go_both_ways_across_weeks(run: Run, inboxes: InboxStore) -> None:
    notices = [at(day * 86_400_000) for day in range(40)]
    run(inboxes.add([InboxRow(user, notice) for user in (ALICE, BOB) for notice in notices]))
    newest_first: list[int] = []
    for _ in range(6):
        newest_first += run(inboxes.page(ALICE, before=newest_first[-1] if newest_first else None, limit=7))
    assert newest_first == notices[::-1]
    oldest_first: list[int] = []
    for _ in range(6):
        oldest_first = run(inboxes.page(ALICE, after=oldest_first[0] if oldest_first else -1, limit=7)) + oldest_first
    assert oldest_first == notices[::-1]
    between = run(inboxes.page(ALICE, before=notices[30], after=notices[10], limit=5))
    assert between == notices[25:30][::-1]
    assert run(inboxes.page(ALICE, before=notices[11], after=notices[10], limit=5)) == []


def test_holding_answers_in_the_order_of_the_users(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.add_for_all(at(1), users_of(ALICE, CAROL)))
    assert run(inboxes.holding(at(1), users_of(ALICE, BOB, CAROL, DANA))).tolist() == [True, False, True, False]
    assert run(inboxes.holding(at(1), users_of(DANA, CAROL, ALICE))).tolist() == [False, True, True]
    assert not run(inboxes.holding(at(2), users_of(ALICE))).any()
    assert not run(inboxes.holding(at(9 * PERIOD_MS), users_of(ALICE))).any()


def test_removed_rows_are_gone_and_can_be_added_again(run: Run, inboxes: InboxStore) -> None:
    run(inboxes.add([InboxRow(user, at(ms)) for user in (ALICE, BOB) for ms in (1, 2, PERIOD_MS)]))
    run(inboxes.remove(ALICE, [at(1), at(7), at(PERIOD_MS), at(9 * PERIOD_MS)]))
    assert run(inboxes.page(ALICE, limit=FEW)) == [at(2)]
    assert run(inboxes.page(BOB, limit=FEW)) == [at(PERIOD_MS), at(2), at(1)]
    assert run(inboxes.add([InboxRow(ALICE, at(1))])) == [True]


@pytest.mark.parametrize("user", USERS)
def test_all_rows_of_a_user_are_removed_and_no_others(run: Run, inboxes: InboxStore, user: int) -> None:
    run(inboxes.add([InboxRow(holder, at(ms)) for holder in USERS for ms in (1, 2, 2 * PERIOD_MS)]))
    run(inboxes.remove_all(user))
    assert [len(run(inboxes.page(holder, limit=FEW))) for holder in USERS] == [
        0 if holder == user else 3 for holder in USERS
    ]


def test_expired_periods_are_deleted_whole(run: Run, inboxes: InboxStore) -> None:
    weeks = [base_of(WEEK + week) for week in range(4)]
    run(inboxes.add([InboxRow(ALICE, notice) for notice in weeks]))
    over_ms = (WEEK + 2) * PERIOD_MS
    assert run(inboxes.expire(over_ms - 1)) == 1  # the period of the second notice has not ended yet
    assert run(inboxes.page(ALICE, limit=FEW)) == weeks[:0:-1]
    assert run(inboxes.expire(over_ms)) == 1
    assert run(inboxes.expire(over_ms)) == 0
    assert run(inboxes.page(ALICE, limit=FEW)) == weeks[:1:-1]
    assert not run(inboxes.holding(weeks[0], users_of(ALICE))).any()
    assert run(inboxes.add([InboxRow(ALICE, weeks[3])])) == [False]


def test_too_large_pages_and_batches_are_refused(run: Run, inboxes: InboxStore) -> None:
    with pytest.raises(BatchTooLarge):
        run(inboxes.page(ALICE, limit=PAGE_MAX + 1))
    with pytest.raises(BatchTooLarge):
        run(inboxes.add_for_all(at(1), np.arange(ADDED_MAX + 1, dtype=np.int64)))
    with pytest.raises(BatchTooLarge):
        run(inboxes.add([InboxRow(ALICE, at(1))] * (ADDED_MAX + 1)))


def test_rows_are_there_after_the_store_is_reopened(run: Run, lasting: Engine, tmp_path: Path) -> None:
    assert lasting.inboxes
    with lasting.inboxes(tmp_path / "data") as store:
        run(store.add([InboxRow(user, at(ms)) for user in (ALICE, ID_MAX) for ms in (1, PERIOD_MS)]))
    with lasting.inboxes(tmp_path / "data") as store:
        assert run(store.page(ALICE, limit=FEW)) == run(store.page(ID_MAX, limit=FEW)) == [at(PERIOD_MS), at(1)]
        assert run(store.add([InboxRow(ALICE, at(1))])) == [False]


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_any_history_reads_like_the_reference(run: Run, compared: Engine, seed: int) -> None:
    assert compared.inboxes
    reference = ReferenceInboxes()
    with in_new_folder(compared.inboxes) as store:
        for step in range(30):
            answers = [
                run(one_call(store_called, random.Random(f"{seed} {step}"))) for store_called in (store, reference)
            ]
            assert answers[0] == answers[1]
            pages = [
                run(one_page(store_called, random.Random(f"{seed} {step}"))) for store_called in (store, reference)
            ]
            assert pages[0] == pages[1]


async def one_call(store: InboxStore, chance: random.Random) -> object:
    """Make a random change; returns its answer."""
    user, notice = chance.choice(USERS), chance.choice(NOTICES)
    match chance.randrange(7):
        case 6:
            return await store.put([InboxRow(chance.choice(USERS), chance.choice(NOTICES)) for _ in range(4)])
        case 0 | 1:
            return await store.add([InboxRow(chance.choice(USERS), chance.choice(NOTICES)) for _ in range(4)])
        case 2:
            return await store.add_for_all(
                notice, users_of(*sorted(chance.sample(USERS, chance.randrange(len(USERS)))))
            )
        case 3:
            return await store.remove(user, chance.sample(NOTICES, 3))
        case 4:
            return await store.remove_all(user)
        case _:
            return await store.expire((WEEK + chance.randrange(-1, 3)) * PERIOD_MS) * 0  # counts empty weeks, too


async def one_page(store: InboxStore, chance: random.Random) -> object:
    """Read a random page, and which users hold a random notice."""
    before, after = chance.choice([None, *NOTICES]), chance.choice([None, *NOTICES])
    is_held = await store.holding(chance.choice(NOTICES), users_of(*USERS))
    page = await store.page(chance.choice(USERS), before=before, after=after, limit=chance.choice([1, 2, FEW]))
    return page, is_held.tolist()
