"""`kith backup` and `kith restore`: the store at one moment, and the files of media that it names.

A backup is a folder with `store.mdb` and, unless media are in a bucket, `media/`. The store is copied first, so that
every file it names is there when files are copied. It gets its name last, so a backup with a `store.mdb` is whole.
Files never change, so those that are there already are not copied again: a backup that was cut short resumes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kith.commands import console
from kith.commands.console import Data, say
from kith.core.errors import BadRequest, Conflict, StoreMismatch
from kith.engines.embedded import fanout_state
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.folder_locks import alone
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.store_file import STORE_FILE, sync_folder
from kith.run import config
from kith.run.config import Settings
from kith.run.folders import media_folder, open_environment

commands = typer.Typer()
MEDIA = "media"
_UNFINISHED, _RESTORING = "unfinished", "restoring"
"""Folders in which a store is made before it gets its name: in a backup, and in a data folder."""


@commands.command("backup")
def run_backup(target: Annotated[Path, typer.Argument(help="An empty folder.")], data: Data = None) -> None:
    """Copy the store, compacted and consistent, and the files of media, while servers run. Done again, it goes on."""
    with console.counting("files of media copied") as progress:
        made = backup(config.load({"data": data}), target, progress)
    if made.elsewhere:
        say(f"pictures and videos are not in it: back up {made.elsewhere} too")
    say(
        f"store of {made.store_bytes / 1e6:,.1f} MB and {made.files:,} files of media in {target}; "
        f"bring it back with: kith restore {target} --data NEW_FOLDER"
    )


@commands.command("restore")
def run_restore(source: Annotated[Path, typer.Argument(help="A backup.")], data: Data = None) -> None:
    """Put a backup into a data folder that has no store yet."""
    settings = config.load({"data": data})
    with console.counting("files of media copied") as progress:
        restore(settings, source, progress)
    say(f"restored into {settings.data}; `kith audit --data {settings.data}` proves it whole")


class BackedUp(NamedTuple):
    """What a backup holds."""

    store_bytes: int
    files: int
    elsewhere: str  # the bucket of media, which it does not hold; empty where it holds them


def backup(settings: Settings, target: Path, progress: Callable[[int], None] = lambda _: None) -> BackedUp:
    """Copy the store, compacted and consistent, and the files of media, while servers run. `progress`: files so far.

    Errors: Conflict where `target` holds a backup already; StoreFull and StoreUnavailable, after which it holds none
    yet, and the next call resumes.
    """
    if (target / STORE_FILE).exists():
        raise Conflict(f"{target} already holds a backup; name an empty folder")
    with open_environment(settings, create=False) as environment:
        environment.copy_to(target / _UNFINISHED)
    files = 0
    if not settings.media_url:
        files = _copy_files(media_folder(settings), target / MEDIA, progress)
    (target / _UNFINISHED / STORE_FILE).replace(target / STORE_FILE)
    shutil.rmtree(target / _UNFINISHED)
    sync_folder(target)
    return BackedUp((target / STORE_FILE).stat().st_size, files, settings.media_url)


def restore(settings: Settings, source: Path, progress: Callable[[int], None] = lambda _: None) -> None:
    """Put a backup into the data folder. `progress`: files so far.

    Errors: BadRequest where `source` is no backup; Conflict where a server uses the folder, or it holds a store.
    """
    folder = Path(settings.data)
    if not (source / STORE_FILE).is_file():
        raise BadRequest(f"{source} holds no backup")
    with alone(folder) as only:
        if not only:
            raise Conflict(f"a server uses {folder}; stop it first")
        if (folder / STORE_FILE).exists():
            raise Conflict(f"{folder} already holds a store; move it away, or name another folder with --data")
        shutil.rmtree(folder / _RESTORING, ignore_errors=True)  # of a restore that was cut short
        _copy(source / STORE_FILE, folder / _RESTORING / STORE_FILE)
        _begin_anew(folder / _RESTORING, source)
        _copy_files(source / MEDIA, media_folder(settings), progress)
        (folder / JOURNAL_FILE).unlink(missing_ok=True)  # of a store that was moved away
        sync_folder(folder)
        (folder / _RESTORING / STORE_FILE).replace(folder / STORE_FILE)
        shutil.rmtree(folder / _RESTORING)
        (folder / STORE_FILE).chmod(0o600)
        sync_folder(folder)


def _begin_anew(copy: Path, source: Path) -> None:
    """Begin another history in the copied store. If it cannot be read, remove the copy and raise StoreMismatch."""
    try:
        with Environment(copy, create=False) as environment:
            environment.begin_history()
            environment.put_note(fanout_state.NAME_NOTE, b"0")  # timelines that lie there may be of a later state
            environment.sync()  # the copy leaves its journal behind
    except StoreMismatch as error:
        shutil.rmtree(copy)
        raise StoreMismatch(error.message.replace(str(copy), str(source)), **error.details) from error


def _copy_files(source: Path, target: Path, progress: Callable[[int], None]) -> int:
    """Copy the files below `source` that are not below `target` yet; how many there are now."""
    done = 0
    for file in source.rglob("*"):
        copy = target / file.relative_to(source)
        if not file.is_file() or "#" in file.name:  # the name of a file that is being written
            continue
        try:
            if not copy.exists() or copy.stat().st_size != file.stat().st_size:
                _copy(file, copy)
        except FileNotFoundError:  # deleted meanwhile, by `kith sweep` or with its owner
            continue
        done += 1
        progress(done)
    return done


def _copy(file: Path, copy: Path) -> None:
    """Copy a file; it gets its name once it is whole and on the disk."""
    with file.open("rb") as source, translated(f"copy to {copy.parent}", copy.parent):
        copy.parent.mkdir(parents=True, exist_ok=True)
        partial = copy.with_name(f"{copy.name}.part")
        with partial.open("wb") as written:
            shutil.copyfileobj(source, written, 1 << 20)
            written.flush()
            os.fsync(written.fileno())
        partial.replace(copy)
