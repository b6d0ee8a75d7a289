"""Every TimelineStore lists the users who have a timeline, however many there are."""

from __future__ import annotations

from pathlib import Path

from blocking_timelines import BlockingTimelines
from cast import FakeClock
from coroutines import Run
from engines import Engine
from timeline_helpers import ids

from kith.core.ids import ID_MAX

PORT = "timelines"


def test_every_user_with_a_timeline_is_listed_once(engine: Engine, tmp_path: Path, clock: FakeClock, run: Run) -> None:
    assert engine.timelines
    with engine.timelines(tmp_path / "timelines", slots=100_000, now_ms=clock) as opened:
        timelines, users = BlockingTimelines(opened, run), {*range(2_500), 2**53 + 1, ID_MAX}

        async def listed() -> list[int]:
            return [user async for page in opened.users() for user in page]

        assert run(listed()) == []
        for user in users:
            timelines.put(user, ids(1))
        timelines.drop(7)
        assert sorted(run(listed())) == sorted(users - {7})
