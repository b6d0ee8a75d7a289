"""How far a move is: a file of the folder that is moved, written anew after each step.

<folder>/moving.json    see `MoveProgress`
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from kith.core.events import NOWHERE, LogPosition
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.store_file import sync_folder
from kith.moving.copying import TABLES

FILE = "moving.json"
POINTS_MAX = 1_000
Stage = Literal["copying", "following", "switching", "moved", "returning"]


class SamePlace(msgspec.Struct, frozen=True, array_like=True):
    """What the log of the source told up to `source` is in the log of the target up to `target`."""

    source: bytes
    target: bytes


class MoveProgress(msgspec.Struct, kw_only=True):
    """A move. `permit`: by which it writes to the cluster while that is closed. `to`: the cluster, as people call it.

    `back`: from where on the cluster's log is taken back. `newest`: the greatest version of an event that was done.
    `table`, `after`: where copying goes on. `at`: up to where the log of the source is done. `points`: places of the
    two logs that stand for each other, from the end of the copy on. `spread`: mentions that were told to followers
    meanwhile.
    """

    to: str
    permit: int = msgspec.field(default_factory=lambda: 1 + secrets.randbelow(2**62))
    stage: Stage = "copying"
    table: str = TABLES[0]
    after: bytes | None = None
    at: bytes = NOWHERE
    copied: bytes = NOWHERE
    points: list[SamePlace] = []
    spread: list[int] = []
    back: bytes = NOWHERE
    newest: int = 0

    def reached(self, target: LogPosition) -> None:
        """Note that the log of the target stands for `at` where it ends now."""
        if self.points and self.points[-1].source == self.at:
            self.points.pop()
        self.points.append(SamePlace(self.at, target))
        if len(self.points) > POINTS_MAX:
            del self.points[1 : POINTS_MAX // 2 : 2]  # the first is where the copy ended


def read(folder: Path) -> MoveProgress | None:
    """The move of a folder; None where there is none."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=MoveProgress)
    except FileNotFoundError:
        return None


def write(folder: Path, progress: MoveProgress | None) -> None:
    """Note it for good, or (None) that there is no move any more."""
    file = folder / FILE
    with translated("note how far the move is", folder):
        if progress is None:
            file.unlink(missing_ok=True)
            return
        part = file.with_suffix(".part")
        with part.open("wb") as written:
            written.write(msgspec.json.encode(progress))
            written.flush()
            os.fsync(written.fileno())
        part.replace(file)
        sync_folder(folder)
