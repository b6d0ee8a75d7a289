"""`kith worker NAME`: one consumer of the event log, in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kith.commands.console import Data
from kith.run import processes, worker
from kith.run.consumers import CONSUMERS

commands = typer.Typer()
if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(CONSUMERS)]  # typer accepts these, and lists them for an unknown name


@commands.command("worker")
def run_worker(
    name: Annotated[Name, typer.Argument(help="Which worker.")],
    data: Data = None,
) -> None:
    """Run one background worker alone; `kith serve` runs them beside the API."""
    asyncio.run(worker.work(name, processes.settings_of_process(data)))
