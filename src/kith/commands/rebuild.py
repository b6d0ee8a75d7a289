"""`kith rebuild`: makes a data folder what the log of another says, from nothing or from a backup on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kith.commands import console
from kith.commands.console import say
from kith.core.errors import BadRequest, Conflict
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.folder_locks import alone
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.rebuild import check_format, rebuild
from kith.engines.embedded.store_file import STORE_FILE

commands = typer.Typer()


@commands.command("rebuild")
def run_rebuild(
    folder: Annotated[Path, typer.Argument(help="A new folder, or one that a backup was restored into.")],
    log: Annotated[Path, typer.Option("--from", help="The data folder whose log is done again.")],
) -> None:
    """Do again what the log of a store holds: all of it into a new folder, or what a restored backup lacks.

    Pictures and videos are files: copy `media` beside it. Timelines are built anew as readers come.
    """
    if folder.resolve() == log.resolve():
        raise BadRequest(f"{folder} is the folder of that log; name another one to rebuild into")
    check_format(log)
    with Environment(log, create=False) as source, alone(folder) as only:
        if not only:
            raise Conflict(f"a server uses {folder}; stop it first")
        is_new = not (folder / STORE_FILE).exists()
        try:
            with Environment(folder) as target, console.counting("events done") as progress:
                done = rebuild(source, target, progress)
        except Conflict:
            if is_new:  # it is of no use as it is, and a backup may be restored there
                for name in (STORE_FILE, f"{STORE_FILE}-lock", JOURNAL_FILE):
                    (folder / name).unlink(missing_ok=True)
            raise
    say(f"{done:,} events done; {folder} is what the log of {log} says, and `kith serve --data {folder}` serves it")
