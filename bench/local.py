"""The embedded engine in process: checks, pages, intersections, import, bytes per edge, growth."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from bench import peers
from bench.figures import Data, Figure, Silent, generated, imported, pairs_of, real_graph, with_peer
from kith.commands.edges import import_edges, summary
from kith.core.paging import Window
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.ordered_lists import OrderedLists
from kith.graph.programs import Evaluator, parse
from kith.graph.shapes import Listing
from kith.run.config import Settings
from kith.run.opening.wiring import open_graph

_LIST = 1_000_000
_GROWTH = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)


def _with_service(settings: Settings, work: Callable[[Graph], Awaitable[list[Figure]]]) -> list[Figure]:
    async def run() -> list[Figure]:
        async with open_graph(settings) as service:
            return await work(service)

    return asyncio.run(run())


def check_local(folder: Path) -> list[Figure]:
    """Checks in batches of 1,000 in one read transaction each; beside them SQLite."""
    data = real_graph(folder)
    pairs = pairs_of(data, 200_000)

    async def work(service: Graph) -> list[Figure]:
        rate = await _check_rate(service, pairs)
        figure = Figure("check-local", rate, "checks/s", ">= 1,000,000", data=data.says)
        return [with_peer(figure, "SQLite, in process, prepared", peers.sqlite_checks(folder, data, pairs))]

    return _with_service(imported(folder, data), work)


async def _check_rate(service: Graph, pairs: list[tuple[int, int]], batch_size: int = 1000) -> float:
    """Checks a second: the median of five rounds over all pairs."""
    graph = service.graphs.number("follows")
    batches = [pairs[at : at + batch_size] for at in range(0, len(pairs), batch_size)]
    rates = []
    for _ in range(5):
        started = time.perf_counter()
        for batch in batches:
            await service.store.exists_many(graph, batch)
        rates.append(len(pairs) / (time.perf_counter() - started))
    return float(np.median(rates))


def _celebrity(folder: Path) -> tuple[Data, Settings]:
    data = generated(folder, 1_200_000, 5_000_000, {"dana": _LIST, "carol": 10_000})
    return data, imported(folder, data)


def page(folder: Path) -> list[Figure]:
    """Pages of 20 followers at random depths of a list of 1 M."""
    data, settings = _celebrity(folder)

    async def work(service: Graph) -> list[Figure]:
        listing = Listing(service.graphs.number("follows"), 1, Direction.IN)
        everyone = (await service.store.page(listing, Window(1))).items
        position = everyone[0].position
        chosen, took = random.Random(3), []
        for _ in range(5_000):
            mark = type(everyone[0])(position, chosen.randrange(1_200_000))
            started = time.perf_counter()
            found = await service.store.page(listing, Window(20, after=mark))
            took.append(time.perf_counter() - started)
            assert found.items or mark.id < 1000
        p50, p99 = np.percentile(took, [50, 99]) * 1000
        says = f"{data.says}, one with {_LIST:,} followers"
        return [
            Figure("page", float(p99), "ms p99", "< 1", data=says),
            Figure("page-p50", float(p50), "ms p50", "", data=says),
        ]

    return _with_service(settings, work)


def intersect(folder: Path) -> list[Figure]:
    """10 K followers intersected with 1 M: the first page of 20, and the count; beside them Redis SINTER and ZINTER."""
    data, settings = _celebrity(folder)

    async def work(service: Graph) -> list[Figure]:
        both = [{"graph": "follows", "node": node, "direction": "in"} for node in (2, 1)]
        program = parse({"intersect": both}, service.graphs.number)
        took: list[float] = []
        lists = OrderedLists(service.store)
        for _ in range(50):
            started = time.perf_counter()
            found = (await Evaluator(service.store, lists).page(program, None, 21)).ids
            took.append(time.perf_counter() - started)
        assert len(found) == 21
        started = time.perf_counter()
        count = await Evaluator(service.store, lists).count(program)
        counted = time.perf_counter() - started
        says = f"{data.says}, 10,000 with {_LIST:,} followers, {count:,} in both"
        whole = Figure("intersect-count", counted * 1000, "ms", "", data=says)
        return [
            Figure("intersect", float(np.median(took)) * 1000, "ms", "< 5", data=says),
            with_peer(whole, "Redis SINTERCARD", peers.redis_intersection(folder, data), lower_is_better=True),
        ]

    return _with_service(settings, work)


def program_pages(folder: Path) -> list[Figure]:
    """Pages of 20 of 1 M followers minus 10 K of another user, in CPU time: in sequence, and at random depths."""
    data, settings = _celebrity(folder)

    async def work(service: Graph) -> list[Figure]:
        less = [{"graph": "follows", "node": node, "direction": "in"} for node in (1, 2)]
        program = parse({"difference": less}, service.graphs.number)
        lists = OrderedLists(service.store)

        async def timed(beyond: int | None) -> tuple[float, int]:
            started = time.process_time()
            found = await Evaluator(service.store, lists).page(program, beyond, 21)
            assert len(found.ids) == 21
            return 1000 * (time.process_time() - started), int(found.ids[19])

        beyond, rows = None, []
        for _ in range(2_000):
            took, beyond = await timed(beyond)
            rows.append(took)
        chosen = random.Random(4)
        anew = []
        for _ in range(20):
            lists = OrderedLists(service.store)
            anew.append((await timed(chosen.randrange(10_000, 1_000_000)))[0])
        says = f"{data.says}, {_LIST:,} followers less 10,000"
        return [
            Figure("program-pages", float(np.mean(rows)), "ms a page", "", data=f"{says}; 2,000 pages in a row"),
            Figure("program-pages-p50", float(np.median(rows)), "ms p50", "", data=says),
            Figure("program-pages-anew", float(np.median(anew)), "ms", "", data=f"{says}; at a random depth"),
        ]

    return _with_service(settings, work)


def import_file(folder: Path) -> list[Figure]:
    """Import a real graph by the sorted path, in a process of its own, to know its peak memory."""
    data = real_graph(folder)
    rate, peak_mb = _import_apart(data, folder / "import")
    large = generated(folder, 457_000, 14_000_000)
    large_rate, large_mb = _import_apart(large, folder / "import-large")
    return [
        Figure("import", rate, "edges/s", ">= 300,000", data=data.says),
        Figure("import-large", large_rate, "edges/s", ">= 300,000", data=large.says),
        Figure("import-memory", large_mb / peak_mb, "times the memory for 16 times the edges", "flat", data=large.says),
        Figure("import-memory-peak", large_mb, "MB", "", data=large.says),
    ]


# Measures private memory (RssAnon), without mapped pages of files, which the kernel may take back at any time.
_IMPORT = """
import re, sys, threading, time
from pathlib import Path
from typing import NamedTuple
from bench.figures import Silent
from kith.commands.edges import import_edges
from kith.run.config import Settings
peak = 0
def watch():
    global peak
    while True:
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
started = time.perf_counter()
done = import_edges(Settings(data=sys.argv[2]), "follows", Path(sys.argv[1]), Silent())
print(done.applied / (time.perf_counter() - started), peak / 1024)
"""


def _import_apart(data: Data, folder: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", _IMPORT, str(data.file), str(folder)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    rate, peak_mb = answer.stdout.split()
    return float(rate), float(peak_mb)


def store_size(folder: Path) -> list[Figure]:
    """Bytes per edge of the whole data folder after an import, and after as many random single writes."""
    data = real_graph(folder)
    settings = msgspec.structs.replace(imported(folder, data), data=str(folder / "size"))
    edges = import_edges(settings, "follows", data.file, Silent()).applied
    after_import = _folder_bytes(Path(settings.data)) / edges

    async def work(service: Graph) -> list[Figure]:
        graph, chosen = service.graphs.number("follows"), random.Random(5)
        people = 82_168

        async def one_by_one(count: int) -> None:
            for _ in range(count):
                source, destination = chosen.randrange(people), chosen.randrange(people)
                if source != destination:
                    edge = service.edge_now(graph, source, destination, State.NORMAL)  # type: ignore[arg-type]
                    await service.store.apply([EdgeWrite(edge)])

        await asyncio.gather(*(one_by_one(edges // 64) for _ in range(64)))
        return []

    _with_service(settings, work)
    total = summary(settings, "follows")["edges"]
    after_writes = _folder_bytes(Path(settings.data)) / total
    says = f"{data.says}; then {total - edges:,} random single writes"
    return [
        Figure("store-size", after_import, "bytes/edge", "<= 80", data=data.says),
        Figure("store-size-after-writes", after_writes, "bytes/edge", "<= 120", data=says),
    ]


def _folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def growth(folder: Path) -> list[Figure]:
    """The cost of a check from 1 M to 100 M edges, as a curve (bench/results/growth.png).

    Single checks, each in its own read transaction as in the API; and batches of 1,000 in one transaction.
    """
    most = int(os.environ.get("KITH_BENCH_GROWTH_MAX", _GROWTH[-1]))
    points: list[Point] = []
    for edges in [size for size in _GROWTH if size <= most]:
        data = generated(folder, edges // 33, edges)
        settings = imported(folder, data)
        pairs = pairs_sampled(data, edges)
        data.file.unlink()

        async def work(service: Graph, pairs: list[tuple[int, int]] = pairs) -> list[Figure]:
            return [Figure("", await _check_rate(service, pairs, size), "", "") for size in (1, 1000)]

        single, batched = (1e9 / figure.value for figure in _with_service(settings, work))
        points.append(Point(edges, single, batched))
        print(f"growth: {edges:,} edges, {single:.0f} ns a check, {batched:.0f} ns in batches", file=sys.stderr)
    _draw(points)
    first, last = points[0], points[-1]
    says = f"generated, {first.edges:,} to {last.edges:,} edges; in ns: "
    return [
        Figure(
            "growth", last.single / first.single, "times the cost", "<= 2",
            data=says + ", ".join(f"{point.single:.0f}" for point in points),
        ),
        Figure(
            "growth-batch", last.batched / first.batched, "times the cost", "",
            data=says + ", ".join(f"{point.batched:.0f}" for point in points),
        ),
    ]  # fmt: skip


class Point(NamedTuple):
    """The cost of a check at one size of the graph, in ns."""

    edges: int
    single: float
    batched: float


def pairs_sampled(data: Data, edges: int) -> list[tuple[int, int]]:
    """200,000 pairs of a large file, half of them edges, without reading it into memory."""
    return pairs_of(data, 200_000) if edges <= 3_000_000 else _pairs_streamed(data, edges)


def _pairs_streamed(data: Data, edges: int) -> list[tuple[int, int]]:
    from kith.commands.transfer.formats import read

    chosen, kept = np.random.default_rng(7), []
    for chunk in read(data.file):
        kept.append(chunk.edges[chosen.random(len(chunk.edges)) < 100_000 / edges, :2])
    present = np.concatenate(kept)
    absent = np.column_stack([chosen.permutation(present[:, 0]), chosen.permutation(present[:, 1])])
    pairs = chosen.permutation(np.concatenate([present, absent]))
    return [(int(source), int(destination)) for source, destination in pairs]


def _draw(points: list[Point]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), dpi=110)
    edges = [point.edges for point in points]
    axes.plot(edges, [point.single for point in points], marker="o", label="single, a transaction each")
    axes.plot(edges, [point.batched for point in points], marker="s", label="batches of 1,000")
    axes.legend()
    axes.set(xscale="log", xlabel="edges in the graph", ylabel="ns a check", ylim=(0, None), title="Cost of a check")
    axes.grid(alpha=0.3)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(results / "growth.png")
