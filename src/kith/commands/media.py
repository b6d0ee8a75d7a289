"""`kith sweep`: removes orphaned media files, which no record names."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kith.commands.console import Data, say
from kith.core.clock import wall_ms
from kith.core.ids import NODES_MAX
from kith.leases.node_numbers import node_number
from kith.media.library import SweepResult
from kith.run import config, posts_and_notices, services
from kith.run.config import Settings
from kith.run.opening import wiring

commands = typer.Typer()


@commands.command("sweep")
def run_sweep(
    data: Data = None, dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; remove nothing.")] = False
) -> None:
    """Remove media files that no record names, once they are an hour old. Servers may run."""
    files, removed, size = sweep(config.load({"data": data}), remove=not dry_run)
    say(f"{removed:,} of {files:,} files {'would go' if dry_run else 'removed'}, {size / 1e6:,.1f} MB")


def sweep(settings: Settings, *, remove: bool) -> SweepResult:
    """Find media files that no record names, and delete them if `remove`; servers may run."""

    async def run() -> SweepResult:
        async with (
            wiring.open_stores(settings, "chore", create=False) as stores,
            stores.leases.hold_or_conflict("sweep"),
            node_number(stores.leases, NODES_MAX) as number,
        ):
            media = services.media_over(settings, posts_and_notices.posts_over(stores, number), stores.metrics)
            return await media.sweep(wall_ms(), remove=remove)

    return asyncio.run(run())
