"""`kith standby`: keeps a replica of a primary and serves reads from it. `promote` makes it the primary."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kith import __version__
from kith.commands.console import Data, Host, Port, say
from kith.commands.serve import Workers
from kith.engines.embedded.environment import Environment
from kith.run import config, logs
from kith.run.machines import following, standby
from kith.run.machines.primary import machine_key_of
from kith.run.serving import processes, supervisor

commands = typer.Typer()
_KEY = "KITH_PRIMARY_KEY"


@commands.command("standby")
def run_standby(
    of: Annotated[str, typer.Option("--of", help="The address of the primary, such as http://10.0.0.1:7400.")],
    data: Data = None,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    api_key: Annotated[
        str, typer.Option("--api-key", envvar=_KEY, help="A server key of the primary; needed for the first start.")
    ] = "",
) -> None:
    """Keep a data folder a moment behind the primary's, media included, and serve reads from it until stopped.

    After `kith promote` it continues as the primary.
    """
    flags = {"data": data, "host": host, "port": port, "workers": workers}
    settings = config.load(flags)
    of = of.rstrip("/")
    supervisor.check_port(settings)
    standby.prepare(settings, of, api_key)
    supervisor.prepare(settings, sources=config.sources_of(flags), standby=True)

    def on_listening(_: str | None) -> None:
        say(f"Kith {__version__} at {supervisor.base_url(settings)}, a standby of {of} (data in {settings.data})")

    with standby.served(settings):
        status = supervisor.run(settings, on_listening, standby=True)
    served = {"data": settings.data, "host": settings.host, "port": settings.port, "workers": settings.workers}
    options = [word for name, value in served.items() for word in (f"--{name}", str(value))]
    if status == processes.PROMOTED:
        say("this is the primary now")
        _become("serve", *options)
    if status == processes.START_OVER:
        os.environ[_KEY] = api_key
        _become("standby", "--of", of, *options)


@commands.command("follow", hidden=True)
def run_follow(data: Data = None) -> None:
    """The process of `kith standby` that follows the primary."""
    settings = processes.settings_of_process(data)
    logs.configure(settings.log_level)
    with Environment(Path(settings.data), create=False) as store:
        key = machine_key_of(store)
    sys.exit(following.follow(settings, key))


def _become(*command: str) -> None:
    """Replace this process with another `kith` command."""
    os.execv(sys.executable, processes.command_line(*command))  # noqa: S606
