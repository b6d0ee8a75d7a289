"""`kith worker NAME...`: runs consumers of the event log, or scheduled backups, in this process."""

from __future__ import annotations

from typing import Annotated

import typer

from kith.commands.console import Data
from kith.run.serving import processes, worker

commands = typer.Typer()


@commands.command("worker")
def run_worker(
    names: Annotated[
        list[str],
        typer.Argument(help=f"Which of {', '.join(worker.NAMES)}; several share the process.", show_default=False),
    ],
    probe_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port on which to answer /healthz, /readyz and /metrics."),
    ] = None,
    data: Data = None,
) -> None:
    """Run background workers alone; `kith serve` runs them beside the API."""
    worker.run(names, processes.settings_of_process(data), probe_port)
