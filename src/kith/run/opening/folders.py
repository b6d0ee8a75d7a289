"""A data folder: its paths, how its store is opened, and how servers lock it.

The store's own layout is in `engines/embedded`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from kith.core.errors import StoreMismatch
from kith.engines.embedded import bulk, folder_locks, rebuild, store_role
from kith.engines.embedded.environment import Environment
from kith.graph.graphs import BUILT_IN
from kith.run.config import Settings


def media_folder(settings: Settings) -> Path:
    """Folder of the files of pictures and videos, unless they are in a bucket."""
    return Path(settings.data) / "media"


def metrics_folder(settings: Settings) -> Path:
    """Folder where each process writes its counts, so any process can answer `/metrics` for all."""
    return Path(settings.data) / "metrics"


def timelines_folder(settings: Settings) -> Path:
    """Folder where the fan-out worker keeps timelines."""
    return Path(settings.timelines_folder or Path(settings.data) / "timelines")


def open_environment(settings: Settings, *, create: bool = True, follows: bool = False) -> Environment:
    """Open the store of the data folder, with the graphs of the settings declared. `follows`: see `Environment`.

    Errors: StoreMismatch where the settings name distributed engines, because the caller needs a data folder.
    """
    if settings.engine == "cluster":
        raise StoreMismatch("this works on a data folder, and `engine = cluster` has none; see docs/cluster.md")
    environment = Environment(
        Path(settings.data),
        durability=settings.durability,
        bytes_max=settings.store_bytes_max,
        create=create,
        follows=follows,
    )
    environment.declare([*BUILT_IN, *settings.graphs])
    return environment


def refuse_unfinished(environment: Environment) -> None:
    """Raise StoreMismatch if a bulk load or rebuild of this folder is unfinished, because the store is incomplete."""
    for problem in (*bulk.unfinished(environment), *rebuild.unfinished(environment)):
        raise StoreMismatch(problem)


def refuse_closed(environment: Environment) -> None:
    """Raise StoreMismatch if this folder is a standby's, was moved, or another machine was promoted in its place."""
    closed = store_role.read_closed_note(environment)
    if closed is not None and closed.why == "standby":
        raise StoreMismatch(
            f"{environment.folder} is a standby of {closed.primary}: go on with `kith standby --of {closed.primary}`, "
            "or make it the primary with `kith promote`"
        )
    if closed is not None and closed.why == "moved":
        raise StoreMismatch(
            f"{environment.folder} was moved to {closed.primary}: serve that (docs/cluster.md), or take it back with "
            f"`kith move {environment.folder} --back`"
        )
    if closed is not None:
        raise StoreMismatch(
            f"{closed.primary} was made the primary in place of {environment.folder}; start it as a standby of that: "
            f"`kith standby --of {closed.primary}`"
        )


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[None]:
    """Lock the data folder as a server. Servers that agree on these settings may share it; the first resets counts."""
    agreed = {
        "durability": settings.durability,
        "store_bytes_max": settings.store_bytes_max,
        "timelines_folder": str(timelines_folder(settings).resolve()),
        "redis": settings.redis,
    }
    with folder_locks.serving(Path(settings.data), agreed) as first:
        if first:
            shutil.rmtree(metrics_folder(settings), ignore_errors=True)
        yield
