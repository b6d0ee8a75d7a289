"""The `kith` command, assembled: a file per command or family, each with what it does.

A new command is a file beside this one with a Typer called `commands`, and its line in `_IN_ORDER`.
Exit status: 0 done, 1 refused or failed (with a line that says what to do), 2 wrong usage.
"""

from __future__ import annotations

import typer

from kith.commands import (
    audit,
    backup,
    bench,
    dead,
    doctor,
    edges,
    generate,
    media,
    plan,
    replay,
    serve,
    settings,
    suggest,
    token,
    worker,
)
from kith.commands.console import fail
from kith.commands.demo import command as demo
from kith.core.errors import KithError

_HELP = "Kith: the follow graph, posts and home feeds of your app, as a service."
_IN_ORDER = (
    serve.commands,
    worker.commands,
    suggest.commands,
    audit.commands,
    backup.commands,
    media.commands,
    doctor.commands,
    token.commands,
    settings.commands,
    plan.commands,
    generate.commands,
    demo.commands,
    replay.commands,
    bench.commands,
    edges.importing,
    dead.commands,
    edges.exporting,
)
"""As `kith --help` lists them."""

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=_HELP)
for commands in _IN_ORDER:
    cli.add_typer(commands)


def main() -> None:
    """Run a command; an error of ours becomes one line and status 1."""
    try:
        cli()
    except KithError as error:
        fail(error.message)
    except OSError as error:
        fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error))
