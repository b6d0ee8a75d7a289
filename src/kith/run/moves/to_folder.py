"""Moves a store back: applies the cluster's writes since the switch to the folder, which is then the store again.

The cluster is closed first, so nobody can write until the folder is open. An interrupted run resumes where it stopped.
Positions of the cluster's log mean nothing in the folder, so the folder begins a new history, as after a restore.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from kith.core.clock import SKEW_MS_MAX, Hlc, ms_of, wall_ms
from kith.core.errors import Conflict
from kith.engines.embedded import fanout_state, store_role
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.folder_locks import alone
from kith.home.fanout import consumer as fanout
from kith.run.config import Settings
from kith.run.moves import opening, progress, resume_positions
from kith.run.moves.mover import LEASE, Mover, ShowProgress, retry_while_unavailable, sharing_decisions
from kith.run.moves.opening import Sides
from kith.run.moves.progress import MoveProgress
from kith.run.opening import inboxes


async def take_back(settings: Settings, folder: Path, *, tell: ShowProgress) -> int:
    """Move a store back into its folder; returns the number of events applied.

    Errors: Conflict; Unavailable, after which the same call resumes.
    """
    async with opening.hold_move_lease(folder) as noted:
        is_left = noted is not None and _has_moved(folder)
        if noted is None or (noted.stage in ("copying", "following") and not is_left):
            raise Conflict(f"{folder} was not switched, so there is nothing to take back; it takes writes itself")
        if noted.to != opening.name_of(settings):
            raise Conflict(f"{folder} was moved to {noted.to}; name that one")
        if noted.stage not in ("moved", "returning"):
            _give_up(folder, noted)
            return 0
        events = await _move_back(settings, folder, noted, tell) if is_left else 0
        progress.write(folder, None)
        return events


def _has_moved(folder: Path) -> bool:
    with Environment(folder, create=False) as store:
        return store_role.has_moved(store)


def _give_up(folder: Path, noted: MoveProgress) -> None:
    """Give up an interrupted switch. The cluster was not opened yet, so it is not contacted: it may be down."""
    noted.stage = "following"
    progress.write(folder, noted)
    with Environment(folder, create=False) as store:
        store.reopen()


async def _move_back(settings: Settings, folder: Path, noted: MoveProgress, tell: ShowProgress) -> int:
    """Apply the cluster's writes since the switch, and open the folder; returns the number of events."""
    async with (
        _locked(folder),
        opening.open_sides(settings, folder, noted.permit, back=True) as sides,
        sharing_decisions(sides.write_decisions),
    ):
        returning = _MoveToFolder(sides, folder, noted, tell)
        await returning.begin()
        await returning.replay()
        sides.folder.of_folder("the way back").environment.reopen()
        return returning.followed


def _name_of(folder: Path) -> str:
    """Name of the folder in messages. Clients see it too, so it has no path."""
    return f"the data folder {folder.name}"


@contextlib.asynccontextmanager
async def _locked(folder: Path) -> AsyncIterator[None]:
    """Lock servers out, because they would continue with old positions. Errors: Conflict where one uses the folder."""
    with alone(folder) as is_alone:
        if not is_alone:
            raise Conflict(f"a server uses {folder}, which takes no writes anyhow; stop it first")
        yield


class _MoveToFolder(Mover):
    """A move from the cluster into a folder that is closed to writes."""

    def __init__(self, sides: Sides, folder: Path, noted: MoveProgress, tell: ShowProgress) -> None:
        super().__init__(sides.cluster, sides.cluster_side, sides.folder_side, folder, noted, tell)
        self._sides = sides
        self._store = sides.folder.of_folder("the way back").environment

    async def begin(self) -> None:
        """Close the cluster, and prepare to follow its log from the switch on."""
        await retry_while_unavailable(lambda: self._sides.write_decisions.closing.close(_name_of(self.folder)))
        if self.noted.stage == "returning":
            return
        self._store.begin_history()
        inboxes.note_filled(self._store)  # keep the folder's inboxes: no refill for the new history
        self.noted.at = self.noted.copied = self.noted.back
        self.noted.points = [progress.MatchingPositions(self.noted.back, await self.other.log.end())]
        self.noted.spread, self.noted.stage = [], "returning"
        self.note()

    async def replay(self) -> None:
        """Apply to the folder all that was written to the cluster."""
        await self.follow()
        await self.copy("claims", "claims looked at")  # claims are not in the cluster's log
        await self.copy_inboxes()
        await self.writing.notes()
        await self.copy_credentials(self._sides.cluster, self._sides.folder)
        for group_position in await resume_positions.positions_in_folder(self._sides.cluster, self.noted.points):
            if group_position.group != fanout.NAME:  # the folder's timelines are stale, so fan-out restarts below
                await self.other.log.save(group_position.group, group_position.at, {})
        await self.other.log.forget(fanout.NAME)
        self._store.put_note(fanout_state.NAME_NOTE, b"0")
        ahead_ms = ms_of(Hlc(self.noted.newest)) + 1 - wall_ms()
        await asyncio.sleep(min(max(0, ahead_ms), SKEW_MS_MAX) / 1_000)  # never repeat an id that another machine made
        await self.release_log()
        await self.other.log.release(LEASE)
