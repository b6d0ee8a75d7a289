"""How long work shows itself in a terminal: how much is done, how fast, and how long it will take.

The bars of `kith import` stand in `cli`, beside the command.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Users:
    """A job over all users: one bar that first counts them, and then goes through them."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"),
        )  # fmt: skip
        self._bars = Progress(*columns, TimeRemainingColumn(), console=console)
        self._task = self._bars.add_task("counting", total=None, rate="")
        self._begun: tuple[float, int] | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def counted(self, users: int) -> None:
        """See `graph.suggestion_batch.Report`."""
        self._bars.update(self._task, rate=f"{users:,} users")

    def ranked(self, done: int, users: int) -> None:
        """See `graph.suggestion_batch.Report`. The rate is of this run, without what an earlier one did."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = (now, done)
        then, before = self._begun
        rate = (done - before) / (now - then) if now > then else 0
        self._bars.update(
            self._task, description="suggesting", completed=done, total=users, rate=f"{done:,} users, {rate:,.0f}/s"
        )
