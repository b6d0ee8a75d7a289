"""`kith suggest`: computes suggestions of whom to follow for every user, whether servers run or not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.progress import Progress

from kith.commands import console
from kith.commands.console import Data, out
from kith.run import config
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.suggestions.batch import BatchObserver, BatchResult, suggest_everyone

commands = typer.Typer()
_NICE = 10
"""Niceness of this long computation, so that it does not slow a server on the same machine."""


@commands.command("suggest")
def run_suggest(data: Data = None) -> None:
    """Compute suggestions for every user, at low priority. If it is interrupted, the same command resumes it."""
    os.nice(_NICE)
    with _users_bar() as report:
        result = suggest_all(config.load({"data": data}), report)
    if result.ranked_before:
        out.print(f"went on after {result.ranked_before:,} users")
    out.print(f"suggestions of {result.ranked:,} users kept")


def suggest_all(settings: Settings, report: BatchObserver) -> BatchResult:
    """Compute suggestions for every user; running servers use them at once. A lease allows one run at a time."""

    async def run() -> BatchResult:
        async with (
            wiring.open_stores(settings, "chore", create=False) as stores,
            stores.leases.hold_or_conflict("suggest") as lease,
        ):
            everyone = suggest_everyone(
                wiring.suggestions(settings, stores),
                first=settings.suggestions_kept,
                fresh_ms=settings.suggestions_hours * 3_600_000,
                report=report,
            )
            return await lease.run_while_held(everyone)

    return asyncio.run(run())


class _UsersBar:
    """Shows the counting of users, then the progress through them. See `suggestions.batch.BatchObserver`."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task = bars.add_task("counting", total=None, rate="")
        self._rate: console.Rate | None = None

    def counted(self, users: int) -> None:
        self._bars.update(self._task, rate=f"{users:,} users")

    def ranked(self, users_done: int, users: int) -> None:
        if self._rate is None:
            self._rate = console.Rate(users_done)
        rate = f"{users_done:,} users{self._rate.of(users_done)}"
        self._bars.update(self._task, description="suggesting", completed=users_done, total=users, rate=rate)


@contextmanager
def _users_bar() -> Iterator[_UsersBar]:
    with console.bars() as bars:
        yield _UsersBar(bars)
