"""`kith worker NAME...`: consumers of the event log, or what makes backups, in this process."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kith.commands.console import Data
from kith.core.errors import BadRequest
from kith.run import processes, worker
from kith.run.backups import schedule
from kith.run.backups import worker as backups
from kith.run.consumers import CONSUMERS

commands = typer.Typer()
NAMES = (*CONSUMERS, schedule.NAME)


@commands.command("worker")
def run_worker(
    names: Annotated[
        list[str], typer.Argument(help=f"Which of {', '.join(NAMES)}; several share the process.", show_default=False)
    ],
    data: Data = None,
) -> None:
    """Run background workers alone; `kith serve` runs them beside the API."""
    for name in names:
        if name not in NAMES:
            raise BadRequest(f"there is no worker {name!r}; there are {', '.join(NAMES)}")
    settings = processes.settings_of_process(data)
    if schedule.NAME not in names:
        asyncio.run(worker.work(names, settings))
    elif len(names) > 1:
        raise BadRequest(f"{schedule.NAME} has a process of its own; start it by itself")
    elif not settings.backup_to:
        raise BadRequest("no place for backups is set: `backup_to`")
    else:
        asyncio.run(backups.keep(settings))
