"""`kith worker NAME`: one consumer of the event log, or what makes backups, in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kith.commands.console import Data
from kith.core.errors import BadRequest
from kith.run import processes, worker
from kith.run.backups import schedule
from kith.run.consumers import CONSUMERS

commands = typer.Typer()
if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[(*CONSUMERS, schedule.NAME)]  # typer accepts these, and lists them for an unknown name


@commands.command("worker")
def run_worker(
    name: Annotated[Name, typer.Argument(help="Which worker.")],
    data: Data = None,
) -> None:
    """Run one background worker alone; `kith serve` runs them beside the API."""
    settings = processes.settings_of_process(data)
    if name == schedule.NAME and not settings.backup_to:
        raise BadRequest("no place for backups is set: `backup_to`")
    asyncio.run(schedule.keep(settings) if name == schedule.NAME else worker.work(name, settings))
