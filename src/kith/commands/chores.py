"""Work on a data folder without a server: import, export, suggestions, audit, check-up."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

from kith.commands.transfer.loading import Imported, Progress, Report, fingerprint, load_bulk, load_merging
from kith.commands.transfer.unloading import export
from kith.core.clock import HybridClock, wall_ms
from kith.core.errors import BadRequest, KithError
from kith.core.ids import NODES_MAX
from kith.engines.embedded import bulk
from kith.engines.embedded.environment import STORE_FILE, Environment, alone, beside_servers, node_number, only_run
from kith.graph.audit import Audit, audit
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.log import runner
from kith.log.store import Failure
from kith.media.library import Swept
from kith.run import wiring
from kith.run.config import Settings
from kith.suggestions.batch import BatchObserver, BatchResult, suggest_everyone


def import_edges(
    settings: Settings, graph: str, path: Path, progress: Progress, *, report: Path | None = None, mutual: bool = False
) -> Imported:
    """Import a file of edges: in sorted order where the graph is empty and not served, else merged."""
    if not path.is_file():
        raise BadRequest(f"there is no file {path}")
    folder = Path(settings.data)
    where = report or folder / "imports" / f"{path.name}.refused.tsv"
    with alone(folder) as only:
        if only:
            with wiring.open_environment(settings) as environment:
                if graph not in environment.graph_numbers():
                    names = ", ".join(sorted(environment.graph_numbers()))
                    raise BadRequest(f"no graph is called {graph!r}; there are: {names}")
                if bulk.may_load(environment, graph):
                    return _load_bulk(environment, graph, path, where, progress, mutual)
            return asyncio.run(_load_merging(settings, graph, path, where, progress, mutual))
    with beside_servers(folder):
        return asyncio.run(_load_merging(settings, graph, path, where, progress, mutual))


def _load_bulk(
    environment: Environment, graph: str, path: Path, report: Path, progress: Progress, mutual: bool
) -> Imported:
    load = bulk.BulkLoad(environment, graph, fingerprint(path), HybridClock().next())
    try:
        return load_bulk(path, load, Report(report, resume=load.reading.line > 0), progress, mutual=mutual)
    except BadRequest:
        load.discard()  # the file cannot be read to its end: a whole one has another fingerprint
        raise


async def _load_merging(
    settings: Settings, graph: str, path: Path, report: Path, progress: Progress, mutual: bool
) -> Imported:
    async with service(settings) as graphs:
        return await load_merging(path, graphs, graph, report, progress, mutual=mutual)


def export_edges(settings: Settings, graph: str, path: Path, progress: Callable[[int], None]) -> int:
    """Write every live edge of a graph to a file; how many there were."""

    async def run() -> int:
        async with service(settings, create=False) as graphs:
            return await export(graphs.store, graphs.graphs.number(graph), path, progress)

    return asyncio.run(run())


def suggest_all(settings: Settings, report: BatchObserver) -> BatchResult:
    """Compute suggestions for everyone, beside servers that run or without; they serve what is there."""

    async def run() -> BatchResult:
        async with wiring.opened(settings, "chore", create=False) as parts:
            return await suggest_everyone(
                wiring.suggestions(settings, parts),
                first=settings.suggestions_kept,
                fresh_ms=settings.suggestions_hours * 3_600_000,
                report=report,
            )

    folder = Path(settings.data)
    if not (folder / STORE_FILE).exists():
        raise BadRequest(f"{folder} holds no Kith data; name the folder with --data")
    with only_run(folder, "suggest"):
        return asyncio.run(run())


def audit_all(settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]) -> list[Audit]:
    """Compare both ends and all counts of every graph."""

    async def run() -> list[Audit]:
        async with service(settings, create=False) as graphs:
            return [
                await audit(
                    graphs.store, name, graphs.graphs.number(name), repair=repair, sample=sample, progress=progress
                )
                for name in graphs.graphs.names()
            ]

    return asyncio.run(run())


def dead_events(settings: Settings) -> dict[str, Failure]:
    """Events that no worker could handle, by name."""

    async def run() -> dict[str, Failure]:
        async with wiring.opened(settings, "chore", create=False) as parts:
            return runner.dead(parts.log)

    return asyncio.run(run())


def named_dead(settings: Settings, name: str) -> dict[str, Failure]:
    """One dead event by its name, or "all" of them; BadRequest for a name that none has."""
    known = dead_events(settings)
    if name != "all" and name not in known:
        raise BadRequest(f"no dead event is called {name!r}; `kith dead list` names them")
    return known if name == "all" else {name: known[name]}


def settle_dead(settings: Settings, name: str, *, again: bool) -> int:
    """Replay (`again`) or drop one dead event by its name, or "all"; how many."""
    chosen = named_dead(settings, name)

    async def run() -> int:
        async with wiring.opened(settings, "chore", create=False) as parts:
            for failure in chosen.values():
                await (runner.replay if again else runner.drop)(parts.log, failure)
            return len(chosen)

    return asyncio.run(run())


class Finding(NamedTuple):
    """One line of `kith doctor`."""

    what: str
    ok: bool
    detail: str


def doctor(settings: Settings) -> list[Finding]:
    """Look a data folder and its settings over; no data is changed."""
    folder = Path(settings.data)
    free = shutil.disk_usage(folder if folder.exists() else Path()).free
    findings = [Finding("disk", free > 1 << 30, f"{free / 1e9:.1f} GB free")]
    try:
        with wiring.open_environment(settings, create=False) as environment:
            used = environment.bytes_used()
            roomy = used < 0.9 * settings.store_bytes_max
            findings.append(Finding("store", roomy, f"{used / 1e6:.1f} MB of {settings.store_bytes_max / 1e9:.0f} GB"))
            findings.append(Finding("readers", True, f"{environment.lmdb.reader_check()} stale slots cleared"))
            keys = len(wiring.server_keys(environment, settings))
            hint = "" if keys else "; `kith serve` makes one at its first start"
            findings.append(Finding("server keys", keys > 0, f"{keys} known{hint}"))
            try:
                wiring.refuse_unfinished_import(environment)
                findings.append(Finding("imports", True, "none unfinished"))
            except KithError as error:
                findings.append(Finding("imports", False, error.message))
        if findings[-1].ok:
            dead = dead_events(settings)
            hint = "; `kith dead list` says why" if dead else ""
            findings.append(Finding("dead events", not dead, f"{len(dead)}{hint}"))
    except KithError as error:
        findings.append(Finding("store", False, error.message))
    public = settings.host not in ("127.0.0.1", "::1", "localhost")
    findings.append(
        Finding("network", not public, "open to the network: put TLS in front" if public else settings.host)
    )
    return findings


def sweep(settings: Settings, *, remove: bool) -> Swept:
    """Find, and `remove`, files of pictures and videos that no record names; servers may run."""

    async def run() -> Swept:
        async with wiring.opened(settings, "chore", create=False) as parts:
            with node_number(Path(settings.data), NODES_MAX) as number:
                media = wiring.media_over(settings, wiring.objects_of(parts, number))
                return await media.sweep(wall_ms(), remove=remove)

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def service(settings: Settings, *, create: bool = True) -> AsyncIterator[Graph]:
    """The graph service without its API."""
    async with wiring.opened(settings, "chore", create=create) as parts:
        yield parts.graph


def summary(settings: Settings, graph: str) -> dict[str, int]:
    """A few numbers of a graph: its edges, and its most followed node."""
    with wiring.open_environment(settings, create=False) as environment:
        lists = bulk.list_lengths(environment, environment.graph_numbers()[graph])
        edges, top, top_count = 0, 0, 0
        for listing, length in lists:
            if listing.state is State.NORMAL and listing.direction is Direction.OUT:
                edges += length
            elif listing.state is State.NORMAL and length > top_count:
                top, top_count = listing.node, length
    return {"edges": edges, "top": top, "top_count": top_count}
