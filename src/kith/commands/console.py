"""What commands share: output, progress displays, and common options."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:  # most commands start without this import
    from kith.moving.store_comparison import ComparisonResult

Data = Annotated[str | None, typer.Option("--data", help="Data folder; default: the setting `data`.")]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on; 0.0.0.0: all addresses.")]
Port = Annotated[int | None, typer.Option("--port", help="Port to listen on.")]

TABLE_CHARS = 120
"""Terminals narrower than this many characters get a list instead of a wide table."""
_RATE_AFTER_S = 1.0
"""Seconds of growth after which a rate is shown."""
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def say(line: str) -> None:
    """Print a line without markup, because it may hold names given by the user."""
    out.print(line, markup=False)


def fail(message: str) -> NoReturn:
    """Print why a command is refused, and exit with status 1."""
    err.print(f"kith: {message}", style="red", markup=False)
    sys.exit(1)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show a growing number, such as `1,200 edges audited`; yields a function that takes the number."""
    with err.status(f"0 {what}") as status:
        yield lambda count: status.update(f"{count:,} {what}")


@contextmanager
def steps() -> Iterator[Callable[[str, int], None]]:
    """Show the progress of the current step; a finished step stays on screen with its last number."""
    shown = ("", 0)
    with err.status("beginning") as status:

        def tell(what: str, number: int) -> None:
            nonlocal shown
            if shown[0] not in ("", what):
                err.print(f"{shown[1]:,} {shown[0]}", markup=False)
            shown = (what, number)
            status.update(f"{number:,} {what}")

        yield tell
    if shown[0]:
        err.print(f"{shown[1]:,} {shown[0]}", markup=False)


def show_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table, or one line each where that is too wide, as in a pipe. The first cell names its row."""
    if out.width >= TABLE_CHARS:
        table = Table(*names)
        for row in rows:
            table.add_row(*row)
        out.print(table)
        return
    for first, *rest in rows:
        say(f"{first}: " + ", ".join(f"{name} {value}" for name, value in zip(names[1:], rest, strict=True)))


def show_compared(results: Sequence[ComparisonResult]) -> None:
    """Print how many rows of two stores were compared, and examples of those that differ."""
    table = Table("compared", "rows of both", "differing")
    for result in results:
        table.add_row(result.kind, f"{result.rows:,}", f"{result.differing:,}")
    out.print(table)
    for result in results:
        for example in result.examples:
            say(f"differs: {result.kind} {example}")


class Rate:
    """The rate of a growing number since this run began at `first`, so work of an earlier run does not count."""

    def __init__(self, first: int = 0, now_s: Callable[[], float] = time.monotonic) -> None:
        self._first, self._began_s, self._now_s = first, now_s(), now_s

    def of(self, number: int) -> str:
        """The rate as text for a bar, such as `, 1,200/s`; empty during the first second."""
        seconds = self._now_s() - self._began_s
        return f", {(number - self._first) / seconds:,.0f}/s" if seconds >= _RATE_AFTER_S else ""


def bars() -> Progress:
    """Progress bars with share done, rate (the field `rate`) and remaining time."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    return Progress(*columns, TimeRemainingColumn(), console=err)
