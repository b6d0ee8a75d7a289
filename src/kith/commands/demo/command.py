"""The command `kith demo`; `runner` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kith.commands.console import Port, out
from kith.commands.demo import runner
from kith.run import config

commands = typer.Typer()


@commands.command("demo")
def run_demo(
    file: Annotated[Path | None, typer.Argument(help="File of edges to load; default: a generated community.")] = None,
    port: Port = None,
    data: Annotated[str, typer.Option("--data", help="Data folder of the demo.")] = "kith-data/demo",
    once: Annotated[bool, typer.Option("--once", help="Stop after the twelve questions.")] = False,
) -> None:
    """Load a community, serve it, let people post, answer twelve questions; then keep it active until Ctrl-C."""
    runner.run(config.load({"port": port, "data": data}), file, out, stay=not once)
