"""`kith dead`: dead letters, events that a consumer gave up on, for an operator to inspect, replay or drop."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from kith.commands.console import Data, out, say
from kith.core.errors import BadRequest
from kith.log import runner
from kith.log.runner import FAILURES_RELOAD_S
from kith.log.store import Failure
from kith.run import config
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.opening import wiring

commands = typer.Typer(name="dead", no_args_is_help=True, help="Events that no worker could handle.")
DeadEventName = Annotated[str, typer.Argument(help="GROUP/MARK, as `kith dead list` names it; or: all.")]


@commands.command("list")
def run_list(data: Data = None) -> None:
    """List every dead event with its error."""
    failures = dead_events(config.load({"data": data}))
    if not failures:
        say("no event is dead")
        return
    table = Table("event", "tries", "failed at", "error")
    for name, failure in failures.items():
        failed_at = datetime.fromtimestamp(failure.failed_at_ms / 1000, UTC).isoformat(timespec="seconds")
        table.add_row(name, str(failure.tries), failed_at, escape(failure.error))
    out.print(table)


@commands.command("show")
def run_show(event: DeadEventName, data: Data = None) -> None:
    """Print dead events as JSON, one per line."""
    for failure in chosen(dead_events(config.load({"data": data})), event):
        print(msgspec.json.encode(failure).decode())


@commands.command("replay")
def run_replay(event: DeadEventName, data: Data = None) -> None:
    """Send dead events to their worker again."""
    count = settle(config.load({"data": data}), event, replay=True)
    out.print(f"{count} sent back; a running worker takes them up within {FAILURES_RELOAD_S:.0f} s")


@commands.command("drop")
def run_drop(event: DeadEventName, data: Data = None) -> None:
    """Delete dead events for good."""
    out.print(f"{settle(config.load({'data': data}), event, replay=False)} dropped")


def dead_events(settings: Settings) -> dict[str, Failure]:
    """The dead events of every registered consumer, by name."""

    async def run() -> dict[str, Failure]:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            failures_by_group = [await runner.dead(stores.log, group) for group in CONSUMERS]
            return {name: failure for of_group in failures_by_group for name, failure in of_group.items()}

    return asyncio.run(run())


def chosen(failures: dict[str, Failure], name: str) -> list[Failure]:
    """The dead event of this name, or "all" of them. Errors: BadRequest for an unknown name."""
    if name != "all" and name not in failures:
        raise BadRequest(f"no dead event is called {name!r}; `kith dead list` names them")
    return list(failures.values()) if name == "all" else [failures[name]]


def settle(settings: Settings, name: str, *, replay: bool) -> int:
    """Replay or drop one dead event by its name, or "all"; returns how many."""
    failures = chosen(dead_events(settings), name)

    async def run() -> int:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            for failure in failures:
                await (runner.replay if replay else runner.drop)(stores.log, failure)
            return len(failures)

    return asyncio.run(run())
