"""`kith backup` and `kith restore`: the store at one moment, and the files of media that it names.

A backup is a folder with `store.mdb` and, where media are in a folder, `media/`. The store is copied first, so that
every file it names is there when files are copied; it gets its name last, so what has one is whole. A file never
changes, so one that is there already is not copied again: a backup that was cut short goes on where it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kith.core.errors import BadRequest, Conflict, StoreMismatch
from kith.engines.embedded.environment import STORE_FILE, Environment, alone, sync_folder, translated
from kith.home.sources import TIMELINES_NOTE
from kith.run import wiring
from kith.run.config import Settings

MEDIA = "media"
_UNFINISHED, _RESTORING = "unfinished", "restoring"


class BackedUp(NamedTuple):
    """What a backup holds."""

    store_bytes: int
    files: int
    elsewhere: str  # where media are that it does not hold: a bucket


def backup(settings: Settings, target: Path, progress: Callable[[int], None] = lambda _: None) -> BackedUp:
    """Copy the store, compacted and consistent, and the files of media, while servers run. `progress`: files so far.

    Errors: Conflict where there is a backup already; StoreFull, StoreUnavailable: then what is there is no backup yet,
    and doing it again goes on.
    """
    if (target / STORE_FILE).exists():
        raise Conflict(f"{target} already holds a backup; name an empty folder")
    with wiring.open_environment(settings, create=False) as environment:
        environment.copy_to(target / _UNFINISHED)
    files = 0
    if not settings.media_url:
        files = _copy_files(wiring.media_folder(settings), target / MEDIA, progress)
    (target / _UNFINISHED / STORE_FILE).replace(target / STORE_FILE)
    shutil.rmtree(target / _UNFINISHED)
    sync_folder(target)
    return BackedUp((target / STORE_FILE).stat().st_size, files, settings.media_url)


def restore(settings: Settings, source: Path, progress: Callable[[int], None] = lambda _: None) -> None:
    """Put a backup in place of the data folder, which must not hold a store yet."""
    folder = Path(settings.data)
    if not (source / STORE_FILE).is_file():
        raise BadRequest(f"{source} holds no backup")
    with alone(folder) as only:
        if not only:
            raise Conflict(f"a server uses {folder}; stop it first")
        if (folder / STORE_FILE).exists():
            raise Conflict(f"{folder} already holds a store; move it away, or name another folder with --data")
        _copy(source / STORE_FILE, folder / _RESTORING / STORE_FILE)
        _begin_anew(folder / _RESTORING, source)
        _copy_files(source / MEDIA, wiring.media_folder(settings), progress)
        (folder / _RESTORING / STORE_FILE).replace(folder / STORE_FILE)
        shutil.rmtree(folder / _RESTORING)
        (folder / STORE_FILE).chmod(0o600)
        sync_folder(folder)


def _begin_anew(copy: Path, source: Path) -> None:
    """Begin another history in a copy of the store of a backup. StoreMismatch where it cannot be read, and no copy."""
    try:
        with Environment(copy, create=False) as environment:
            environment.begin_history()
            environment.put_note(TIMELINES_NOTE, b"0")  # those that are there may be of a later state of this store
    except StoreMismatch as error:
        shutil.rmtree(copy)
        raise StoreMismatch(error.message.replace(str(copy), str(source)), **error.details) from error


def _copy_files(source: Path, target: Path, progress: Callable[[int], None]) -> int:
    """Copy what is below `source`, but for what is there already; how many files there are now."""
    done = 0
    for file in source.rglob("*"):
        copy = target / file.relative_to(source)
        if not file.is_file() or "#" in file.name:  # a file that is still being written has such a name
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
    """Copy a file so that it has its name once it is whole and on the disk."""
    with file.open("rb") as source, translated(f"copy to {copy.parent}", copy.parent):
        copy.parent.mkdir(parents=True, exist_ok=True)
        partial = copy.with_name(f"{copy.name}.part")
        with partial.open("wb") as written:
            shutil.copyfileobj(source, written, 1 << 20)
            written.flush()
            os.fsync(written.fileno())
        partial.replace(copy)
