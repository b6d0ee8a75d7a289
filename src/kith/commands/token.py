"""`kith token`: signs a user token as your app would, or makes or revokes a server key."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kith.access.credentials import CredentialStore
from kith.commands.console import Data
from kith.core.errors import BadRequest
from kith.core.ids import parse_id
from kith.run import config
from kith.run.config import Settings
from kith.run.opening import keys, wiring

commands = typer.Typer()


@commands.command()
def token(
    user: Annotated[str | None, typer.Option("--user", help="Id of the user that the token acts for.")] = None,
    server: Annotated[bool, typer.Option("--server", help="Make a server key instead.")] = False,
    revoke: Annotated[
        str | None, typer.Option("--revoke", help="Revoke this server key instead; `all`: every one that was made.")
    ] = None,
    hours: Annotated[int, typer.Option("--hours", min=1, max=24 * 365, help="Hours that a user token is valid.")] = 24,
    data: Data = None,
) -> None:
    """Sign a user token as your app would, or make or revoke a server key. Running servers follow within seconds."""
    if [user is not None, server, revoke is not None].count(True) != 1:
        raise BadRequest("say either --user ID, --server, or --revoke KEY")
    settings = config.load({"data": data})

    async def answered() -> str:
        async with wiring.credentials(settings, create=server) as store:
            if user is not None:
                return (await keys.user_tokens(store, settings)).issue(parse_id(user, "--user"), hours * 3600)
            return await keys.make_server_key(store) if revoke is None else await _revoked(store, settings, revoke)

    print(asyncio.run(answered()))


async def _revoked(store: CredentialStore, settings: Settings, key: str) -> str:
    count = await keys.revoke_server_key(store, settings, key)
    return f"{count} server {'key' if count == 1 else 'keys'} revoked; running servers refuse them within seconds"
