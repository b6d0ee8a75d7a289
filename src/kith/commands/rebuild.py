"""`kith rebuild`: rebuilds a data folder from the log of another, from nothing or on top of a restored backup."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from kith.commands import console
from kith.commands.console import say
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest, Conflict
from kith.engines.embedded import segments
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.folder_locks import alone, in_use
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.rebuild import accept_as_is, check_format, rebuild
from kith.engines.embedded.store_file import STORE_FILE
from kith.log.lease_holder import LEASE_RENEWAL_MS, LogLeaseHolder
from kith.run import config
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.opening.stores import OpenStores

commands = typer.Typer()


@commands.command("rebuild")
def run_rebuild(
    folder: Annotated[Path, typer.Argument(help="A new folder, or one that a backup was restored into.")],
    log: Annotated[Path | None, typer.Option("--from", help="The data folder whose log is replayed.")] = None,
    as_is: Annotated[
        bool, typer.Option(help="Accept an unfinished rebuild as it is, if the rest of its log is lost.")
    ] = False,
) -> None:
    """Replay a store's log: all of it into a new folder, or the events that a restored backup lacks.

    Media files are not in the log: copy `media` as well. Timelines are rebuilt when readers come.
    """
    if as_is == (log is not None):
        raise BadRequest(
            "name the folder of the log with --from; or use --as-is to accept a folder whose rebuild was interrupted"
        )
    if log is None:
        _take_as_it_is(folder)
        say(f"{folder} is as far as its rebuild came, and `kith serve --data {folder}` serves it")
        return
    if folder.resolve() == log.resolve():
        raise BadRequest(f"{folder} is the folder of that log; name another one to rebuild into")
    check_format(log)
    events = asyncio.run(_run(config.load({"data": str(log)}), folder))
    say(f"{events:,} events done; {folder} is what the log of {log} says, and `kith serve --data {folder}` serves it")


def _take_as_it_is(folder: Path) -> None:
    if not (folder / STORE_FILE).exists():
        raise BadRequest(f"{folder} holds no Kith data")
    with alone(folder) as is_alone:
        if not is_alone:
            raise Conflict(in_use(folder))
        with Environment(folder) as target:
            if not accept_as_is(target):
                raise BadRequest(f"no rebuild of {folder} was cut short")


async def _run(settings: Settings, folder: Path) -> int:
    """Rebuild into a folder; returns the number of events."""
    async with wiring.open_stores(settings, "chore", create=False) as source:
        with alone(folder) as is_alone:
            if not is_alone:
                raise Conflict(in_use(folder))
            is_new = not (folder / STORE_FILE).exists()
            try:
                with Environment(folder) as target, console.counting("events done") as progress:
                    return await rebuild_from(source, target, progress)
            except Conflict:
                if is_new:  # the new store is useless; remove it, so that a backup may be restored there
                    for name in (STORE_FILE, f"{STORE_FILE}-lock", JOURNAL_FILE):
                        (folder / name).unlink(missing_ok=True)
                raise


async def rebuild_from(source: OpenStores, target: Environment, progress: Callable[[int], None]) -> int:
    """Rebuild from a store that servers may write to. A lease keeps its log from the target's position on."""
    log_lease = LogLeaseHolder(source.log, f"rebuild/{secrets.token_hex(4)}", wall_ms)
    environment = source.of_folder("a rebuild").environment

    async def keep() -> None:
        last = segments.last_event(target)
        await log_lease.keep(environment.positions.of(max(0, last - 1)))  # a segment includes the event before it

    await keep()
    rebuilding = asyncio.create_task(asyncio.to_thread(rebuild, environment, target, progress))
    try:
        while not (await asyncio.wait([rebuilding], timeout=LEASE_RENEWAL_MS / 1000))[0]:
            await keep()
        return rebuilding.result()
    finally:
        await log_lease.release()
