"""Checkpoints of a move: a file in the folder that is moved, rewritten after each step.

<folder>/moving.json    see `MoveProgress`
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from kith.core.events import NOWHERE, LogPosition
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.store_file import sync_folder
from kith.moving.table_copy import TABLES

FILE = "moving.json"
POINTS_MAX = 1_000
Stage = Literal["copying", "following", "switching", "moved", "returning"]


class MatchingPositions(msgspec.Struct, frozen=True, array_like=True):
    """Two matching log positions: events of the source's log up to `source` are in the target's log up to `target`."""

    source: bytes
    target: bytes


class MoveProgress(msgspec.Struct, kw_only=True):
    """The state of a move. `to`: the cluster's name in messages. `permit`: allows writes to the closed cluster.

    `table`, `after`: where copying resumes. `at`: position up to which the source's log is applied. `copied`: end of
    the source's log when copying ended. `points`: matching positions of the two logs, from the end of the copy on.
    `spread`: mentions that were spread to followers during the move. `back`: position in the cluster's log from which
    moving back applies it. `newest`: the greatest version of an applied event.
    """

    to: str
    permit: int = msgspec.field(default_factory=lambda: 1 + secrets.randbelow(2**62))
    stage: Stage = "copying"
    table: str = TABLES[0]
    after: bytes | None = None
    at: bytes = NOWHERE
    copied: bytes = NOWHERE
    points: list[MatchingPositions] = []
    spread: list[int] = []
    back: bytes = NOWHERE
    newest: int = 0

    def note_match(self, target: LogPosition) -> None:
        """Note that the end of the target's log matches the source's position `at`."""
        if self.points and self.points[-1].source == self.at:
            self.points.pop()
        self.points.append(MatchingPositions(self.at, target))
        if len(self.points) > POINTS_MAX:
            del self.points[1 : POINTS_MAX // 2 : 2]  # thin out, but keep the first, where the copy ended


def read(folder: Path) -> MoveProgress | None:
    """The progress of a folder's move; None where there is no move."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=MoveProgress)
    except FileNotFoundError:
        return None


def write(folder: Path, progress: MoveProgress | None) -> None:
    """Store the progress durably, or (None) delete it."""
    file = folder / FILE
    with translate_errors("note how far the move is", folder):
        if progress is None:
            file.unlink(missing_ok=True)
            return
        part = file.with_suffix(".part")
        with part.open("wb") as output:
            output.write(msgspec.json.encode(progress))
            output.flush()
            os.fsync(output.fileno())
        part.replace(file)
        sync_folder(folder)
