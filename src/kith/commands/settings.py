"""`kith settings`: every setting with its value, default and meaning. The table of them is `run.config.Settings`."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Column, Table

from kith.commands.console import Data
from kith.run import config

commands = typer.Typer()


@commands.command()
def settings(data: Data = None) -> None:
    """Every setting with its value, default and meaning."""
    table = Table(Column("setting", no_wrap=True), "value", "default", "meaning")
    for row in config.table(config.load({"data": data})):
        table.add_row(row.name, row.value, row.default, row.meaning)
    Console().print(table)
