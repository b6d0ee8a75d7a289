"""`kith log`: shows the size of the event log, and the leases that keep it for its readers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape
from rich.table import Table

from kith.commands.console import Data, out, say
from kith.core.errors import BadRequest
from kith.log.store import LogStore
from kith.run import config
from kith.run.config import Settings
from kith.run.opening import wiring

commands = typer.Typer(name="log", no_args_is_help=True, help="The event log, and the leases that keep it.")


@commands.command("show")
def run_show(data: Data = None) -> None:
    """Show how many events and bytes the log keeps, and each lease with its holder's lag."""
    settings = config.load({"data": data})

    async def run() -> tuple[int, int, Sequence[LeaseShown]]:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            log = stores.of_folder("the size of a log").log
            first, last = log.bounds()
            return last - first + 1, log.size(), await leases_shown(log)

    events, size, leases = asyncio.run(run())
    out.print(f"{events:,} events in {size / 1e6:,.1f} MB")
    table = Table("lease", "events behind", "until", "")
    for lease in leases:
        until = datetime.fromtimestamp(lease.until_ms / 1000, UTC).isoformat(timespec="seconds")
        table.add_row(escape(lease.name), f"{lease.events:,}", until, "lost" if lease.lost else "")
    if leases:
        out.print(table)


@commands.command("release")
def run_release(
    lease: Annotated[str, typer.Argument(help="Name of the lease, as in `kith log show`.")], data: Data = None
) -> None:
    """Release a lease, so that the log may drop its events. A holder that returns too late gets an error."""
    release(config.load({"data": data}), lease)
    say(f"{lease} is released")


class LeaseShown(NamedTuple):
    """A lease with the lag of its holder in events."""

    name: str
    events: int
    until_ms: int
    lost: bool


async def leases_shown(log: LogStore) -> Sequence[LeaseShown]:
    """All leases of a log, with lags."""
    return [
        LeaseShown(lease.name, (await log.behind(lease.at)).events, lease.until_ms, lease.lost)
        for lease in await log.leases()
    ]


def release(settings: Settings, name: str) -> None:
    """Release a lease. Errors: BadRequest for an unknown name."""

    async def run() -> None:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            if name not in {lease.name for lease in await stores.log.leases()}:
                raise BadRequest(f"no lease is called {name!r}; `kith log show` names them")
            await stores.log.release(name)

    asyncio.run(run())
