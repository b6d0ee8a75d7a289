"""An import leaves what merging its rows one by one would leave, whichever way it takes and however often it runs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from edges import all_pages
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from reference_leases import own_leases

from kith.commands.edges import export_edges, import_edges
from kith.commands.transfer import loading
from kith.commands.transfer.loading import Imported
from kith.commands.transfer.unloading import export
from kith.core.errors import BadRequest, Conflict, KithError, StoreMismatch
from kith.core.ids import NodeId
from kith.engines.embedded import bulk
from kith.engines.embedded.folder_locks import alone
from kith.graph.audit import audit
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.nodes import NodeOperation
from kith.graph.shapes import Listing
from kith.people.removal import account_jobs
from kith.run import folders, supervisor, wiring
from kith.run.config import Settings
from kith.run.wiring import opened_graph

FOLLOWS = "follows"
ALICE, BOB, CAROL, ELSEWHERE = 1, 2, 3, 1 << 61
OLD = 5  # a position before every other


class Silent:
    """Progress that nobody looks at; after `stop_after` calls the process dies."""

    def __init__(self, stop_after: int = 1 << 62) -> None:
        self._left = stop_after

    def _step(self, *_: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed

    reading = writing = _step


class Killed(BaseException):
    """Stands for a kill; real ones are in `fault/test_import_kill.py`."""


class Drawn(NamedTuple):
    """All that can be seen of a graph: edges with their positions, every list, every count."""

    edges: dict[tuple[int, int], tuple[State, int]]
    lists: dict[tuple[int, Direction], list[tuple[int, int]]]
    counts: dict[tuple[int, Direction], int]


@pytest.fixture
def set_to(tmp_path: Path) -> Settings:
    """Settings of an empty folder."""
    return Settings(data=str(tmp_path / "data"), durability="relaxed", graphs=("matches",))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and ranges of a few rows, so that small files make many."""
    monkeypatch.setattr(bulk, "RUN_ROWS", 7)
    monkeypatch.setattr(bulk, "RANGE_ROWS", 10)
    monkeypatch.setattr(loading, "_MERGE_ROWS", 5)


def file_of(folder: Path, rows: Iterable[tuple[int, ...]], name: str = "edges.csv") -> Path:
    """A file with these rows."""
    path = folder / name
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def bring(
    set_to: Settings, path: Path, graph: str = FOLLOWS, *, mutual: bool = False, progress: Silent | None = None
) -> Imported:
    """`kith import edges`."""
    return import_edges(set_to, graph, path, progress or Silent(), mutual=mutual)


def merge(set_to: Settings, path: Path, graph: str = FOLLOWS, *, mutual: bool = False) -> Imported:
    """Import by merging, even into an empty graph."""

    async def run() -> Imported:
        async with opened_graph(set_to) as service:
            report = Path(set_to.data) / "refused.tsv"
            return await loading.load_merging(path, service, graph, report, Silent(), mutual=mutual)

    return asyncio.run(run())


def do(set_to: Settings, *calls: tuple[str, int, int]) -> None:
    """Writes of users: `("follow", ALICE, BOB)`."""

    async def run() -> None:
        async with opened_graph(set_to) as service:
            people = wiring.relations(set_to, service)
            for call, one, other in calls:
                await getattr(people, call)(NodeId(one), NodeId(other))

    asyncio.run(run())


def archive(set_to: Settings, user: int, operation: NodeOperation = NodeOperation.ARCHIVE) -> None:
    """Send a user away, or back, with all edges."""

    async def run() -> None:
        async with opened_graph(set_to) as service:
            jobs = account_jobs(service, own_leases())
            await jobs.start(operation, NodeId(user))
            await jobs.wait()

    asyncio.run(run())


def look(set_to: Settings, graph: str = FOLLOWS) -> Drawn:
    """The graph as it is, audited."""

    async def run() -> Drawn:
        async with opened_graph(set_to) as service:
            return await _look(service, graph)

    return asyncio.run(run())


async def _look(service: Graph, graph: str) -> Drawn:
    number, store = service.graphs.number(graph), service.store
    found = await audit(store, graph, number, settle_s=0)
    assert found.clean, found
    edges = {}
    async for chunk in store.edges(number):
        for ends in chunk:
            edges[int(ends.edge.source), int(ends.edge.destination)] = (ends.edge.state, ends.edge.position)
    nodes = sorted({node for pair in edges for node in pair})
    lists, counts = {}, {}
    for node in nodes:
        for direction in Direction:
            listing = Listing(number, node, direction)
            lists[node, direction] = [
                tuple(mark) for mark in await all_pages(lambda w, at=listing: store.page(at, w), 50)
            ]
            (counts[node, direction],) = await store.count_many([listing])
            assert counts[node, direction] == len(lists[node, direction])
    return Drawn(edges, lists, counts)


def timeless(graph: Graph, known: Iterable[tuple[int, ...]]) -> Drawn:
    """The graph with positions that an import chose itself as 0: they are its time, in which two imports differ."""
    given_positions = {row[2] for row in known if len(row) == 3}
    edges = {
        pair: (state, position if position in given_positions else 0) for pair, (state, position) in graph.edges.items()
    }
    lists = {
        key: [(at if at in given_positions else 0, other) for at, other in marks] for key, marks in graph.lists.items()
    }
    return Drawn(edges, lists, graph.counts)


def wanted(rows: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[State, int]]:
    """What rows with positions must leave; an edge given twice has its greatest position."""
    edges: dict[tuple[int, int], tuple[State, int]] = {}
    for source, destination, position in rows:
        if source != destination:
            _, before = edges.get((source, destination), (State.NORMAL, position))
            edges[source, destination] = (State.NORMAL, max(before, position))
    return edges


def random_rows(seed: int, count: int, width: int) -> list[tuple[int, ...]]:
    """Rows with many duplicates, a hub, far ids and far positions."""
    chosen = random.Random(seed)
    nodes = [0, *range(1, 12), 1 << 40, ELSEWHERE, (1 << 63) - 1]
    places = [-(2**62), -1, 0, 1, 7, 1 << 47, (1 << 48) - 1, 1 << 48, 2**62]
    return [
        (chosen.choice(nodes), 3 if chosen.random() < 0.4 else chosen.choice(nodes), chosen.choice(places))[:width]
        for _ in range(count)
    ]


# The bulk load leaves what merging leaves


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("mutual", [False, True], ids=["one way", "mutual"])
@pytest.mark.parametrize("width", [2, 3], ids=["without positions", "with positions"])
@pytest.mark.parametrize("seed", range(4))
def test_a_bulk_load_leaves_what_merging_leaves(
    set_to: Settings, tmp_path: Path, seed: int, width: int, mutual: bool
) -> None:
    rows = random_rows(seed, 150, width)
    path = file_of(tmp_path, rows)
    done = bring(set_to, path, mutual=mutual)
    merged = merge(set_to, path, "matches", mutual=mutual)
    assert (done.way, merged.way) == ("bulk", "merge")
    assert (done.rows, done.refused) == (merged.rows, merged.refused)
    loaded, expected = look(set_to), look(set_to, "matches")
    assert timeless(loaded, rows) == timeless(expected, rows)
    assert done.applied == len(loaded.edges)
    if width == 3 and not mutual:
        assert loaded.edges == wanted(rows)  # type: ignore[arg-type]
    assert not list(Path(set_to.data).glob("loading-*"))


@examples(max_examples=12)
@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from([-3, 4, 5, 1 << 50])), max_size=40)
)
@pytest.mark.usefixtures("tiny")
def test_whatever_the_rows_the_greatest_position_of_each_edge_stays(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("import")
    set_to = Settings(data=str(folder / "data"), durability="relaxed", graphs=("matches",))
    path = file_of(folder, rows)
    bring(set_to, path)
    merge(set_to, path, "matches")
    assert look(set_to).edges == look(set_to, "matches").edges == wanted(rows)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "rows",
    [[(ALICE, BOB, OLD), (ALICE, BOB)], [(ALICE, BOB), (ALICE, BOB, OLD)]],
    ids=["position first", "position last"],
)
def test_a_row_without_a_position_beside_one_with_means_the_same_both_ways(
    set_to: Settings, tmp_path: Path, rows: list[tuple[int, ...]]
) -> None:
    path = file_of(tmp_path, rows)
    bring(set_to, path)
    merge(set_to, path, "matches")
    assert timeless(look(set_to), rows) == timeless(look(set_to, "matches"), rows)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("way", [bring, merge])
def test_nobody_is_connected_to_an_archived_user_by_an_import(set_to: Settings, tmp_path: Path, way: object) -> None:
    """An edge added to an archived node is stored archived, and comes back with the node."""
    rows = [(ALICE, BOB, 10), (BOB, CAROL, 20), (ALICE, CAROL, 30)]
    archive(set_to, BOB)
    way(set_to, file_of(tmp_path, rows))  # type: ignore[operator]
    seen = look(set_to)
    assert seen.edges == {
        (ALICE, BOB): (State.ARCHIVED, 10),
        (BOB, CAROL): (State.ARCHIVED, 20),
        (ALICE, CAROL): (State.NORMAL, 30),
    }
    archive(set_to, BOB, NodeOperation.RESTORE)
    assert look(set_to).edges == wanted(rows)


# Into a graph in use


@pytest.mark.usefixtures("tiny")
def test_an_import_into_a_graph_in_use_adds_to_what_is_there(set_to: Settings, tmp_path: Path) -> None:
    do(set_to, ("follow", ALICE, BOB), ("follow", BOB, CAROL), ("unfollow", BOB, CAROL))
    before = look(set_to).edges[ALICE, BOB]
    done = bring(set_to, file_of(tmp_path, [(ALICE, BOB), (BOB, CAROL), (CAROL, ALICE)]))
    assert (done.way, done.applied) == ("merge", 2)
    seen = look(set_to).edges
    assert {pair for pair, (state, _) in seen.items() if state is State.NORMAL} == {
        (ALICE, BOB), (BOB, CAROL), (CAROL, ALICE)
    }  # fmt: skip
    assert seen[ALICE, BOB] == before


@pytest.mark.usefixtures("tiny")
def test_what_a_user_does_after_an_import_wins(set_to: Settings, tmp_path: Path) -> None:
    bring(set_to, file_of(tmp_path, [(ALICE, BOB, 2**62), (ALICE, CAROL)]))
    do(set_to, ("unfollow", ALICE, BOB), ("unfollow", ALICE, CAROL))
    assert {state for state, _ in look(set_to).edges.values()} == {State.REMOVED}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("mutual", [False, True], ids=["one way", "mutual"])
@pytest.mark.parametrize("width", [2, 3], ids=["without positions", "with positions"])
def test_the_same_file_twice_changes_nothing(set_to: Settings, tmp_path: Path, width: int, mutual: bool) -> None:
    rows = list({row[:2]: row for row in random_rows(1, 100, width)}.values())
    if mutual:  # a pair once, so that no edge stands in the file twice
        rows = [row for row in rows if row[0] < row[1]]
    path = file_of(tmp_path, rows)
    bring(set_to, path, mutual=mutual)
    first = look(set_to)
    again = bring(set_to, path, mutual=mutual)
    assert (again.way, again.applied) == ("merge", 0)
    assert look(set_to) == first


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "rows", [[(ALICE, BOB, 9), (ALICE, BOB, 5)], [(ALICE, BOB, 5), (ALICE, BOB, 9)]], ids=["falling", "rising"]
)
def test_a_file_with_an_edge_at_two_positions_changes_nothing_the_second_time(
    set_to: Settings, tmp_path: Path, rows: list[tuple[int, ...]]
) -> None:
    path = file_of(tmp_path, rows)
    bring(set_to, path)
    assert look(set_to).edges == {(ALICE, BOB): (State.NORMAL, 9)}
    assert bring(set_to, path).applied == 0
    assert look(set_to).edges == {(ALICE, BOB): (State.NORMAL, 9)}


@pytest.mark.parametrize("way", [bring, merge])
def test_mutual_makes_edges_both_ways_at_one_position(set_to: Settings, tmp_path: Path, way: object) -> None:
    done = way(set_to, file_of(tmp_path, [(ALICE, BOB, 7), (CAROL, CAROL, 8)]), mutual=True)  # type: ignore[operator]
    assert (done.rows, done.applied, done.refused) == (1, 2, 1)
    assert look(set_to).edges == wanted([(ALICE, BOB, 7), (BOB, ALICE, 7)])


def test_a_folder_that_is_served_takes_the_merge_path(set_to: Settings, tmp_path: Path) -> None:
    supervisor.prepare(set_to)
    with folders.serving(set_to):
        done = bring(set_to, file_of(tmp_path, [(ALICE, BOB, 7)]))
    assert done.way == "merge"
    assert look(set_to).edges == wanted([(ALICE, BOB, 7)])


# Refused lines


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("way", ["bulk", "merge"])
def test_refused_lines_are_counted_and_named_in_the_report(set_to: Settings, tmp_path: Path, way: str) -> None:
    if way == "merge":
        do(set_to, ("follow", 8, 9))
    path = file_of(tmp_path, [("from", "to"), (ALICE, ALICE), (ALICE, BOB), ("x", 1), (-1, 2)])  # type: ignore[list-item]
    done = bring(set_to, path)
    assert (done.way, done.rows, done.refused, done.applied) == (way, 1, 3, 1)
    report = Path(set_to.data) / "imports" / "edges.csv.refused.tsv"
    assert report.read_text() == "2\tself-edge\n4\tnot a number\n5\tid out of range\n"
    bring(set_to, path)
    assert len(report.read_text().splitlines()) == 3


def test_a_missing_file_and_an_unknown_graph_are_refused(set_to: Settings, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="there is no file"):
        bring(set_to, tmp_path / "none.csv")
    with pytest.raises(KithError, match="nobody"):
        bring(set_to, file_of(tmp_path, [(1, 2)]), "nobody")
    do(set_to, ("follow", 8, 9))
    with pytest.raises(KithError, match="nobody"):
        bring(set_to, file_of(tmp_path, [(1, 2)]), "nobody")


@pytest.mark.parametrize("data", ["", "# nothing\n", "5,5\n"], ids=["empty", "a comment", "a self-edge"])
def test_a_file_without_edges_leaves_an_empty_graph(set_to: Settings, tmp_path: Path, data: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(data)
    assert bring(set_to, path).applied == 0
    assert look(set_to).edges == {}
    supervisor.prepare(set_to)


# Cut short


def cut_short(set_to: Settings, path: Path, calls: int, **how: bool) -> None:
    """Start an import that dies when it reports progress for the `calls`-th time."""
    with pytest.raises(Killed):
        bring(set_to, path, progress=Silent(calls), **how)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read 50 bytes at a time."""
    read = loading.read
    monkeypatch.setattr(
        loading, "read", lambda path, skip_lines=0, chunk_bytes=0: read(path, skip_lines=skip_lines, chunk_bytes=50)
    )


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize(
    ("way", "calls"),
    [*(("bulk", calls) for calls in (0, 1, 5, 13, 30, 44, 45, 46, 50, 54, 58)),  # from the 45th on it writes ranges
     *(("merge", calls) for calls in (0, 1, 5, 13, 30, 44))],
)  # fmt: skip
def test_an_import_cut_short_resumes_and_ends_the_same(set_to: Settings, tmp_path: Path, calls: int, way: str) -> None:
    if way == "merge":
        do(set_to, ("follow", 50, 51))
    rows = random_rows(7, 120, 3)
    path = file_of(tmp_path, rows)
    refused = sum(row[0] == row[1] for row in rows)
    cut_short(set_to, path, calls)
    done = bring(set_to, path)
    assert (done.way, done.refused) == (way, refused)
    assert {pair: end for pair, end in look(set_to).edges.items() if pair != (50, 51)} == wanted(rows)  # type: ignore[arg-type]


class Writing(Silent):
    """Keeps what is said of writing."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, int]] = []

    def writing(self, *done_of: int) -> None:
        self.said.append((done_of[0], done_of[1]))


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_a_resumed_import_first_says_what_was_written_before(set_to: Settings, tmp_path: Path) -> None:
    path = file_of(tmp_path, random_rows(7, 120, 3))
    whole = Writing()
    bring(msgspec.structs.replace(set_to, data=str(tmp_path / "whole")), path, progress=whole)
    assert whole.said[0] == (0, whole.said[-1][0])
    cut_short(set_to, path, 54)
    rest = Writing()
    bring(set_to, path, progress=rest)
    assert 0 < rest.said[0][0] < rest.said[-1][0]
    assert rest.said == whole.said[-len(rest.said) :]


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_another_file_must_wait_until_the_first_is_done(set_to: Settings, tmp_path: Path) -> None:
    first, other = file_of(tmp_path, random_rows(1, 100, 3)), file_of(tmp_path, [(1, 2)], "other.csv")
    cut_short(set_to, first, 10)
    with pytest.raises(Conflict, match="another file"):
        bring(set_to, other)
    bring(set_to, first)
    assert bring(set_to, other).way == "merge"


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [0, 10, 50])
def test_a_graph_half_loaded_is_not_served(set_to: Settings, tmp_path: Path, calls: int) -> None:
    path = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, path, calls)
    with pytest.raises(StoreMismatch, match="cut short"):
        supervisor.prepare(set_to)
    bring(set_to, path)
    supervisor.prepare(set_to)


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_a_graph_half_loaded_is_not_served_after_an_import_into_another(set_to: Settings, tmp_path: Path) -> None:
    first = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, first, 50)
    with contextlib.suppress(Conflict):  # to wait for the first one is as good
        bring(set_to, file_of(tmp_path, [(1, 2)], "other.csv"), "matches")
    with pytest.raises(StoreMismatch, match="follows"):
        supervisor.prepare(set_to)
    bring(set_to, first)
    supervisor.prepare(set_to)


@pytest.mark.usefixtures("tiny", "small_chunks")
@pytest.mark.parametrize("calls", [10, 50])
def test_a_graph_half_loaded_takes_no_other_writer(set_to: Settings, tmp_path: Path, calls: int) -> None:
    """A second import must not merge into a graph that the first one is loading in sorted order."""
    path = file_of(tmp_path, random_rows(1, 100, 3))
    cut_short(set_to, path, calls)
    with alone(Path(set_to.data)) as only:  # as the first one holds it
        assert only
        with pytest.raises(KithError):
            bring(set_to, file_of(tmp_path, [(1, 2)], "other.csv"))
    bring(set_to, path)
    look(set_to)


def _die(*_: object, **__: object) -> None:
    raise Killed


@pytest.fixture
def written(
    set_to: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: None, small_chunks: None
) -> list[tuple[int, ...]]:
    """The rows of edges.csv; its load was killed between its last commit and the end of its working folder."""

    rows = random_rows(1, 100, 3)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", _die)
        with pytest.raises(Killed):
            bring(set_to, file_of(tmp_path, rows))
    return rows


ONE_MORE = (ALICE, ELSEWHERE + 5, 1)


@pytest.mark.parametrize("then", ["the same file", "another file", "a server"])
def test_killed_when_all_was_written_a_load_is_done(
    set_to: Settings, tmp_path: Path, written: list[tuple[int, ...]], then: str
) -> None:
    if then == "the same file":
        bring(set_to, tmp_path / "edges.csv")
    elif then == "another file":
        bring(set_to, file_of(tmp_path, [ONE_MORE], "other.csv"))
        written.append(ONE_MORE)
    else:
        supervisor.prepare(set_to)
    assert look(set_to).edges == wanted(written)  # type: ignore[arg-type]


def test_killed_when_all_was_written_an_unfollow_since_then_is_not_undone(
    set_to: Settings, tmp_path: Path, written: list[tuple[int, ...]]
) -> None:
    def removed() -> set[tuple[int, int]]:
        return {pair for pair, (state, _) in look(set_to).edges.items() if state is State.REMOVED}

    do(set_to, ("unfollow", *next(pair for pair in wanted(written))))  # type: ignore[arg-type]
    before = removed()
    assert len(before) == 1
    bring(set_to, file_of(tmp_path, [ONE_MORE], "other.csv"))
    assert removed() == before


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_after_a_damaged_file_the_whole_one_can_be_imported(set_to: Settings, tmp_path: Path) -> None:
    """As the message of the refusal says."""
    rows = [(n, n + 1, n * 7919 % 1_000_003) for n in range(3000)]
    whole = gzip.compress("".join(f"{s},{d},{p}\n" for s, d, p in rows).encode())
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadRequest, match="run again with a whole file"):
        bring(set_to, path)
    path.write_bytes(whole)
    bring(set_to, path)
    assert look(set_to).edges == wanted(rows)


@pytest.mark.usefixtures("tiny", "small_chunks")
def test_lines_refused_before_a_kill_stay_counted_and_reported(set_to: Settings, tmp_path: Path) -> None:
    path = file_of(tmp_path, [(n % 5, n % 7, n) for n in range(200)])
    selves = [n + 1 for n in range(200) if n % 5 == n % 7]
    for calls in (2, 3, 4, 5):
        cut_short(set_to, path, calls)
    assert bring(set_to, path).refused == len(selves)
    report = (Path(set_to.data) / "imports" / "edges.csv.refused.tsv").read_text().splitlines()
    assert sorted({int(line.split("\t")[0]) for line in report}) == selves


# Out again


@pytest.mark.parametrize("name", ["out.csv", "out.ndjson", "out.parquet"])
@pytest.mark.parametrize("way", [bring, merge], ids=["bulk", "merge"])
def test_the_least_position_is_exported_and_imported_as_any_other(
    set_to: Settings, tmp_path: Path, name: str, way: Callable[[Settings, Path], Imported]
) -> None:
    bring(set_to, file_of(tmp_path, [(ALICE, BOB, -(2**63)), (CAROL, BOB, 2**63 - 1), (ALICE, CAROL)]), "matches")
    export_edges(set_to, "matches", tmp_path / name, lambda _: None)
    assert way(set_to, tmp_path / name).refused == 0
    assert look(set_to) == look(set_to, "matches")
    assert look(set_to).edges[ALICE, BOB] == (State.NORMAL, -(2**63))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.ndjson.zst", "out.parquet"])
def test_what_is_exported_is_imported_back_the_same(set_to: Settings, tmp_path: Path, name: str) -> None:
    rows = random_rows(3, 150, 3)
    bring(set_to, file_of(tmp_path, rows))
    count, _ = export_edges(set_to, FOLLOWS, tmp_path / name, lambda _: None)
    assert count == len(wanted(rows))  # type: ignore[arg-type]
    bring(set_to, tmp_path / name, "matches")
    assert look(set_to, "matches") == look(set_to)


def test_only_live_edges_are_exported(set_to: Settings, tmp_path: Path) -> None:
    do(set_to, ("follow", ALICE, BOB), ("follow", ALICE, CAROL), ("unfollow", ALICE, CAROL))
    assert export_edges(set_to, FOLLOWS, tmp_path / "out.csv", lambda _: None).edges == 1
    assert (tmp_path / "out.csv").read_text().startswith(f"{ALICE},{BOB},")


def test_an_export_that_fails_leaves_no_file(set_to: Settings, tmp_path: Path) -> None:
    do(set_to, ("follow", ALICE, BOB))

    async def run() -> None:
        async with opened_graph(set_to) as service:
            await export(service.store, 1, tmp_path / "out.csv", _die)

    with pytest.raises(Killed):
        asyncio.run(run())
    assert not list(tmp_path.glob("out*"))


def test_both_ways_turns_ends_and_keeps_positions() -> None:
    rows = np.array([[1, 2, 7], [3, 4, 8]])
    assert loading.both_ways(rows).tolist() == [[1, 2, 7], [3, 4, 8], [2, 1, 7], [4, 3, 8]]
    assert rows.tolist() == [[1, 2, 7], [3, 4, 8]]
