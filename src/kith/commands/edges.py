"""`kith import edges`, `kith import pins` and `kith export edges`: files into graphs, and a graph into a file.

This module decides whether an import is a bulk load or a merge. `transfer` has formats, resuming and merging.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.progress import Progress as Bars
from rich.progress import TaskID

from kith.access.policy import check_raw_write
from kith.commands import console
from kith.commands.console import Data, out, say
from kith.commands.transfer.exporting import export
from kith.commands.transfer.formats import read
from kith.commands.transfer.loading import (
    ImportProgress,
    ImportResult,
    ReadLines,
    RefusalReport,
    file_fingerprint,
    load_bulk,
    load_merging,
)
from kith.commands.transfer.pins import VERSION, make_boards, read_pins
from kith.core.clock import Hlc, HybridClock
from kith.core.errors import BadRequest, Conflict
from kith.engines.embedded import bulk, edge_scans
from kith.engines.embedded.folder_locks import alone, hold_beside_servers
from kith.graph.edge import Direction, State
from kith.graph.graphs import PINS
from kith.run import config
from kith.run.config import Settings
from kith.run.opening.folders import open_environment
from kith.run.opening.wiring import open_graph, open_stores
from kith.watch.tokens import WatchTokens

importing = typer.Typer(name="import", no_args_is_help=True, help="Import edges or pins.")
exporting = typer.Typer(name="export", no_args_is_help=True, help="Export edges.")
commands = typer.Typer()
commands.add_typer(importing)
commands.add_typer(exporting)
GraphOption = Annotated[str, typer.Option("--graph", help="Name of the graph.")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="File for refused lines.")]


@importing.command("edges")
def run_import(
    file: Annotated[Path, typer.Argument(help="CSV, TSV, NDJSON or Parquet; .gz, .xz and .zst too.")],
    graph: GraphOption = "follows",
    data: Data = None,
    mutual: Annotated[bool, typer.Option("--mutual", help="Each row is an edge in both directions.")] = False,
    report: ReportOption = None,
) -> None:
    """Import a file of edges. If it is interrupted, the same command resumes it.

    Columns: source, destination and, optionally, position. Each row makes a live edge with the time of the import, even
    if that edge was removed before.
    """
    settings = config.load({"data": data})
    with _import_bars(file) as progress:
        result = import_edges(settings, graph, file, progress, report=report, mutual=mutual)
    _say_imported(result, f"edges of {graph}", report or _report_path(settings, file))


@importing.command("pins")
def run_import_pins(
    file: Annotated[Path, typer.Argument(help="Lines of numbers, `user item item ...`: text; .gz, .xz and .zst too.")],
    data: Data = None,
    report: ReportOption = None,
) -> None:
    """Import a file of pins: a board for each user, and a post for each item, by the first user who pinned it.

    If it is interrupted, the same command resumes it. Importing a file again changes nothing.
    """
    settings = config.load({"data": data})
    with _import_bars(file) as progress:
        result = import_pins(settings, file, progress, report=report)
    _say_imported(result, "pins", report or _report_path(settings, file))


@importing.command("discard")
def run_discard(graph: GraphOption = "follows", data: Data = None) -> None:
    """Discard an unfinished import into an empty graph, with all edges that it brought.

    Only an import into an empty graph can be discarded. Servers refuse the folder until it is finished or discarded.
    """
    settings = config.load({"data": data})
    discard_import(settings, graph)
    say(f"nothing of that import is left; {graph} is empty, and the folder can be served")


@exporting.command("edges")
def run_export(
    file: Annotated[Path, typer.Argument(help="File to write; its name gives the format.")],
    graph: GraphOption = "follows",
    data: Data = None,
) -> None:
    """Export every live edge of a graph with its position, and print the token from which to watch later changes.

    Edges that expire are left out and counted.
    """
    with console.counting("exported") as progress:
        result = export_edges(config.load({"data": data}), graph, file, progress)
    say(f"{result.edges:,} edges of {graph} in {file}")
    if result.expiring:
        say(f"{result.expiring:,} edges that expire were left out: a file cannot say that they end")
    say(f"what changes from then on: GET /api/v1/watch?graphs={graph}&after={result.token}")


def import_edges(
    settings: Settings,
    graph: str,
    path: Path,
    progress: ImportProgress,
    *,
    report: Path | None = None,
    mutual: bool = False,
) -> ImportResult:
    """Import a file of edges: as a sorted bulk load where the graph is empty and not served, else merged.

    Errors: BadRequest for a missing file or graph; Forbidden for a graph that only a route of the API writes;
    StoreMismatch while another import is unfinished.
    """
    check_raw_write(graph)
    return _imported(settings, graph, path, report, progress, mutual=mutual)


def discard_import(settings: Settings, graph: str) -> None:
    """Discard an unfinished import into an empty graph. Errors: BadRequest, if there is none; Conflict, if another
    process uses the folder.
    """
    with open_environment(settings, create=False) as environment, alone(Path(settings.data)) as is_alone:
        if not is_alone:
            raise Conflict(f"an import or a server uses {settings.data}; stop it first")
        if not bulk.has_begun(environment, graph):
            raise BadRequest(f"no import into an empty graph {graph!r} was cut short here")
        bulk.discard(environment, graph)


def import_pins(
    settings: Settings, path: Path, progress: ImportProgress, *, report: Path | None = None
) -> ImportResult:
    """Import a file of pins (see `transfer.pins`): boards and posts first, then the pins, like `import_edges`.

    Errors: BadRequest for a missing file or one of another kind; StoreMismatch while another import is unfinished.
    """

    async def make() -> None:
        async with open_stores(settings, "chore") as stores:
            await make_boards(path, stores.graph, stores.records)

    return _imported(settings, PINS, path, report, progress, read_file=read_pins, version=VERSION, make=make)


def _imported(
    settings: Settings,
    graph: str,
    path: Path,
    report: Path | None,
    progress: ImportProgress,
    *,
    mutual: bool = False,
    read_file: ReadLines = read,
    version: Hlc | None = None,
    make: Callable[[], Coroutine[None, None, None]] | None = None,
) -> ImportResult:
    """Import the edges of a file. `version`: of the edges; None: now. `make`: makes the records that they connect."""
    if not path.is_file():
        raise BadRequest(f"there is no file {path}")
    where = report or _report_path(settings, path)

    async def merge() -> ImportResult:
        async with open_graph(settings) as graphs:
            return await load_merging(
                path, graphs, graph, where, progress, mutual=mutual, read_file=read_file, version=version
            )

    async def beside() -> ImportResult:
        if make is not None:
            await make()
        return await merge()

    if settings.engine == "cluster":
        return asyncio.run(beside())
    with alone(Path(settings.data)) as is_alone:
        if not is_alone:
            with hold_beside_servers(Path(settings.data)):
                return asyncio.run(beside())
        if make is not None and not _has_begun(settings, graph):
            asyncio.run(make())
        with open_environment(settings) as environment:
            if graph not in environment.graph_numbers():
                names = ", ".join(sorted(environment.graph_numbers()))
                raise BadRequest(f"no graph is called {graph!r}; there are: {names}")
            if bulk.may_load(environment, graph):
                source = f"{path.name} --mutual" if mutual else path.name
                fingerprint = file_fingerprint(path, mutual=mutual)
                load = bulk.BulkLoad(environment, graph, fingerprint, version or HybridClock().next(), source)
                refused = RefusalReport(where, resume=load.reading.line > 0)
                try:
                    return load_bulk(path, load, refused, progress, mutual=mutual, read_file=read_file)
                except BadRequest:
                    # the file cannot be read to its end; a repaired file has another fingerprint, so it cannot resume
                    bulk.discard(environment, graph)
                    raise
        return asyncio.run(merge())


def _has_begun(settings: Settings, graph: str) -> bool:
    """Whether a bulk load of a graph has begun; by then, the boards and posts of its edges are stored."""
    with open_environment(settings) as environment:
        return bulk.has_begun(environment, graph)


class ExportResult(NamedTuple):
    """How many edges were written, and the token to watch from: the file and the changes since that token make up the
    whole graph.

    `expiring`: how many edges were left out because they expire, which a file cannot express.
    """

    edges: int
    token: str
    expiring: int = 0


def export_edges(settings: Settings, graph: str, path: Path, progress: Callable[[int], None]) -> ExportResult:
    """Write every live edge of a graph to a file, while servers run."""

    async def run() -> ExportResult:
        async with open_stores(settings, "chore", create=False) as stores:
            tokens = WatchTokens(await stores.credentials.secret("signing"))
            before = await stores.log.end()  # before the scan, so a concurrent change comes after the token
            result = await export(stores.store, stores.graph.graphs.number(graph), path, progress)
            return ExportResult(result.written, tokens.issue(before), result.expiring)

    return asyncio.run(run())


def summary(settings: Settings, graph: str) -> dict[str, int]:
    """Number of edges of a graph (`edges`), and its most followed node (`top`, `top_count`)."""
    if settings.engine == "cluster":
        return asyncio.run(_counted(settings, graph))
    with open_environment(settings, create=False) as environment:
        lists = edge_scans.list_lengths(environment, environment.graph_numbers()[graph])
        edges, top, top_count = 0, 0, 0
        for listing, length in lists:
            if listing.state is State.NORMAL and listing.direction is Direction.OUT:
                edges += length
            elif listing.state is State.NORMAL and length > top_count:
                top, top_count = listing.node, length
    return {"edges": edges, "top": top, "top_count": top_count}


async def _counted(settings: Settings, graph: str) -> dict[str, int]:
    """The answer of `summary`, by a scan of all edges."""
    followers: Counter[int] = Counter()
    async with open_graph(settings) as graphs:
        async for chunk in graphs.store.stored(graphs.graphs.number(graph)):
            followers.update(edge.destination for edge in chunk if edge.state is State.NORMAL)
    (top, top_count), *_ = followers.most_common(1) or [(0, 0)]
    return {"edges": followers.total(), "top": top, "top_count": top_count}


def _report_path(settings: Settings, file: Path) -> Path:
    """File for refused lines, unless `--report` names another."""
    return Path(settings.data) / "imports" / f"{file.name}.refused.tsv"


def _say_imported(result: ImportResult, noun: str, report: Path) -> None:
    if result.resumed_at_line:
        out.print(f"went on after line {result.resumed_at_line:,}")
    out.print(f"{result.applied:,} {noun} written ({result.way})")
    if result.refused and not (result.rows or result.applied):
        raise BadRequest(f"all {result.refused:,} lines were refused; line numbers and reasons in {report}")
    if result.refused:
        say(f"{result.refused:,} lines refused; line numbers and reasons in {report}")


class _ImportBars:
    """Progress bars for reading the file, and for writing sorted edges. See `transfer.loading.ImportProgress`."""

    def __init__(self, bars: Bars, size: int) -> None:
        self._bars = bars
        self._reading = bars.add_task("reading", total=size, rate="")
        self._read = console.Rate()
        self._writing: TaskID | None = None

    def reading(self, bytes_read: int, rows: int) -> None:
        self._bars.update(self._reading, completed=bytes_read, rate=f"{rows:,} rows{self._read.of(rows)}")

    def writing(self, rows_done: int, rows: int) -> None:
        if self._writing is None:
            self._bars.update(self._reading, completed=self._bars.tasks[self._reading].total)
            self._writing, self._written = self._bars.add_task("writing", total=rows, rate=""), console.Rate(rows_done)
        rate = self._written.of(rows_done)
        self._bars.update(self._writing, completed=rows_done, rate=f"{rows_done:,} edges{rate}")


@contextmanager
def _import_bars(file: Path) -> Iterator[_ImportBars]:
    """Show the progress bars of an import."""
    with console.bars() as bars:
        yield _ImportBars(bars, file.stat().st_size if file.is_file() else 1)
