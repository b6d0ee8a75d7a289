"""Who holds a data folder, and for what: locks that the kernel frees however a process ends.

servers.lock     held (shared) by every process that serves the folder, with the settings they agreed on
<job>.lock       held by the process that runs that job, such as computing suggestions for everyone
numbers/<n>      held by the process that makes ids with node number n
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from kith.core.errors import Conflict, Overloaded, StoreMismatch

LOCK_FILE = "servers.lock"
NODE_NUMBERS = "numbers"


@contextlib.contextmanager
def node_number(folder: Path, numbers_max: int) -> Iterator[int]:
    """Hold the least number below `numbers_max` that no other process of this folder holds; Overloaded if none is free.

    It is a lock, not a setting or a counter: nobody has to number the processes, two running ones never hold the same
    number, and the kernel frees a number however its process ends.
    """
    (folder / NODE_NUMBERS).mkdir(exist_ok=True)
    for number in range(numbers_max):
        with (folder / NODE_NUMBERS / str(number)).open("a") as file:
            if _lock(file, fcntl.LOCK_EX):
                yield number
                return
    raise Overloaded(f"{numbers_max} processes use {folder}; stop some")


@contextlib.contextmanager
def serving(folder: Path, agreed: Mapping[str, str | int]) -> Iterator[bool]:
    """Hold the folder as a server; yields whether this is its first server.

    Any number of servers may share a folder, if they have the same settings of the store (`agreed`). StoreMismatch if
    another server has different ones, or an import or restore holds the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+") as file:
        first = _lock(file, fcntl.LOCK_EX)
        if first:
            file.truncate(0)
            file.write(json.dumps(agreed))
            file.flush()
            fcntl.flock(file, fcntl.LOCK_SH)
        elif _lock(file, fcntl.LOCK_SH):
            file.seek(0)
            theirs = json.loads(file.read() or "{}")
            differing = sorted(key for key in agreed if theirs.get(key) != agreed[key])
            if differing:
                named = ", ".join(f"{key}={theirs.get(key)} (here {agreed[key]})" for key in differing)
                raise StoreMismatch(f"another server uses {folder} with {named}; start this one with the same")
        else:
            raise _held(folder)
        yield first


@contextlib.contextmanager
def beside_servers(folder: Path) -> Iterator[None]:
    """Hold the folder together with running servers, if any; StoreMismatch if an import or restore holds it alone."""
    with (folder / LOCK_FILE).open("a+") as file:
        if not _lock(file, fcntl.LOCK_SH):
            raise _held(folder)
        yield


@contextlib.contextmanager
def only_run(folder: Path, job: str) -> Iterator[None]:
    """Hold the lock of a job on a folder; Conflict if another process runs that job."""
    with (folder / f"{job}.lock").open("a") as file:
        if not _lock(file, fcntl.LOCK_EX):
            raise Conflict(f"`kith {job}` runs over {folder} already; wait for it, or stop it first")
        yield


def _held(folder: Path) -> StoreMismatch:
    return StoreMismatch(f"an import or restore holds {folder}; wait for it, or stop it first")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold the folder alone; yields False if a server has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+") as file:
        yield _lock(file, fcntl.LOCK_EX)


def _lock(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
