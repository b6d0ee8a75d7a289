"""When scheduled backups are due, and their status; `worker` is the process that makes them.

backups.json    in the data folder: a Status. If several servers share a folder, one of them makes backups
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

import msgspec
import structlog

from kith.core.errors import BadRequest, KithError
from kith.engines.blobs.archives import FolderArchive, open_archive
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.file_leases import FileLeases
from kith.leases.holding import Leases
from kith.run.backups import drills
from kith.run.backups.backup_maker import BackupMaker, BackupResult
from kith.run.backups.drills import Drill
from kith.run.backups.pruning import prune
from kith.run.config import Settings
from kith.run.opening.folders import media_folder

NAME = "backup"
"""Name of the worker, and of the lease under which one process at a time backs up a store."""
_STATUS_FILE = "backups.json"
_CHECK_INTERVAL_S, RETRIED_S = 30.0, 60.0
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_log = structlog.get_logger("kith")
Due = Literal["nothing", "increment", "whole"]


class Status(msgspec.Struct, frozen=True):
    """Status of scheduled backups. `good_ms`: when the last good backup began; it has everything until then.

    `whole_ms`: when the last whole began. `error`: why the last backup failed, or empty. `drill`: the last drill noted
    beside the backups. `tidying`: why pruning or reading the drill failed, or empty. `place`: where the last good
    backup is.
    """

    good_ms: int = 0
    whole_ms: int = 0
    error: str = ""
    drill: Drill = Drill()
    tidying: str = ""
    place: str = ""

    def age_s(self, now_ms: int) -> float:
        """Seconds since the last good backup; since the epoch where there is none yet."""
        return max(0, now_ms - self.good_ms) / 1000

    def drill_age_s(self, now_ms: int) -> float:
        """Seconds since the last drill; infinite where there was none."""
        return max(0, now_ms - self.drill.at_ms) / 1000 if self.drill.at_ms else math.inf


def read_status(settings: Settings) -> Status:
    """The stored status; that of a fresh folder where there is none."""
    try:
        return msgspec.json.decode((Path(settings.data) / _STATUS_FILE).read_bytes(), type=Status)
    except (FileNotFoundError, msgspec.DecodeError):
        return Status()


def due(status: Status, settings: Settings, now_ms: int) -> Due:
    """What is due now. A stored time in the future, from before the clock was set back, is ignored."""
    if not 0 <= now_ms - status.whole_ms < settings.backup_whole_every_hours * _HOUR_MS:
        return "whole"
    is_late = not 0 <= now_ms - status.good_ms < settings.backup_every_minutes * _MINUTE_MS
    return "increment" if is_late else "nothing"


def is_good(status: Status, settings: Settings, now_ms: int) -> bool:
    """Whether the last backup succeeded, and is younger than three intervals."""
    return not status.error and status.age_s(now_ms) < 3 * settings.backup_every_minutes * 60


def check_place(settings: Settings, where: str) -> None:
    """Raise BadRequest for a place that cannot hold backups: an unknown kind of address, or inside the data folder."""
    open_archive(where)
    if "://" not in where and Path(where).resolve().is_relative_to(Path(settings.data).resolve()):
        raise BadRequest(f"{where} lies in the data folder, and would be lost with it; name a place elsewhere")


def open_maker(
    settings: Settings, store: Environment, where: str, progress: Callable[[int], None] = lambda _: None
) -> BackupMaker:
    """A `BackupMaker` of a data folder to an address. `progress`: called with the number of media files copied so far.

    Errors: those of `check_place`.
    """
    check_place(settings, where)
    return BackupMaker(store, open_archive(where), None if settings.media_url else media_folder(settings), progress)


async def run_due(settings: Settings, maker: BackupMaker, now_ms: int) -> float:
    """Make the backup that is due, and after a whole delete old parts; returns the seconds until the next check."""
    status = read_status(settings)
    kind = due(status, settings, now_ms)
    if kind == "nothing":
        return min(_CHECK_INTERVAL_S, settings.backup_every_minutes * 60)
    continues = status.place == settings.backup_to
    try:
        result = await asyncio.to_thread(maker.make, whole=kind == "whole", continues=continues)
    except (KithError, OSError) as error:
        _log.error("no backup was made; tried again", error=_message_of(error))
        status = msgspec.structs.replace(status, error=_message_of(error))
    else:
        _log_made(result)
        is_whole = any(part.kind == "whole" for part in result.parts)
        prunes = is_whole or bool(status.tidying)
        status = Status(now_ms, now_ms if is_whole else status.whole_ms, drill=status.drill, place=settings.backup_to)
        status = await _clean_up(settings, maker, status, prunes=prunes)
    data = FolderArchive(Path(settings.data), makes=False)
    await asyncio.to_thread(data.put, _STATUS_FILE, [msgspec.json.encode(status)])
    return RETRIED_S if status.error else _CHECK_INTERVAL_S


async def _clean_up(settings: Settings, maker: BackupMaker, status: Status, *, prunes: bool) -> Status:
    """After a backup, delete old parts and read the last drill.

    A failure, for example in a place that forbids deletion, is reported in the status. It does not repeat the backup.
    """
    now_ms = status.good_ms
    try:
        if prunes:
            kept_ms = settings.backup_keep_days * _DAY_MS
            newer_min = kept_ms // (settings.backup_whole_every_hours * _HOUR_MS)  # as many as are made in that time
            pruned = await asyncio.to_thread(prune, maker.archive, now_ms - kept_ms, newer_min, now_ms)
            _log.info("old backups removed", parts=pruned)
        return msgspec.structs.replace(status, drill=await asyncio.to_thread(drills.last, maker.archive))
    except (KithError, OSError) as error:
        _log.error("a backup was made, but old ones could not be removed or looked at", error=_message_of(error))
        return msgspec.structs.replace(status, tidying=_message_of(error))


def _message_of(error: KithError | OSError) -> str:
    return error.message if isinstance(error, KithError) else str(error)


def _log_made(result: BackupResult) -> None:
    if result.because:
        _log.warning("the whole store is backed up, for an increment cannot be", because=result.because)
    for part in result.parts:
        size = sum(file.bytes for file in part.files.values())
        _log.info("backed up", part=part.id, events=part.until - part.after, bytes=size, files=result.files)


async def make_now(maker: BackupMaker, store: Environment, *, whole: bool) -> BackupResult:
    """Make one backup now. Errors: Conflict while another process makes one."""
    async with _leases(store) as leases, leases.hold_or_conflict(NAME):
        return await asyncio.to_thread(maker.make, whole=whole)


@contextlib.asynccontextmanager
async def _leases(store: Environment) -> AsyncIterator[Leases]:
    files = FileLeases(store.folder)
    try:
        yield Leases(files)
    finally:
        files.close()
