"""Locks on a data folder: which processes use it, and for what. The kernel frees them however a process ends.

    servers.lock     locked (shared) by every process that serves the folder; holds the settings they share
    standby.url      locked (shared) by `kith standby` while it serves; holds its address

Work that one process must do alone has a lease instead: see `file_leases`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from kith.core.errors import StoreMismatch
from kith.engines.embedded.driver_errors import translate_errors

LOCK_FILE = "servers.lock"
_TRIES, _PAUSE_S = 20, 0.01
"""Tries at a lock that another process holds alone, and the pause after each."""


@contextlib.contextmanager
def serving(folder: Path, shared_settings: Mapping[str, str | int]) -> Iterator[bool]:
    """Hold the folder as a server. Yields whether this is the folder's first server.

    Any number of servers may share a folder if they have the same settings of the store (`shared_settings`).
    StoreMismatch if another server has different settings, or if an import or restore holds the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+") as file:
        is_first = _enter(file, folder, fcntl.LOCK_EX, fcntl.LOCK_SH) == fcntl.LOCK_EX
        if is_first:
            file.truncate(0)
            file.write(json.dumps(shared_settings))
            file.flush()
            _enter(file, folder, fcntl.LOCK_SH)  # not atomic: another server may have been the first in between
        file.seek(0)
        their_settings = json.loads(file.read() or "{}")
        differing = sorted(key for key in shared_settings if their_settings.get(key) != shared_settings[key])
        if differing:
            settings_text = ", ".join(
                f"{key}={their_settings.get(key)} (here {shared_settings[key]})" for key in differing
            )
            raise StoreMismatch(f"another server uses {folder} with {settings_text}; start this one with the same")
        yield is_first


@contextlib.contextmanager
def hold_beside_servers(folder: Path) -> Iterator[None]:
    """Hold the folder together with any running servers. StoreMismatch if an import or restore holds it alone."""
    with (folder / LOCK_FILE).open("a+") as file:
        _enter(file, folder, fcntl.LOCK_SH)
        yield


def _enter(file: IO[str], folder: Path, *hows: int) -> int:
    """Take the first of these locks that is free; returns which. A server that starts holds it alone for a moment.

    StoreMismatch if another process holds it alone for longer.
    """
    for _ in range(_TRIES):
        for how in hows:
            if _lock(file, how):
                return how
        time.sleep(_PAUSE_S)
    raise StoreMismatch(f"an import or restore holds {folder}; wait for it, or stop it first")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold the folder alone. Yields False if another process holds it; then this one does not."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+") as file:
        yield _lock(file, fcntl.LOCK_EX)


def in_use(folder: Path) -> str:
    """The error for a folder that `alone` could not hold."""
    return f"a server uses {folder}, or an import, a restore or a rebuild does; stop it first, or wait for it"


@contextlib.contextmanager
def publish_text(file: Path, text: str) -> Iterator[None]:
    """Keep `text` in a locked file while the context is open. `published_text` ignores the file of a killed process."""
    with translate_errors(f"write {file}", file.parent):
        locked_file = file.open("a+")
    with locked_file:
        fcntl.flock(locked_file, fcntl.LOCK_SH)  # waits while another process is in `published_text`
        with translate_errors(f"write {file}", file.parent):
            file.write_text(text)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def published_text(file: Path) -> str:
    """The text of a file of `publish_text`; empty if its process has ended."""
    try:
        with file.open("r+") as locked_file:
            return "" if _lock(locked_file, fcntl.LOCK_EX) else locked_file.read()
    except FileNotFoundError:
        return ""


def _lock(file: IO[str], mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
