"""`kith move`: moves a data folder into a cluster while it is served, and back; `run.moves` does it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from kith.commands import console
from kith.commands.console import fail, say
from kith.core.errors import BadRequest
from kith.run import config
from kith.run.moves import opening, to_cluster, to_folder
from kith.run.moves.to_cluster import MoveResult

commands = typer.Typer()


@commands.command("move")
def run_move(
    folder: Annotated[Path, typer.Argument(help="The data folder; servers may use it.")],
    switch: Annotated[bool, typer.Option("--switch", help="Then switch to the cluster.")] = False,
    back_: Annotated[
        bool, typer.Option("--back", help="Move back: apply the cluster's writes since the switch to the folder.")
    ] = False,
    audited: Annotated[bool, typer.Option("--audit/--no-audit", help="Compare both sides before the switch.")] = True,
) -> None:
    """Move a live data folder into the cluster that the settings name (`KITH_ENGINE=cluster` and others).

    Copies the folder, follows it until the cluster is a moment behind, and compares both. With --switch, it then closes
    the folder and opens the cluster. If it is interrupted, the same command resumes it.
    """
    settings = config.load()
    if settings.engine != "cluster":
        raise BadRequest("name the cluster to move into: KITH_ENGINE=cluster KITH_CASSANDRA=...; see docs/cluster.md")
    with console.steps() as tell:
        if back_:
            returned = asyncio.run(to_folder.take_back(settings, folder, tell=tell))
        else:
            moved = asyncio.run(to_cluster.move(settings, folder, switch=switch, audited=audited, tell=tell))
    where = opening.name_of(settings)
    if back_:
        say(f"{returned:,} events of the cluster were done in {folder}; go on there with `kith serve --data {folder}`")
        say(f"{where} takes no writes any more")
        return
    _show(moved)
    if not moved.agrees:
        fail(f"{folder} and {where} differ, so nothing was switched; run it again, and report what differs if it stays")
    if moved.closed_s is not None:
        say(
            f"moved: {where} takes writes, {folder} takes none any more; writes were refused for {moved.closed_s:.1f} s"
        )
        say(f"go on there with `kith serve`; the way back is `kith move {folder} --back`")
    elif switch:
        say(f"moved already: {where} takes writes")
    else:
        say(f"{where} is a moment behind {folder}; let it take over with `kith move {folder} --switch`")


def _show(moved: MoveResult) -> None:
    if moved.compared:
        console.show_compared(moved.compared)
    for result in moved.audits:
        if not result.clean:
            say(
                f"{result.graph}: {result.disagreeing} edges whose lists disagree, {result.strays} strays, "
                f"{result.wrong_counts} wrong counts"
            )
