"""Which users an API process reports to activity, and how often."""

from __future__ import annotations

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run
from reference_activity import ReferenceActivity

from kith.core.errors import StoreUnavailable
from kith.notifications.activity import SEEN_STEP_MS
from kith.notifications.presence import ONLINE_MS, Presence

ALL = np.array([ALICE, BOB, CAROL], np.int64)


class CountedActivity(ReferenceActivity):
    """Counts its writes."""

    writes = 0

    async def seen(self, users: np.ndarray, at_ms: int) -> None:  # type: ignore[type-arg]
        self.writes += 1
        await super().seen(users, at_ms)

    async def set_online(self, process: str, users: np.ndarray, until_ms: int) -> None:  # type: ignore[type-arg]
        self.writes += 1
        await super().set_online(process, users, until_ms)


def test_a_user_with_a_stream_is_online_until_it_is_closed_or_the_process_is_gone(run: Run) -> None:
    activity, clock, connected = ReferenceActivity(), FakeClock(), {ALICE}
    presence = Presence(activity, "one", lambda: connected, clock)

    def online() -> list[bool]:
        return run(activity.online(ALL, clock.ms)).tolist()

    run(presence.report())
    assert online() == [True, False, False]
    connected.add(CAROL)
    connected.remove(ALICE)
    run(presence.report())
    assert online() == [False, False, True]
    for _ in range(5):
        clock.ms += ONLINE_MS * 3 // 4
        run(presence.report())
        assert online() == [False, False, True]
    clock.ms += ONLINE_MS
    assert online() == [False, False, False], "the process reported nothing for that long"


def test_users_who_came_are_reported_together_once_a_minute(run: Run) -> None:
    activity, clock = CountedActivity(), FakeClock(1_700_000_040_000)
    presence = Presence(activity, "one", set, clock)
    presence.note(ALICE)
    run(presence.report())
    for _ in range(10):
        presence.note(BOB)
        clock.ms += 1_000
        run(presence.report())
    assert activity.writes == 1
    clock.ms += SEEN_STEP_MS
    run(presence.report())
    assert activity.writes == 2
    minute = 1_700_000_040_000
    assert run(activity.last_seen(ALL)).tolist() == [minute, minute + SEEN_STEP_MS, 0]


def test_nothing_is_written_while_nobody_is_there(run: Run) -> None:
    activity, clock = CountedActivity(), FakeClock()
    presence = Presence(activity, "one", set, clock)
    for _ in range(5):
        clock.ms += ONLINE_MS
        run(presence.report())
    assert activity.writes == 0


def test_users_seen_while_the_store_was_away_are_reported_later(run: Run) -> None:
    class Away(ReferenceActivity):
        is_away = True

        async def seen(self, users: np.ndarray, at_ms: int) -> None:  # type: ignore[type-arg]
            if self.is_away:
                raise StoreUnavailable("not now")
            await super().seen(users, at_ms)

    activity, clock = Away(), FakeClock()
    presence = Presence(activity, "one", set, clock)
    presence.note(ALICE)
    with pytest.raises(StoreUnavailable):
        run(presence.report())
    activity.is_away = False
    run(presence.report())
    assert run(activity.last_seen(ALL)).tolist()[0] > 0
