"""`kith serve`: runs the API and the workers until stopped. `kith api`: runs the API alone."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any

import typer

from kith import __version__
from kith.commands.console import Data, Host, Port, out, say
from kith.run import config
from kith.run.serving import children, processes, server, supervisor

commands = typer.Typer()
Workers = Annotated[int | None, typer.Option("--workers", help="API processes.")]
ApiKey = Annotated[str | None, typer.Option("--api-key", help="A server key to accept, besides the stored ones.")]


@commands.command()
def serve(
    data: Data = None, host: Host = None, port: Port = None, workers: Workers = None, api_key: ApiKey = None
) -> None:
    """Serve the API and the workers until stopped. The first start of a folder makes a server key, printed once."""
    _serve({"data": data, "host": host, "port": port, "workers": workers}, api_key, alone=False)


@commands.command("api")
def run_api(
    data: Data = None, host: Host = None, port: Port = None, workers: Workers = None, api_key: ApiKey = None
) -> None:
    """Serve the API alone; `kith worker` runs the workers, here or on other machines."""
    _serve({"data": data, "host": host, "port": port, "workers": workers}, api_key, alone=True)


@commands.command(children.API, hidden=True)
def run_api_process() -> None:
    """An API process; `kith serve` starts it."""
    processes.ignore_terminal()
    server.run(processes.settings_of_process(), socket.socket(fileno=int(os.environ[processes.SOCKET_VARIABLE])))


def _serve(flags: dict[str, Any], api_key: str | None, *, alone: bool) -> None:
    flags["api_keys"] = [api_key] if api_key else None
    settings, sources = config.load(flags), config.sources_of(flags)
    supervisor.check_port(settings)
    supervisor.prepare(settings, sources=sources)

    def on_listening(new_key: str | None) -> None:
        if new_key:
            out.print(f"server key, shown this once: [bold]{new_key}[/bold]")
        where = f"data in {settings.data}" if settings.engine == "folder" else f"on Cassandra at {settings.cassandra}"
        say(f"Kith {__version__} at {supervisor.base_url(settings)} ({where}); docs at /docs")

    supervisor.run(settings, on_listening, sources=sources, alone=alone)
