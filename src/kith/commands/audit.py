"""`kith audit`: checks that both ends and the counts of every edge agree, that inboxes have all rows, or that caches
match the graph.

With `--repair`, it repairs what differs.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kith.commands import console
from kith.commands.console import Data, out
from kith.commands.dead import dead_events
from kith.core.errors import BadRequest, Conflict
from kith.notifications import intake, mention_consumer
from kith.run import config
from kith.run.audit_process import Report
from kith.run.audits import audit_caches, audit_edges, audit_notifications
from kith.run.config import Settings
from kith.run.moves.comparison import compare_with
from kith.run.serving import processes

commands = typer.Typer()


class AuditTarget(enum.StrEnum):
    """What is audited."""

    EDGES = "edges"
    NOTIFICATIONS = "notifications"
    CACHES = "caches"


@commands.command("audit")
def run_audit(
    what: Annotated[
        AuditTarget, typer.Argument(help="Edges and counts, rows of inboxes, or cached sets and timelines.")
    ] = AuditTarget.EDGES,
    data: Data = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what differs.")] = False,
    sample: Annotated[
        float, typer.Option("--sample", min=0.0, max=1.0, help="Share of edges, notices or caches to audit.")
    ] = 1.0,
    against: Annotated[
        Path | None, typer.Option("--against", help="A data folder to compare with the cluster of the settings.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="File for the state and the result.")] = None,
) -> None:
    """Check that both ends of every edge and every count agree, that inboxes have all their rows, or that cached sets
    and home timelines match the graph.

    With --against, compare a data folder with a cluster; neither may be written to meanwhile. Exit status 1 if anything
    differs.
    """
    if what is not AuditTarget.EDGES and (against is not None or report is not None):
        raise BadRequest(f"`--against` and `--report` are for `kith audit edges`; leave them out with {what.value}")
    if against is not None:
        _run_against(config.load({"data": data}), against)
        return
    if what is AuditTarget.NOTIFICATIONS:
        _run_notifications(config.load({"data": data}), repair=repair, sample=sample)
        return
    if what is AuditTarget.CACHES:
        _run_caches(config.load({"data": data}), repair=repair, sample=sample)
        return
    settings, report_file = processes.settings_of_process(data), None if report is None else Report(report)
    with console.counting("edges audited") as counted:

        def progress(edges: int) -> None:
            counted(edges)
            if report_file is not None:
                report_file.progress(edges)

        audits = audit_edges(settings, repair=repair, sample=sample, progress=progress)
    if report_file is not None:
        report_file.done(audits)
    rows = list[Sequence[str]]()
    for audit in audits:
        numbers = (audit.disagreeing, audit.strays, audit.wrong_counts, audit.repaired)
        rows.append((audit.graph, f"{audit.edges:,}", f"{audit.consistent_share:.6%}", *map(str, numbers)))
    names = ("graph", "edges", "consistent", "disagreeing", "strays", "wrong counts", "repaired")
    console.show_rows(names, rows)
    for audit in audits:
        for look in audit.unsettled:
            out.print(
                f"{audit.graph}: {look.edges:,} edges had ends that differed {look.seconds:g} s after the first look"
            )
        for example in audit.examples:
            out.print(f"{audit.graph}: {example}")
    if not all(audit.clean for audit in audits) and not repair:
        raise typer.Exit(1)


def _run_against(settings: Settings, folder: Path) -> None:
    if settings.engine != "cluster":
        raise BadRequest(
            "name the cluster to compare with: KITH_ENGINE=cluster KITH_CASSANDRA=...; see docs/cluster.md"
        )
    with console.steps() as tell:
        results = asyncio.run(compare_with(settings, folder, tell))
    console.show_compared(results)
    if any(result.differing for result in results):
        raise typer.Exit(1)


def _run_notifications(settings: Settings, *, repair: bool, sample: float) -> None:
    with console.counting("notices audited") as progress:
        events_audit, rows_audit = audit_notifications(settings, repair=repair, sample=sample, progress=progress)
    dead = sum(name.startswith((f"{intake.NAME}/", f"{mention_consumer.NAME}/")) for name in dead_events(settings))
    events = Table("what the log tells", "")
    for name, number in (
        ("expected", events_audit.expected),
        ("told", events_audit.told),
        ("suppressed", events_audit.suppressed),
        ("dead", events_audit.dead),
        ("missing", events_audit.missing),
        ("repaired", events_audit.repaired),
    ):
        events.add_row(name, f"{number:,}")
    out.print(events)
    for example in events_audit.examples:
        out.print(f"not told: user {example}")
    table = Table("rows of inboxes", "")
    for name, number in (
        ("notices", rows_audit.notices),
        ("expected", rows_audit.expected),
        ("delivered", rows_audit.delivered),
        ("suppressed", rows_audit.suppressed),
        ("left to pull", rows_audit.pull),
        ("dead", rows_audit.dead),
        ("missing", rows_audit.missing),
        ("repaired", rows_audit.repaired),
        ("dead events", dead),
    ):
        table.add_row(name, f"{number:,}")
    out.print(table)
    for example in rows_audit.examples:
        out.print(f"missing: the row of user {example}")
    if (events_audit.missing or rows_audit.missing or rows_audit.dead) and not repair:
        raise typer.Exit(1)


def _run_caches(settings: Settings, *, repair: bool, sample: float) -> None:
    with console.counting("sets and timelines audited") as progress:
        sets, timelines, conflicts = audit_caches(settings, repair=repair, sample=sample, progress=progress)
    rows = list[Sequence[str]]()
    for name, audit, number in (
        ("cached sets", sets, 0 if sets is None else sets.sets),
        ("home timelines", timelines, 0 if timelines is None else timelines.timelines),
    ):
        if audit is None:
            if not conflicts:
                out.print(f"{name}: not in use now, so not audited")
            continue
        counts = (audit.late, audit.wrong, audit.repaired)
        rows.append((name, f"{number:,}", f"{audit.right_share:.4%}", *(f"{count:,}" for count in counts)))
        for example in audit.examples:
            out.print(f"wrong: {example}")
    console.show_rows(("caches", "looked at", "right", "late", "wrong", "repaired"), rows)
    if conflicts:
        raise Conflict("; ".join(conflicts))
    if not repair and any(audit is not None and audit.wrong for audit in (sets, timelines)):
        raise typer.Exit(1)
