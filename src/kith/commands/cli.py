"""Assembles the `kith` command from a file per command or family of commands.

A new command is a file beside this one with a Typer called `commands`, and its name in `MODULES`. A file is imported
only when its command runs, so that a server and its workers start without the imports of other commands.
Exit status: 0 done, 1 refused or failed (with a line that says what to do), 2 wrong usage.
"""

from __future__ import annotations

import errno
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
"""The module of each command, in the order of `kith --help`."""


def main() -> None:
    """Run a command; a KithError or OSError becomes one line and exit status 1."""
    if sys.argv[1:] == ["--version"]:
        print(f"kith {__version__}")
        return
    try:
        _assembled(sys.argv[1:])()
    except KithError as error:
        fail(error.message)
    except OSError as error:
        fail(_message_of(error))


def _message_of(error: OSError) -> str:
    """An error of the system in one line."""
    from kith.engines.embedded.owners import denied  # noqa: PLC0415 - imported only on a failure

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no room on the disk" + (f" for {error.filename}" if error.filename else "") + "; free some and repeat"
    if reason := denied(error):
        return reason
    return f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error)


def _assembled(arguments: list[str]) -> typer.Typer:
    """A Typer with the module of the named command; with all modules where no known command is named."""
    known = [name for name in arguments[:1] if name in MODULES]
    cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=_HELP)
    for module in dict.fromkeys(MODULES[name] for name in known or MODULES):
        cli.add_typer(importlib.import_module(module).commands)
    return cli
