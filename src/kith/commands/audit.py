"""`kith audit`: proves that both ends of every edge and every count agree, or that inboxes have all their rows.

With `--repair`, it mends what differs.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kith.commands import console
from kith.commands.console import Data, out
from kith.commands.dead import dead_events
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest
from kith.core.ids import NODES_MAX, made_at_ms
from kith.engines.embedded.record_store import every_record
from kith.graph.audit import Audit, audit
from kith.leases.numbers import node_number
from kith.notifications import intake, spread
from kith.notifications.audit import Auditor, NoticeAudit
from kith.notifications.inbox import PERIOD_MS, base_of
from kith.notifications.notice import KEPT_MS, read_notice
from kith.notifications.tiers import Tier
from kith.notifications.untold import EventAuditor, UntoldAudit
from kith.notifications.walks import Walks
from kith.posts.comment_reader import CommentReader
from kith.records.store import RecordKind
from kith.run import config
from kith.run.audits import Report
from kith.run.config import Settings
from kith.run.moves.comparison import compare_with
from kith.run.opening import wiring
from kith.run.opening.stores import Opened
from kith.run.posts_and_notices import posts_over, telling
from kith.run.serving import processes

commands = typer.Typer()


class Audited(enum.StrEnum):
    """What is audited."""

    EDGES = "edges"
    NOTIFICATIONS = "notifications"


@commands.command("audit")
def run_audit(
    what: Annotated[Audited, typer.Argument(help="Edges and counts, or rows of inboxes.")] = Audited.EDGES,
    data: Data = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what differs.")] = False,
    sample: Annotated[
        float, typer.Option("--sample", min=0.0, max=1.0, help="Share of the edges or notices looked at.")
    ] = 1.0,
    against: Annotated[
        Path | None, typer.Option("--against", help="A data folder to compare the cluster of the settings with.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="File to keep the state and the result in.")] = None,
) -> None:
    """Prove that both ends of every edge and every count agree, or that no row of an inbox is missing.

    With --against, that a folder and a cluster hold the same, as long as neither is written to. Status 1 if not.
    """
    if against is not None:
        _run_against(config.load({"data": data}), against)
        return
    if what is Audited.NOTIFICATIONS:
        _run_notifications(config.load({"data": data}), repair=repair, sample=sample)
        return
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


def _run_against(settings: Settings, folder: Path) -> None:
    if settings.engine != "cluster":
        raise BadRequest(
            "name the cluster to compare with: KITH_ENGINE=cluster KITH_CASSANDRA=...; see docs/cluster.md"
        )
    with console.steps() as tell:
        found = asyncio.run(compare_with(settings, folder, tell))
    console.show_compared(found)
    if any(one.differing for one in found):
        raise typer.Exit(1)


def _run_notifications(settings: Settings, *, repair: bool, sample: float) -> None:
    with console.counting("notices audited") as progress:
        untold, found = audit_notifications(settings, repair=repair, sample=sample, progress=progress)
    dead = sum(name.startswith((f"{intake.NAME}/", f"{spread.NAME}/")) for name in dead_events(settings))
    events = Table("what the log tells", "")
    for name, number in (
        ("expected", untold.expected),
        ("told", untold.told),
        ("suppressed", untold.suppressed),
        ("dead", untold.dead),
        ("missing", untold.missing),
        ("repaired", untold.repaired),
    ):
        events.add_row(name, f"{number:,}")
    out.print(events)
    for example in untold.examples:
        out.print(f"not told: user {example}")
    table = Table("rows of inboxes", "")
    for name, number in (
        ("notices", found.notices),
        ("expected", found.expected),
        ("delivered", found.delivered),
        ("suppressed", found.suppressed),
        ("left to pull", found.pull),
        ("dead", found.dead),
        ("missing", found.missing),
        ("repaired", found.repaired),
        ("dead events", dead),
    ):
        table.add_row(name, f"{number:,}")
    out.print(table)
    for example in found.examples:
        out.print(f"missing: the row of user {example}")
    if (untold.missing or found.missing or found.dead) and not repair:
        raise typer.Exit(1)


def audit_notifications(
    settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]
) -> tuple[UntoldAudit, NoticeAudit]:
    """Audit what the log tells, then the rows of inboxes. `sample`: the share of events and notices looked at."""

    async def run() -> tuple[UntoldAudit, NoticeAudit]:
        async with wiring.opened(settings, "chore", create=False) as parts:
            environment = parts.of_folder("this audit").environment
            untold = await _untold(settings, parts, repair=repair, sample=sample)
            auditor = Auditor(
                parts.graph, parts.records, parts.inboxes, parts.activity, settings.celebrity_followers_min
            )
            under_way = {walk.notice for walk in await Walks(parts.store).of(Tier)}
            over = base_of((wall_ms() - KEPT_MS) // PERIOD_MS)  # their rows may be forgotten before they are
            notices = (
                notice
                for record in every_record(environment, RecordKind.NOTICE)
                if record.id >= over and (notice := read_notice(record.data)) is not None
            )
            found = await auditor.audit(notices, under_way, repair=repair, sample=sample, progress=progress)
            return untold, found

    return asyncio.run(run())


async def _untold(settings: Settings, parts: Opened, *, repair: bool, sample: float) -> UntoldAudit:
    """Audit what happened since the first notice: before, intake may not have read the log."""
    first = next(every_record(parts.of_folder("this audit").environment, RecordKind.NOTICE), None)
    if first is None:
        return UntoldAudit()
    async with node_number(parts.leases, NODES_MAX) as number:
        posts = posts_over(parts, number)
        comments = CommentReader(posts)
        told = telling(settings, parts, posts)
        looking = intake.Intake(told.notices, told.recipients, told.recent, posts, comments)
        auditor = EventAuditor(
            parts.log, parts.graph, looking, told.notices, told.recipients, made_at_ms(first.id), wall_ms
        )  # fmt: skip
        return await auditor.audit(repair=repair, sample=sample)


def audit_all(settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]) -> list[Audit]:
    """Audit every graph. `sample`: the share of edges that is looked at."""

    async def run() -> list[Audit]:
        async with wiring.opened_graph(settings, create=False) as graphs:
            return [
                await audit(
                    graphs.store, name, graphs.graphs.number(name), repair=repair, sample=sample, progress=progress
                )
                for name in graphs.graphs.names()
            ]

    return asyncio.run(run())
