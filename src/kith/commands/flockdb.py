"""`kith flockdb`: serves FlockDB's Thrift interface on the graphs of a data folder."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kith.commands.console import Data, say
from kith.run import config
from kith.run.serving import flockdb

commands = typer.Typer()


@commands.command("flockdb")
def run_flockdb(
    data: Data = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any that is free.")
    ] = 7915,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. The protocol knows no passwords.")
    ] = "127.0.0.1",
    retry_dead: Annotated[bool, typer.Option("--retry-dead", help="Retry dead operations.")] = False,
) -> None:
    """Serve FlockDB's clients until stopped, alone or beside `kith serve`; `flockdb_graphs` names the graphs."""
    settings = config.load({"data": data})

    def on_listening(port: int, put_back: int) -> None:
        if put_back:
            say(f"{put_back:,} operations are tried again")
        say(f"FlockDB's interface at {host}:{port} (data in {settings.data}): {', '.join(settings.flockdb_graphs)}")

    asyncio.run(flockdb.serve(settings, host, port, on_listening, retry_dead=retry_dead))
