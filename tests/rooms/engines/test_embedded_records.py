"""What the embedded records, suggestions and timelines do beyond their ports: they expire rows, and fail as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from blocking_timelines import BlockingTimelines
from cast import ALICE, BOB, START_MS, FakeClock
from coroutines import Run
from edges import edge_of, writes_of
from embedded_engine import open_embedded, open_embedded_stores

from kith.core.clock import hlc_of
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.suggestion_store import EmbeddedSuggestions
from kith.engines.embedded.timeline_store import RingTimelines
from kith.records.store import Claim, Record, RecordKind
from kith.suggestions.store import RankingRow

LATER = START_MS + 3_600_000
RECORD = Record(RecordKind.POST, 7, hlc_of(START_MS), b"data")
CLAIM = Claim(b"k" * 16, b"first", START_MS, 3_600_000)
FOLLOW = writes_of(edge_of(ALICE, BOB))


def test_expired_claims_are_removed_by_the_next_ones(run: Run, tmp_path: Path) -> None:
    with Environment(tmp_path, durability="relaxed") as environment:
        commits = CommitQueue(environment)
        objects = EmbeddedRecords(environment, commits)
        for number in range(200):
            run(objects.put([], claim=Claim(b"%016d" % number, b"v", START_MS + number * 10, 100)))
        with environment.lmdb.begin(environment.records) as txn:
            assert txn.stat(environment.records)["entries"] == 2 * 10
        commits.close()


def test_a_put_that_fails_half_way_leaves_neither_record_nor_edge(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one transaction: a put that stops before its commit has written nothing."""
    with open_embedded_stores(tmp_path) as stores:
        run(stores.edges.declare(["follows"]))

        def fail(*_: object) -> None:
            raise RuntimeError("gone")

        with monkeypatch.context() as patched:
            patched.setattr("kith.engines.embedded.record_store.apply_all", fail)
            with pytest.raises(RuntimeError, match="gone"):
                run(stores.records.put([RECORD], FOLLOW, claim=CLAIM))
        assert run(stores.records.get_many(RecordKind.POST, [7])) == [None]
        assert run(stores.records.put([], claim=CLAIM._replace(value=b"again"))).stored


@pytest.fixture
def suggestions(tmp_path: Path) -> Iterator[tuple[Environment, EmbeddedSuggestions]]:
    with open_embedded(tmp_path / "data") as (environment, store):
        yield environment, EmbeddedSuggestions(environment, store._commits)


def rows_of(environment: Environment) -> int:
    """Rows and expiry rows together."""
    with environment.lmdb.begin() as txn:
        return int(txn.stat(environment.suggestions)["entries"])


def test_the_embedded_store_holds_few_rows_beyond_live_ones(
    run: Run, suggestions: tuple[Environment, EmbeddedSuggestions]
) -> None:
    """However many users ask once, expired rows go as new ones come, and no row leaves its expiry row behind."""
    opened, store = suggestions
    for user in range(300):
        now = START_MS + user * 1_000
        run(store.put_many([RankingRow(user, now + 10_000, b"x" * 100)], now))
        assert rows_of(opened) <= 2 * 12
    for _ in range(20):
        run(store.put_many([RankingRow(ALICE, LATER, b"again")], START_MS))
    assert run(store.get(299)) is not None
    assert rows_of(opened) <= 2 * 13


def test_reads_are_counted_up_to_a_bound(tmp_path: Path, clock: FakeClock) -> None:
    with RingTimelines(tmp_path, slots=1, now_ms=clock) as opened:
        timelines = BlockingTimelines(opened)
        timelines.put(ALICE, np.array([], np.int64))
        for _ in range(70_000):
            timelines.touch(ALICE)
        assert timelines.habits(np.array([ALICE])).reads[0] == pytest.approx(65_536, rel=0.001)
        assert timelines.evict(clock.ms) == 0
        assert timelines.evict(clock.ms + 1) == 1
