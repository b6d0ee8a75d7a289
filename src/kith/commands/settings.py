"""`kith settings`: prints every setting with its value, default and meaning; `run.config.Settings` defines them."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table

from kith.commands.console import TABLE_CHARS, Data
from kith.run import config

commands = typer.Typer()


@commands.command()
def settings(data: Data = None) -> None:
    """Print every setting with its value, default and meaning."""
    console, rows = Console(highlight=False), config.table(config.load({"data": data}))
    if console.width >= TABLE_CHARS:
        table = Table(Column("setting", no_wrap=True), "value", "default", "meaning")
        for row in rows:
            table.add_row(row.name, escape(row.value), row.default, row.meaning)
        console.print(table)
        return
    for row in rows:
        default = f"  (default {row.default})" if row.default not in ("", row.value) else ""
        console.print(f"{row.name} = {row.value}{default}", markup=False, soft_wrap=True)
        console.print(Padding(row.meaning, (0, 0, 0, 4), expand=False), markup=False)
