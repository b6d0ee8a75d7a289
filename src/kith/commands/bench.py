"""`kith bench`: hands over to the measurements in the project's folder `bench`; they are not installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import typer

from kith.core.errors import BadRequest

commands = typer.Typer()
_CHECKOUT = Path(__file__).resolve().parents[3]


@commands.command("bench", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run_bench(context: typer.Context) -> None:
    """Measure, from a checkout of the project: the figures that are named, or all. A wrong name lists them."""
    if not (_CHECKOUT / "bench" / "__main__.py").exists():
        raise BadRequest("the measurements are in the project's folder `bench`; run this from a checkout")
    sys.path.insert(0, str(_CHECKOUT))
    importlib.import_module("bench.__main__").main(context.args)
