"""How long work shows itself in a terminal: how much is done, how fast, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Import:
    """An import: a bar that reads the file, and one that writes what was sorted. See `transfer.loading.Progress`."""

    def __init__(self, bars: Progress, size: int) -> None:
        self._bars = bars
        self._reading = bars.add_task("reading", total=size, rate="")
        self._writing: TaskID | None = None

    def reading(self, bytes_read: int, rows: int) -> None:
        task = self._bars.tasks[self._reading]
        rate = rows / task.elapsed if task.elapsed else 0
        self._bars.update(self._reading, completed=bytes_read, rate=f"{rows:,} rows, {rate:,.0f}/s")

    def writing(self, rows_done: int, rows: int) -> None:
        if self._writing is None:
            self._bars.update(self._reading, completed=self._bars.tasks[self._reading].total)
            self._writing = self._bars.add_task("writing", total=rows, rate="")
        task = self._bars.tasks[self._writing]
        rate = rows_done / task.elapsed if task.elapsed else 0
        self._bars.update(self._writing, completed=rows_done, rate=f"{rows_done:,} edges, {rate:,.0f}/s")


class Users:
    """A job over all users: it counts them, and then goes through them. See `suggestions.batch.BatchObserver`."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task = bars.add_task("counting", total=None, rate="")
        self._begun: tuple[float, int] | None = None

    def counted(self, users: int) -> None:
        self._bars.update(self._task, rate=f"{users:,} users")

    def ranked(self, done: int, users: int) -> None:
        now = time.monotonic()
        if self._begun is None:
            self._begun = (now, done)
        then, before = self._begun  # the rate is of this run, without what an interrupted one did
        rate = (done - before) / (now - then) if now > then else 0
        self._bars.update(
            self._task, description="suggesting", completed=done, total=users, rate=f"{done:,} users, {rate:,.0f}/s"
        )


@contextmanager
def importing(console: Console, size: int) -> Iterator[Import]:
    """The bars of an import. `size`: bytes of the file."""
    with _bars(console) as bars:
        yield Import(bars, size)


@contextmanager
def users(console: Console) -> Iterator[Users]:
    """The bar of a job over all users."""
    with _bars(console) as bars:
        yield Users(bars)


def _bars(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    return Progress(*columns, TimeRemainingColumn(), console=console)
