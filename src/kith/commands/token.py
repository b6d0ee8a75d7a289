"""`kith token`: signs a user token as your app would, or makes a server key."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kith.commands.console import Data
from kith.core.errors import BadRequest
from kith.core.ids import parse_id
from kith.run import config
from kith.run.opening import keys, wiring

commands = typer.Typer()


@commands.command()
def token(
    user: Annotated[str | None, typer.Option("--user", help="Id of the user that the token acts for.")] = None,
    server: Annotated[bool, typer.Option("--server", help="Make a server key instead.")] = False,
    hours: Annotated[int, typer.Option("--hours", min=1, max=24 * 365, help="Hours that a user token is valid.")] = 24,
    data: Data = None,
) -> None:
    """Sign a user token as your app would, or make a server key, which servers accept within seconds."""
    if (user is None) == (not server):
        raise BadRequest("say either --user ID or --server")
    settings = config.load({"data": data})

    async def made() -> str:
        async with wiring.credentials(settings, create=server) as store:
            if user is None:
                return await keys.make_server_key(store)
            return (await keys.user_tokens(store, settings)).issue(parse_id(user, "--user"), hours * 3600)

    print(asyncio.run(made()))
