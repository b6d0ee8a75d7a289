"""`kith promote`: makes a standby the primary. It is not in `standby.py`, because it must start quickly and needs no
server's imports."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from kith.commands.console import Data, say
from kith.run import config
from kith.run.machines import standby

commands = typer.Typer()


@commands.command("promote")
def run_promote(
    data: Data = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Instead of --url: the standby's port on this machine.")
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            "--url", help="URL of the new primary, which the old one gives to clients; default: where it is served."
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Promote even if another machine was promoted already.")
    ] = False,
) -> None:
    """Make a standby the primary. A standby that is being served continues as the primary; else start `kith serve`."""
    settings = config.load({"data": data, "port": port})
    if port is not None and not url:
        url = standby.address(socket.gethostname(), port)
    promotion = standby.promote(settings, url, force=force)
    if promotion is None:
        say(f"{settings.data} is the primary already")
        return
    say(f"{settings.data} is the primary from event {promotion.last + 1:,} on")
    if promotion.old == "fenced":
        say(
            f"the old primary, {promotion.at}, takes no more writes, and nothing is lost; `kith standby` makes it a "
            "standby"
        )
    else:
        say(
            f"the old primary, {promotion.at}, could not be notified: {promotion.why}. See that it is off; it is "
            "fenced as soon as it answers. Writes that it acknowledged and had not sent are lost"
        )
    if promotion.media_missing:
        say("some pictures and videos had not come over yet: copy `media` from the old machine or a backup")
