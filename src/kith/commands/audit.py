"""`kith audit`: proves that both ends of every edge and every count agree; with `--repair`, mends what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kith.commands import console
from kith.commands.console import Data, out
from kith.graph.audit import Audit, audit
from kith.run import processes
from kith.run.audits import Report
from kith.run.config import Settings
from kith.run.wiring import opened_graph

commands = typer.Typer()


@commands.command("audit")
def run_audit(
    data: Data = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what differs.")] = False,
    sample: Annotated[float, typer.Option("--sample", min=0.0, max=1.0, help="Share of the edges looked at.")] = 1.0,
    report: Annotated[Path | None, typer.Option("--report", help="File to keep the state and the result in.")] = None,
) -> None:
    """Prove that both ends of every edge and every count agree. Status 1 if they do not."""
    settings, written = processes.settings_of_process(data), None if report is None else Report(report)
    with console.counting("edges audited") as counted:

        def progress(edges: int) -> None:
            counted(edges)
            if written is not None:
                written.progress(edges)

        audits = audit_all(settings, repair=repair, sample=sample, progress=progress)
    if written is not None:
        written.done(audits)
    table = Table("graph", "edges", "consistent", "disagreeing", "strays", "wrong counts", "repaired")
    for found in audits:
        numbers = (found.disagreeing, found.strays, found.wrong_counts, found.repaired)
        table.add_row(found.graph, f"{found.edges:,}", f"{found.consistent_share:.6%}", *map(str, numbers))
    out.print(table)
    for found in audits:
        for example in found.examples:
            out.print(f"{found.graph}: {example}")
    if not all(found.clean for found in audits) and not repair:
        raise typer.Exit(1)


def audit_all(settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]) -> list[Audit]:
    """Audit every graph. `sample`: the share of edges that is looked at."""

    async def run() -> list[Audit]:
        async with opened_graph(settings, create=False) as graphs:
            return [
                await audit(
                    graphs.store, name, graphs.graphs.number(name), repair=repair, sample=sample, progress=progress
                )
                for name in graphs.graphs.names()
            ]

    return asyncio.run(run())
