"""What commands share: where they print, how they show that work goes on, and the options that several of them take."""

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

if TYPE_CHECKING:  # commands start without what few of them need
    from kith.moving.comparing import Compared

Data = Annotated[str | None, typer.Option("--data", help="Data folder; default: the setting `data`.")]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on; 0.0.0.0: all addresses.")]
Port = Annotated[int | None, typer.Option("--port", help="Port to listen on.")]

TABLE_CHARS = 120
"""Narrower terminals get a list instead of a table of many columns."""
_RATE_AFTER_S = 1.0
"""For how long a number must have grown before its rate says anything."""
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def say(line: str) -> None:
    """Print a line as it is: names given by the user are not taken for markup."""
    out.print(line, markup=False)


def fail(message: str) -> NoReturn:
    """Say why a command is refused, and end with status 1."""
    err.print(f"kith: {message}", style="red", markup=False)
    sys.exit(1)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show a number that grows, such as `1,200 edges audited`; yields what takes the number."""
    with err.status(f"0 {what}") as status:
        yield lambda count: status.update(f"{count:,} {what}")


@contextmanager
def steps() -> Iterator[Callable[[str, int], None]]:
    """Show how far the step is that is under way; one that is over stays, with its last number."""
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
    """Print rows as a table; as a line each where that is too wide, as in a pipe. The first of a row names it."""
    if out.width >= TABLE_CHARS:
        table = Table(*names)
        for row in rows:
            table.add_row(*row)
        out.print(table)
        return
    for first, *rest in rows:
        say(f"{first}: " + ", ".join(f"{name} {value}" for name, value in zip(names[1:], rest, strict=True)))


def show_compared(found: Sequence[Compared]) -> None:
    """Print how many rows of two stores were compared, and which differ."""
    table = Table("compared", "rows of both", "differing")
    for one in found:
        table.add_row(one.kind, f"{one.rows:,}", f"{one.differing:,}")
    out.print(table)
    for one in found:
        for example in one.examples:
            say(f"differs: {one.kind} {example}")


class Rate:
    """How fast a number grows, from what it was at first: what an earlier run did counts for nothing."""

    def __init__(self, first: int = 0, now_s: Callable[[], float] = time.monotonic) -> None:
        self._first, self._began_s, self._now_s = first, now_s(), now_s

    def of(self, number: int) -> str:
        """`, 1,200/s` for a bar; empty until it can be told."""
        seconds = self._now_s() - self._began_s
        return f", {(number - self._first) / seconds:,.0f}/s" if seconds >= _RATE_AFTER_S else ""


def bars() -> Progress:
    """Bars that show how much is done, how fast (the field `rate`), and how long it will take."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    return Progress(*columns, TimeRemainingColumn(), console=err)
