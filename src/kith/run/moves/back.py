"""The way back of a move: what the cluster was written since the switch comes into the folder, which is the store
again.

The cluster is closed first, so nobody can write until this is done. Cut short anywhere, it goes on; it is done once the
folder takes writes. Positions of the cluster's log mean nothing there, so the folder begins a history, as after a
restore.
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
from kith.run.moves import opening, places, progress
from kith.run.moves.mover import LEASE, Mover, Tell, patiently, sharing_decisions
from kith.run.moves.opening import Sides
from kith.run.moves.progress import MoveProgress
from kith.run.opening import inboxes


async def take_back(settings: Settings, folder: Path, *, tell: Tell) -> int:
    """Take a folder that was moved back; how many events of the cluster came. Errors: Conflict; Unavailable, after
    which the same call goes on.
    """
    async with opening.alone(folder) as noted:
        is_left = noted is not None and _is_left(folder)
        if noted is None or (noted.stage in ("copying", "following") and not is_left):
            raise Conflict(f"{folder} was not switched, so there is nothing to take back; it takes writes itself")
        if noted.to != opening.name_of(settings):
            raise Conflict(f"{folder} was moved to {noted.to}; name that one")
        if noted.stage not in ("moved", "returning"):
            _give_up(folder, noted)
            return 0
        events = await _take(settings, folder, noted, tell) if is_left else 0
        progress.write(folder, None)
        return events


def _is_left(folder: Path) -> bool:
    with Environment(folder, create=False) as store:
        return store_role.has_moved(store)


def _give_up(folder: Path, noted: MoveProgress) -> None:
    """Give up a switch that was cut short. The cluster, which was not opened, is not asked: it may be away."""
    noted.stage = "following"
    progress.write(folder, noted)
    with Environment(folder, create=False) as store:
        store.reopen()


async def _take(settings: Settings, folder: Path, noted: MoveProgress, tell: Tell) -> int:
    """Take what the cluster was written since, and open the folder; how many events came."""
    async with (
        _unused(folder),
        opening.open_sides(settings, folder, noted.permit, back=True) as sides,
        sharing_decisions(sides.deciding),
    ):
        returning = _Back(sides, folder, noted, tell)
        await returning.begin()
        await returning.bring()
        sides.folder.of_folder("the way back").environment.reopen()
        return returning.followed


def _name_of(folder: Path) -> str:
    """What people are told of it; clients too, so it names no path."""
    return f"the data folder {folder.name}"


@contextlib.asynccontextmanager
async def _unused(folder: Path) -> AsyncIterator[None]:
    """Keep servers out, which would go on with positions of before. Conflict where one uses it."""
    with alone(folder) as only:
        if not only:
            raise Conflict(f"a server uses {folder}, which takes no writes anyhow; stop it first")
        yield


class _Back(Mover):
    """A move into a folder, which is closed."""

    def __init__(self, sides: Sides, folder: Path, noted: MoveProgress, tell: Tell) -> None:
        super().__init__(sides.cluster, sides.there, sides.here, folder, noted, tell)
        self._sides = sides
        self._store = sides.folder.of_folder("the way back").environment

    async def begin(self) -> None:
        """Close the cluster, and follow its log from the switch on."""
        await patiently(lambda: self._sides.deciding.closing.close(_name_of(self.folder)))
        if self.noted.stage == "returning":
            return
        self._store.begin_history()
        inboxes.note_filled(self._store)  # they go on as they are
        self.noted.at = self.noted.copied = self.noted.back
        self.noted.points = [progress.SamePlace(self.noted.back, await self.other.log.end())]
        self.noted.spread, self.noted.stage = [], "returning"
        self.note()

    async def bring(self) -> None:
        """Do in the folder all that was written to the cluster."""
        await self.follow()
        await self.copy("claims", "claims looked at")  # which are not in its log
        await self.bring_inboxes()
        await self.writing.notes()
        await self.bring_credentials(self._sides.cluster, self._sides.folder)
        for place in await places.places_back(self._sides.cluster, self.noted.points):
            if place.group != fanout.NAME:  # whose timelines are of before
                await self.other.log.save(place.group, place.at, {})
        await self.other.log.forget(fanout.NAME)
        self._store.put_note(fanout_state.NAME_NOTE, b"0")
        ahead_ms = ms_of(Hlc(self.noted.newest)) + 1 - wall_ms()
        await asyncio.sleep(min(max(0, ahead_ms), SKEW_MS_MAX) / 1_000)  # no id is made again that another machine made
        await self.let_log_go()
        await self.other.log.release(LEASE)
