"""`kith worker NAME...`: consumers of the event log, or what makes backups, in this process."""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Annotated

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
    Name = enum.StrEnum(
        "Name", [(name, name) for name in (*CONSUMERS, schedule.NAME)]
    )  # of Literals typer takes no list


@commands.command("worker")
def run_worker(
    names: Annotated[list[Name], typer.Argument(help="Which worker; several share the process.")],
    data: Data = None,
) -> None:
    """Run background workers alone; `kith serve` runs them beside the API."""
    settings = processes.settings_of_process(data)
    if schedule.NAME not in names:
        asyncio.run(worker.work(names, settings))
    elif len(names) > 1:
        raise BadRequest(f"{schedule.NAME} has a process of its own; start it by itself")
    elif not settings.backup_to:
        raise BadRequest("no place for backups is set: `backup_to`")
    else:
        asyncio.run(schedule.keep(settings))
