"""The log holds every change in order, within its bound, and the whole store can be rebuilt from it."""

from __future__ import annotations

import random
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, DANA, START_MS, FakeClock
from coroutines import Run, run_coroutine
from edges import G, edge_in, edge_of, marks_of, writes_of
from embedded_engine import open_embedded
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_edges import ReferenceEdges

from kith.core.clock import Hlc, HybridClock, hlc_of
from kith.core.events import BULK_LOADED, Event
from kith.core.ids import NodeId
from kith.engines.embedded import event_log
from kith.engines.embedded.changes import edge_changed, record_changed, record_key
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_log import LogWriter
from kith.engines.embedded.event_rows import EVENTS_PER_ROW
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.retention import DEFAULT_BOUNDS, LogBounds, Retention
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import Direction, Edge, Outcome, State
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore
from kith.posts.post import Post, post_record

WORDS = Path(event_log.__file__).read_text().split()
AROUND_ROWS = [0, 1, 27, 28, 29, 55, 56, 57, 100]


def read(environment: Environment, after: int = 0, limit: int = 10**9) -> list[Event]:
    with environment.lmdb.begin() as txn:
        return event_log.read(txn, environment.log, environment.positions, after, limit)


def numbers(environment: Environment, events: list[Event]) -> list[int | None]:
    return [environment.positions.sequence(event.log_position) for event in events]


@pytest.fixture
def opened(embedded: tuple[Environment, EmbeddedEdges], run: Run) -> tuple[Environment, EmbeddedEdges]:
    """An embedded store with one graph."""
    run(embedded[1].declare(["follows"]))
    return embedded


def logged_bytes(environment: Environment, commits: list[list[bytes]]) -> int:
    """Bytes of a new log with these events, in whole pages; each list is a commit of its own, 13 ms apart."""
    for number, events in enumerate(commits):
        with environment.commit() as write:
            writer = LogWriter(write.txn, environment.log, START_MS + 13 * number)
            for event in events:
                writer.append(event)
            writer.flush()
            write.changes = b""
    with environment.lmdb.begin() as txn:
        return Retention(DEFAULT_BOUNDS, environment.log, environment.notes_db).size(txn)


def followed(chosen: random.Random, at_ms: int) -> bytes:
    edge = edge_of(chosen.randrange(330_000), chosen.randrange(330_000), at_ms, version=(at_ms - START_MS) << 16)
    return edge_changed(None, edge)


def test_an_edge_takes_12_bytes_of_the_log_and_a_post_no_more_than_its_record(tmp_path: Path) -> None:
    chosen, edges = random.Random(12), 10_000
    for together in (5, 64):
        commits = range(edges // together)
        follows = [[followed(chosen, START_MS + 13 * number) for _ in range(together)] for number in commits]
        with Environment(tmp_path / f"follows-{together}", durability="relaxed") as environment:
            assert logged_bytes(environment, follows) <= 12 * edges
    posts, records = list[list[bytes]](), 0
    for number in range(300):
        words = " ".join(chosen.choice(WORDS) for _ in range(chosen.randrange(3, 40)))
        at_ms, author = START_MS + 13 * number, chosen.randrange(330_000)
        id_ = at_ms << 22 | chosen.randrange(1 << 22)
        made = Post(id_, author, at_ms, "text", words, None, (), "public", (), (), b"{}")
        record = post_record(made, hlc_of(at_ms))
        edge = Edge(2, NodeId(author), NodeId(id_), State.NORMAL, at_ms, record.updated_at)
        posts.append([record_changed(record), edge_changed(None, edge)])
        records += len(record_key(record.kind, record.id)) + 8 + len(record.data)  # with its version
    with Environment(tmp_path / "posts", durability="relaxed") as environment:
        assert logged_bytes(environment, posts) <= records


@pytest.mark.parametrize("size", AROUND_ROWS)
@pytest.mark.parametrize("batch", [1, 5, 28, 100])
def test_every_change_is_read_back_in_order_from_any_place(
    opened: tuple[Environment, EmbeddedEdges], run: Run, size: int, batch: int
) -> None:
    environment, store = opened
    edges = [edge_of(ALICE, at, at) for at in range(size)]
    for at in range(0, size, batch):
        run(store.apply(writes_of(*edges[at : at + batch])))
    assert EmbeddedLog(store._environment, store._commits).bounds() == (1, size)
    for after, limit in product((0, 1, 26, 27, 28, 29, 56, size - 1, size, size + 1, 10**6), (1, 2, 28, 29, 1000)):
        if after >= 0:
            events = read(environment, after, limit)
            assert [edge_in(event) for event in events] == edges[after : after + limit]
            assert numbers(environment, events) == list(range(after + 1, after + 1 + len(events)))


def test_an_event_tells_the_whole_edge_and_the_state_before(
    opened: tuple[Environment, EmbeddedEdges], run: Run
) -> None:
    environment, store = opened
    edges = [
        edge_of(0, DANA, -(2**63), State.ARCHIVED),
        edge_of(0, DANA, 2**63 - 1, State.REMOVED, 1),
        edge_of(DANA, 0, 5, State.NORMAL, 2),
    ]
    run(store.apply(writes_of(*edges)))
    events = read(environment)
    assert [edge_in(event) for event in events] == edges
    assert [event.before for event in events] == [None, State.ARCHIVED, None]
    assert [(event.graph, event.updated_at) for event in events] == [(G, edge.updated_at) for edge in edges]


def test_writes_that_change_nothing_are_not_logged(opened: tuple[Environment, EmbeddedEdges], run: Run) -> None:
    environment, store = opened
    edge = edge_of(ALICE, BOB)
    run(store.apply(writes_of(edge, edge, edge_of(ALICE, BOB, version=-1))))
    run(store.apply(writes_of(edge)))
    assert [edge_in(event) for event in read(environment)] == [edge]


def test_a_bulk_load_is_one_event_with_its_size(opened: tuple[Environment, EmbeddedEdges], run: Run) -> None:
    environment, store = opened
    load = event_log.bulk_loaded(G, 10**12, Hlc(77))
    run(EmbeddedLog(environment, store._commits).announce(load))
    (event,) = read(environment)
    assert event == msgspec.structs.replace(load, log_position=event.log_position, logged_ms=event.logged_ms)
    assert (event.state, event.source) == (BULK_LOADED, 10**12)


def test_a_refused_transaction_leaves_no_gap(opened: tuple[Environment, EmbeddedEdges], run: Run) -> None:
    environment, store = opened

    def fails(batch: Transaction) -> None:
        batch.log.append(edge_changed(None, edge_of(9, 9)))
        raise ValueError("a job's own fault")

    run(store.apply(writes_of(edge_of(ALICE, BOB))))
    with pytest.raises(ValueError, match="own fault"):
        run(store._commits.run(fails))
    (change,) = run(store.apply(writes_of(edge_of(ALICE, DANA))))
    assert environment.positions.sequence(change.log_position) == 2
    assert numbers(environment, read(environment)) == [1, 2]


@pytest.mark.parametrize(("batch", "events_max"), [(1, 0), (1, 50), (7, 100), (40, 28), (200, 300)])
def test_the_oldest_are_forgotten_beyond_the_bound_and_numbers_keep_growing(
    tmp_path: Path, run: Run, batch: int, events_max: int
) -> None:
    with open_embedded(tmp_path, log_bounds=LogBounds(events_max)) as (environment, store):
        run(store.declare(["follows"]))
        for at in range(0, 1_000, batch):
            run(store.apply(writes_of(*(edge_of(ALICE, other, other) for other in range(at, min(at + batch, 1_000))))))
            first, last = EmbeddedLog(store._environment, store._commits).bounds()
            kept = last - first + 1
            assert kept >= min(events_max, last)
            assert kept <= events_max + 2 * EVENTS_PER_ROW + batch
        assert last == 1_000
        events = read(environment)
        assert numbers(environment, events) == list(range(first, 1_001))
        assert [event.destination for event in events] == list(range(first - 1, 1_000))
        assert numbers(environment, read(environment, first + 3, 2)) == [first + 4, first + 5]


def test_the_log_is_bounded_while_large_commits_keep_coming(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path, log_bounds=LogBounds(1_000)) as (_, store):
        run(store.declare(["follows"]))
        for at in range(0, 20_000, 1_000):
            run(store.apply(writes_of(*(edge_of(at, other) for other in range(1_000)))))
        first, last = EmbeddedLog(store._environment, store._commits).bounds()
    assert last == 20_000
    assert last - first + 1 <= 3_000


def test_a_clock_restored_from_the_log_is_ahead_of_the_newest_version(
    opened: tuple[Environment, EmbeddedEdges], run: Run
) -> None:
    _, store = opened
    run(store.apply(writes_of(edge_of(ALICE, BOB, version=5), edge_of(ALICE, DANA, version=3))))
    clock = HybridClock(FakeClock(START_MS - 3_600_000))
    store.restore_clock(clock)
    assert clock.next() == edge_of(ALICE, BOB, version=6).updated_at


def test_the_newest_version_is_found_behind_many_events_that_came_late(
    opened: tuple[Environment, EmbeddedEdges], run: Run
) -> None:
    _, store = opened
    run(store.apply(writes_of(edge_of(ALICE, BOB, version=5))))
    run(store.apply(writes_of(*(edge_of(ALICE, 10 + at, version=-9) for at in range(1_100)))))
    clock = HybridClock(FakeClock(START_MS - 3_600_000))
    store.restore_clock(clock)
    assert clock.next() > edge_of(ALICE, BOB, version=5).updated_at


def test_a_clock_restored_from_an_empty_log_is_the_machine_clock(opened: tuple[Environment, EmbeddedEdges]) -> None:
    clock = HybridClock(FakeClock())
    opened[1].restore_clock(clock)
    assert clock.next() == edge_of(1, 2).updated_at


# Everything else can be rebuilt from the log

small_edges = st.builds(
    edge_of, st.integers(1, 5), st.integers(1, 5), st.integers(-3, 3), st.sampled_from(State), st.integers(0, 9)
)


async def everything(store: EdgeStore) -> dict[str, Any]:
    listings = [Listing(G, node, end, state) for node, end, state in product(range(1, 6), Direction, State)]
    return {
        "rows": {(ends.edge.source, ends.edge.destination): ends async for chunk in store.edges(G) for ends in chunk},
        "lists": {listing: await marks_of(store, listing) for listing in listings},
        "counts": await store.count_many(listings),
    }


async def replay(store: EdgeStore, edges: list[Edge]) -> dict[str, Any]:
    await store.declare(["follows"])
    for at in range(0, len(edges), 7):
        await store.apply(writes_of(*edges[at : at + 7]))
    return await everything(store)


@settings(max_examples=40)
@given(st.lists(small_edges, min_size=10, max_size=60), st.integers(0, 59), st.randoms(use_true_random=False))
def test_replaying_the_log_makes_the_same_rows_lists_and_counts(
    tmp_path_factory: pytest.TempPathFactory, edges: list[Edge], again_from: int, chance: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with open_embedded(folder / "first") as (environment, store):
        expected = run_coroutine(replay(store, edges))
        logged = [edge_in(event) for event in read(environment)]
    # A consumer that stopped after any event restarts a little earlier.
    delivered = logged[: again_from + 5] + logged[max(0, again_from - 5) :]
    assert run_coroutine(replay(ReferenceEdges(), delivered)) == expected
    chance.shuffle(delivered)
    with open_embedded(folder / "second") as (_, store):
        assert run_coroutine(replay(store, delivered)) == expected


def test_the_state_before_chains_each_edge_to_its_last_event(
    opened: tuple[Environment, EmbeddedEdges], run: Run
) -> None:
    environment, store = opened
    chance = random.Random(8)
    writes = [
        edge_of(chance.randint(1, 3), chance.randint(1, 3), state=chance.choice(list(State)), version=version)
        for version in range(200)
    ]
    changes = run(store.apply(writes_of(*writes)))
    assert all(change.outcome is Outcome.APPLIED for change in changes)
    of_edges: dict[tuple[int, int], list[Event]] = {}
    for event in read(environment):
        of_edges.setdefault((event.source, event.destination), []).append(event)
    for events in of_edges.values():
        assert events[0].before is None
        assert all(late.before == early.state for early, late in pairwise(events))
