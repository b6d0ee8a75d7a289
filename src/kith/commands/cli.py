"""The `kith` command, assembled: a file per command or family, each with what it does.

A new command is a file beside this one with a Typer called `commands`, and its name in `MODULES`. A file is imported
when its command is run, so that a server and its workers start without what the others need.
Exit status: 0 done, 1 refused or failed (with a line that says what to do), 2 wrong usage.
"""

from __future__ import annotations

import importlib
import sys

import typer

from kith import __version__
from kith.commands.console import fail
from kith.core.errors import KithError

_HELP = "Kith: the follow graph, posts and home feeds of your app, as a service."
MODULES = {
    "serve": "kith.commands.serve",
    "api": "kith.commands.serve",
    "standby": "kith.commands.standby",
    "promote": "kith.commands.promote",
    "worker": "kith.commands.worker",
    "flockdb": "kith.commands.flockdb",
    "follow": "kith.commands.standby",
    "suggest": "kith.commands.suggest",
    "audit": "kith.commands.audit",
    "backup": "kith.commands.backup",
    "restore": "kith.commands.backup",
    "rebuild": "kith.commands.rebuild",
    "move": "kith.commands.move",
    "sweep": "kith.commands.media",
    "doctor": "kith.commands.doctor",
    "token": "kith.commands.token",
    "settings": "kith.commands.settings",
    "plan": "kith.commands.plan",
    "generate": "kith.commands.generate",
    "demo": "kith.commands.demo.command",
    "replay": "kith.commands.replay",
    "bench": "kith.commands.bench",
    "import": "kith.commands.edges",
    "export": "kith.commands.edges",
    "dead": "kith.commands.dead",
    "log": "kith.commands.log",
}
"""Where each command is, as `kith --help` lists them."""


def main() -> None:
    """Run a command; an error of ours becomes one line and status 1."""
    if sys.argv[1:] == ["--version"]:
        print(f"kith {__version__}")
        return
    try:
        _assembled(sys.argv[1:])()
    except KithError as error:
        fail(error.message)
    except OSError as error:
        fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error))


def _assembled(arguments: list[str]) -> typer.Typer:
    """The command that is asked for; all of them where none is, or one that does not exist."""
    named = [name for name in arguments[:1] if name in MODULES]
    cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=_HELP)
    for module in dict.fromkeys(MODULES[name] for name in named or MODULES):
        cli.add_typer(importlib.import_module(module).commands)
    return cli
