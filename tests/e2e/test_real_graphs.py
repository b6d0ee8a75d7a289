"""Real graphs are imported and exported whole: each count of each node equals what NumPy counts in the file.

The data sets are not part of the project. They are read from the folder KITH_DATA_SETS, by default `../shared/data`
beside the project.
"""

from __future__ import annotations

import asyncio
import gzip
import lzma
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from kith.boards.reconciler import FollowReconciler
from kith.commands.edges import export_edges, import_edges, import_pins
from kith.commands.transfer.pins import board_of, post_of
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.shapes import Listing
from kith.run.audits import audit_edges
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.opening.stores import OpenStores
from kith.run.opening.wiring import open_stores
from kith.run.services import Services, open_services

FOLDER = Path(os.environ.get("KITH_DATA_SETS") or Path(__file__).parents[3] / "shared" / "data")
Rows = NDArray[np.int64]


class RealGraph(NamedTuple):
    """A data set: its file, the graph it goes into, and the figures that its source gives."""

    file: str
    graph: str
    edges: int
    refused: int = 0
    mutual: bool = False
    top_followers: int = 0  # followers of the most followed node, if the source gives it


SLASHDOT = RealGraph("slashdot/follows.txt.gz", "follows", edges=870_161, refused=78_303, top_followers=2_552)
HIGGS = RealGraph("higgs/follows-slice.edgelist.gz", "follows", edges=355_060, refused=14)
GITHUB = RealGraph("github/mutual-follows.csv.gz", "follows", edges=578_006, mutual=True, top_followers=9_458)
NOSTR = RealGraph("nostr/follows.txt.gz", "follows", edges=215_216)
NOSTR_MUTES = RealGraph("nostr/mutes.txt.gz", "mutes", edges=1_792)
GRAPHS = {"slashdot": SLASHDOT, "higgs": HIGGS, "github": GITHUB, "nostr": NOSTR, "nostr-mutes": NOSTR_MUTES}


class Quiet:
    """Progress that is not shown."""

    def reading(self, bytes_read: int, rows: int) -> None: ...

    def writing(self, rows_done: int, rows: int) -> None: ...


def path_of(real: RealGraph) -> Path:
    """The path of the file. Skips the test if the file is absent."""
    path = FOLDER / real.file
    if not path.exists():
        pytest.skip(f"no data set {real.file} in {FOLDER}: name their folder in KITH_DATA_SETS")
    return path


def numbers_of(text: str) -> Rows:
    """The integers in a text, separated by commas or white space."""
    return np.fromstring(text.replace(",", " "), np.int64, sep=" ")


def straight_from(real: RealGraph) -> Rows:
    """The distinct edges of a file, read by NumPy alone."""
    lines = gzip.decompress(path_of(real).read_bytes()).decode().splitlines()
    plain = [line for line in lines if line[:1].isdigit()]
    rows = numbers_of(" ".join(plain)).reshape(len(plain), -1)[:, :2]
    rows = rows[rows[:, 0] != rows[:, 1]]
    if real.mutual:
        rows = np.concatenate([rows, rows[:, ::-1]])
    return np.unique(rows, axis=0)


def with_service(set_to: Settings, job: Any) -> Any:
    """The result of `job(graph)`."""
    return with_parts(set_to, lambda stores: job(stores.graph))


def with_parts(set_to: Settings, job: Any) -> Any:
    """The result of `job(stores)`."""

    async def run() -> Any:
        async with open_stores(set_to, "chore", create=False) as stores:
            return await job(stores)

    return asyncio.run(run())


async def counts_of(service: Graph, graph: str, nodes: list[int]) -> dict[Direction, list[int]]:
    """The stored counts of the nodes, in both directions."""
    number = service.graphs.number(graph)
    return {
        direction: await service.store.count_many([Listing(number, node, direction) for node in nodes])
        for direction in Direction
    }


async def positions_of(service: Graph, graph: str, pairs: list[tuple[int, int]]) -> list[int | None]:
    """The position of each live edge; None where there is none."""
    number, found = service.graphs.number(graph), []
    for start in range(0, len(pairs), 10_000):
        found += await service.store.get_many(number, pairs[start : start + 10_000])
    return [edge.position if edge is not None and edge.state is State.NORMAL else None for edge in found]


def audited(set_to: Settings) -> tuple[bool, int]:
    """Whether every graph is clean, and the number of edges checked."""
    audits = audit_edges(set_to, repair=False, sample=1.0, progress=lambda _: None)
    return all(found.clean for found in audits), sum(found.edges for found in audits)


def exported(set_to: Settings, graph: str, path: Path) -> Rows:
    """The edges of a graph by `kith export`, sorted."""
    count, *_ = export_edges(set_to, graph, path, lambda _: None)
    rows = numbers_of(gzip.decompress(path.read_bytes()).decode()).reshape(-1, 3)
    assert len(rows) == count
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


@pytest.fixture(params=GRAPHS)
def real(request: pytest.FixtureRequest) -> RealGraph:
    """Each real graph in turn."""
    return GRAPHS[request.param]


@pytest.mark.slow
def test_a_real_graph_is_imported_counted_audited_and_exported_whole(tmp_path: Path, real: RealGraph) -> None:
    path, rows = path_of(real), straight_from(real)
    set_to = Settings(data=str(tmp_path / "data"), durability="relaxed")
    done = import_edges(set_to, real.graph, path, Quiet(), mutual=real.mutual)
    assert (done.way, done.applied, done.refused) == ("bulk", real.edges, real.refused)
    assert len(rows) == real.edges

    nodes = np.unique(rows)
    beyond = int(nodes[-1]) + 1
    counts = with_service(set_to, lambda service: counts_of(service, real.graph, [*nodes.tolist(), beyond]))
    for direction in Direction:
        real_counts = np.bincount(np.searchsorted(nodes, rows[:, direction]), minlength=len(nodes))
        assert counts[direction] == [*real_counts.tolist(), 0]
    if real.top_followers:
        assert max(counts[Direction.IN]) == real.top_followers

    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        auditing = beside.submit(audited, set_to)
        out = exported(set_to, real.graph, tmp_path / "out.csv.gz")
        assert auditing.result() == (True, real.edges)
    assert np.array_equal(out[:, :2], rows)
    again = Settings(data=str(tmp_path / "again"), durability="relaxed")
    assert import_edges(again, real.graph, tmp_path / "out.csv.gz", Quiet()).applied == real.edges
    pairs = [(source, destination) for source, destination in rows.tolist()]
    positions = with_service(again, lambda service: positions_of(service, real.graph, pairs))
    assert np.array_equal(np.array(positions), out[:, 2])


def test_nostr_follows_and_mutes_are_merged_into_one_store_in_use(tmp_path: Path) -> None:
    """The fast test of this file: real mutes, merged into a store that holds real follows."""
    set_to = Settings(data=str(tmp_path / "data"), durability="relaxed")
    for real in (NOSTR, NOSTR_MUTES):
        done = import_edges(set_to, real.graph, path_of(real), Quiet())
        assert (done.applied, done.refused) == (real.edges, 0)
    muted = straight_from(NOSTR_MUTES)
    muter, target = (NodeId(node) for node in muted[0].tolist())

    async def ask(stores: OpenStores) -> tuple[list[bool], bool, int]:
        service, reconciler = stores.graph, FollowReconciler(stores.graph, stores.records)
        pairs = [tuple(pair) for pair in muted.tolist()]
        found = await service.store.exists_many(service.graphs.number("mutes"), pairs)
        (relationship,) = await wiring.relations(Settings(), service, reconciler).relationships(muter, [target])
        (edge,) = await service.store.get_many(service.graphs.number("mutes"), [(muter, target)])
        assert edge is not None
        assert edge.state is State.NORMAL
        return found, relationship.muting, edge.position

    found, muting, position = with_parts(set_to, ask)
    assert all(found)
    assert muting
    lines = gzip.decompress(path_of(NOSTR_MUTES).read_bytes()).decode().splitlines()
    assert f"{muter} {target} {position}" in lines


def test_importing_a_real_graph_a_second_time_changes_nothing(tmp_path: Path) -> None:
    set_to = Settings(data=str(tmp_path / "data"), durability="relaxed")
    path = path_of(NOSTR_MUTES)
    assert import_edges(set_to, "mutes", path, Quiet()).applied == NOSTR_MUTES.edges
    before = exported(set_to, "mutes", tmp_path / "before.csv.gz")
    done = import_edges(set_to, "mutes", path, Quiet())
    assert (done.way, done.applied) == ("merge", 0)
    assert np.array_equal(exported(set_to, "mutes", tmp_path / "after.csv.gz"), before)


@pytest.mark.slow
def test_real_pins_are_served_and_every_count_is_that_of_the_file(tmp_path: Path) -> None:
    path = FOLDER / "pins" / "train.txt.xz"
    if not path.exists():
        pytest.skip(f"no pins in {FOLDER}: name the folder of data sets in KITH_DATA_SETS")
    lines = [list(map(int, line.split())) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]
    wanted = {board_of(user): {post_of(item) for item in items} for user, *items in lines}
    set_to = Settings(data=str(tmp_path / "data"), durability="relaxed")
    done = import_pins(set_to, path, Quiet())
    assert (done.way, done.applied, done.refused) == ("bulk", sum(map(len, wanted.values())), 0)

    async def ask(kith: Services) -> None:
        boards, number = list(wanted), kith.stores.graph.graphs.number
        for start in range(0, len(boards), 10_000):
            some = boards[start : start + 10_000]
            assert await kith.pins.counts(some) == [len(wanted[board]) for board in some]
            seen = await kith.boards.visible(None, some)
            assert [board.owner for board in seen if board is not None] == [row[0] for row in lines[start:][:10_000]]
        board = max(boards, key=lambda one: len(wanted[one]))
        shown, _ = await kith.pins.of_board(None, board, Window(len(wanted[board])))
        assert {post.id for post in shown} == wanted[board]
        items = Counter(post for posts in wanted.values() for post in posts)
        pinned = [Listing(number("pins"), post, Direction.IN) for post in items]
        assert await kith.stores.store.count_many(pinned) == list(items.values())
        first = {post_of(item): user for user, *row in reversed(lines) for item in row}
        authors = [post.author for post in await kith.posts.read(list(first)) if post is not None]
        assert authors == list(first.values())

    async def run() -> None:
        async with open_services(set_to) as kith:
            await ask(kith)

    asyncio.run(run())
