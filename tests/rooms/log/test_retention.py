"""The oldest events are dropped by age and size: as others are written, and by age also while nothing is written."""

from __future__ import annotations

from pathlib import Path

from cast import ALICE, START_MS, FakeClock
from coroutines import Run
from edges import edge_of, writes_of
from embedded_engine import open_embedded
from servers import eventually

from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_rows import EVENTS_PER_ROW
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.retention import LogBounds

HOUR_MS = 3_600_000


def log_of(store: EmbeddedEdges) -> EmbeddedLog:
    return EmbeddedLog(store._environment, store._commits)


async def write(store: EmbeddedEdges, first: int, count: int) -> None:
    await store.apply(writes_of(*(edge_of(ALICE, first + at) for at in range(count))))


def test_events_are_forgotten_by_age_as_others_are_written(tmp_path: Path, run: Run) -> None:
    clock = FakeClock(START_MS)
    with open_embedded(tmp_path, log_bounds=LogBounds(age_ms_max=24 * HOUR_MS), now_ms=clock) as (_, store):
        run(store.declare(["follows"]))
        for hour in range(48):
            clock.ms = START_MS + hour * HOUR_MS
            run(write(store, 1_000 * hour, 100))
            first, last = log_of(store).bounds()
            kept_of_hours = min(hour + 1, 24)
            assert last == 100 * (hour + 1)
            assert 100 * kept_of_hours <= last - first + 1 < 100 * kept_of_hours + EVENTS_PER_ROW


def test_events_are_forgotten_by_age_while_nothing_is_written(tmp_path: Path, run: Run) -> None:
    clock = FakeClock(START_MS)
    with open_embedded(tmp_path, log_bounds=LogBounds(age_ms_max=HOUR_MS), now_ms=clock) as (_, store):
        run(store.declare(["follows"]))
        run(write(store, 0, 1_000))
        assert run(log_of(store).lease("away", log_of(store)._positions.of(500)))
        clock.ms += HOUR_MS
        eventually(lambda: log_of(store).bounds()[0] > 500 - EVENTS_PER_ROW)
        assert log_of(store).bounds()[0] <= 501
        run(log_of(store).release("away"))
        clock.ms += HOUR_MS
        eventually(lambda: log_of(store).bounds()[0] > 1_000 - EVENTS_PER_ROW)
        run(write(store, 5_000, 1))
        assert log_of(store).bounds()[1] == 1_001, "numbers continue"
    with Environment(tmp_path) as environment:
        assert environment.graph_numbers() == {"follows": 1}


def test_events_are_forgotten_by_the_size_of_the_log(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path, log_bounds=LogBounds(bytes_max=1 << 16)) as (_, store):
        run(store.declare(["follows"]))
        for at in range(0, 20_000, 500):
            run(write(store, at, 500))
            assert log_of(store).size() <= (1 << 16) + 4 * 4096
        first, last = log_of(store).bounds()
        assert last == 20_000
        assert last - first > 3_000
