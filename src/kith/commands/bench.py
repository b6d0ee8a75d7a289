"""`kith bench`: runs the benchmarks in the project's folder `bench`, which is not installed."""

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
    """Run benchmarks, from a checkout of the project: the named ones, or all. A wrong name lists them."""
    if not (_CHECKOUT / "bench" / "__main__.py").exists():
        raise BadRequest("the measurements are in the project's folder `bench`; run this from a checkout")
    sys.path.insert(0, str(_CHECKOUT))
    importlib.import_module("bench.__main__").main(context.args)
