"""What every Activity must do, as `notifications.activity.Activity` promises."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run
from engines import Engine
from reference_activity import ReferenceActivity

from kith.core.errors import BatchTooLarge
from kith.notifications.activity import LOOKUP_USERS_MAX, SEEN_STEP_MS, Activity, Users

PORT = "activity"
MINUTE = START_MS // SEEN_STEP_MS * SEEN_STEP_MS


def users(*ids: int) -> Users:
    return np.array(ids, np.int64)


def test_users_were_last_seen_at_their_latest_minute(run: Run, activity: Activity) -> None:
    run(activity.seen(users(ALICE, BOB, DANA), MINUTE + 1))
    run(activity.seen(users(ALICE), MINUTE + SEEN_STEP_MS + 5))
    run(activity.seen(users(BOB), MINUTE - SEEN_STEP_MS))
    minutes = run(activity.last_seen(users(DANA, ALICE, CAROL, BOB))).tolist()
    assert minutes == [MINUTE, MINUTE + SEEN_STEP_MS, 0, MINUTE]


def test_a_query_of_a_hundred_thousand_users_equals_the_reference(run: Run, activity: Activity) -> None:
    chance, reference = np.random.default_rng(13), ReferenceActivity()
    for minute in range(5):
        seen_users = np.unique(np.append(chance.integers(0, 200_000, 20_000), chance.integers(0, 2**62, 50)))
        for store in (activity, reference):
            run(store.seen(seen_users, MINUTE + minute * SEEN_STEP_MS))
        queried = chance.permutation(np.append(seen_users, chance.integers(0, 200_000, 80_000)))
        assert (run(activity.last_seen(queried)) == run(reference.last_seen(queried))).all()


def test_users_with_a_stream_in_any_process_are_online_until_it_ends(run: Run, activity: Activity) -> None:
    ask = users(DANA, ALICE, BOB, CAROL)
    assert not run(activity.online(ask, MINUTE)).any()
    far = 4 * START_MS  # far ahead, because the engine uses the real clock
    run(activity.set_online("one", users(BOB, ALICE), far))
    run(activity.set_online("two", users(DANA, ALICE), far + 9))
    assert run(activity.online(ask, MINUTE)).tolist() == [True, True, True, False]
    assert run(activity.online(ask, far + 8)).tolist() == [True, True, False, False]
    run(activity.set_online("two", users(), far + 9))
    assert run(activity.online(ask, MINUTE)).tolist() == [False, True, True, False]


def test_pages_of_online_users_list_each_user_once(run: Run, activity: Activity) -> None:
    far = 4 * START_MS
    ids = np.unique(np.random.default_rng(5).integers(0, 2**62, 1_000))
    for name, users_of_process in (("one", ids[::2]), ("two", ids[::3]), ("three", ids[1::2])):
        run(activity.set_online(name, users_of_process, far))
    run(activity.set_online("ended", users(ALICE), MINUTE))
    listed, after = list[int](), -1
    for _ in range(100):
        page = run(activity.online_page(after, 13, MINUTE + 1)).tolist()
        if not page:
            break
        assert len(page) <= 13
        listed, after = listed + page, page[-1]
    assert listed == ids.tolist()
    assert run(activity.online_page(-1, 13, far)).tolist() == []
    with pytest.raises(BatchTooLarge):
        run(activity.online_page(-1, LOOKUP_USERS_MAX + 1, MINUTE))


def test_users_of_a_process_that_stopped_reporting_are_offline(run: Run, activity: Activity) -> None:
    run(activity.set_online("ended", users(ALICE), MINUTE))
    run(activity.set_online("other", users(BOB), MINUTE + 10))
    assert run(activity.online(users(ALICE, BOB), MINUTE + 1)).tolist() == [False, True]


def test_a_query_of_too_many_users_is_refused(run: Run, activity: Activity) -> None:
    with pytest.raises(BatchTooLarge):
        run(activity.last_seen(np.arange(LOOKUP_USERS_MAX + 1, dtype=np.int64)))


def test_another_process_sees_what_one_reported(run: Run, lasting: Engine, tmp_path: Path) -> None:
    assert lasting.activity
    chance = random.Random(5)
    reported = np.array(sorted(chance.sample(range(10_000), 50)), np.int64)
    with lasting.activity(tmp_path / "data") as store:
        run(store.seen(reported, MINUTE))
        run(store.set_online("one", reported, 4 * START_MS))
    with lasting.activity(tmp_path / "data") as store:
        assert run(store.last_seen(reported)).tolist() == [MINUTE] * 50
        assert run(store.online(reported, MINUTE)).all()
