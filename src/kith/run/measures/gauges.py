"""The gauges of `/metrics`, for stores, log and consumers, read on each request; `metrics` has all other counts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from kith.core.clock import wall_ms
from kith.core.events import NOWHERE
from kith.engines.embedded import store_role
from kith.engines.embedded.environment import Environment
from kith.log.commands import PendingCommands
from kith.log.runner import lag_of
from kith.log.store import Backlog, LogStore, Progress
from kith.run.backups.schedule import read_status
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.deciding import APPLY
from kith.run.machines.standby_lag import StandbyLag
from kith.run.measures import media_size
from kith.run.opening import timelines
from kith.run.opening.stores import Folder, OpenStores


async def gauges(settings: Settings, stores: OpenStores) -> Mapping[str, float]:
    """Gauges by name without the prefix `kith_`: of the log, of the store, and of each registered consumer."""
    values = {"timelines": float(await _timelines(settings))} | await _of_leases(stores.log)
    if stores.folder is not None:
        values |= _of_folder(stores.folder)
    if stores.write_decisions is not None:
        values |= _of_commands(await stores.write_decisions.waiting())
    if stores.keeping is not None and (lag := await stores.keeping.lag()) is not None:
        values |= {"checks_lag_events": lag.events, "checks_lag_oldest_seconds": lag.oldest_s}
    is_closed = stores.folder is not None and stores.folder.environment.is_closed()
    for name, registered in CONSUMERS.items():
        progress = await stores.log.progress(name)
        if progress is not None and not is_closed:  # a standby runs none: their places are late
            values |= await _of_group(stores.log, name, progress)
        values |= await registered.gauges(stores)
    if settings.backup_to:
        status = read_status(settings)
        values |= {
            "backup_age_seconds": status.age_s(wall_ms()),
            "backup_failing": bool(status.error or status.tidying),
            "backup_drill_age_seconds": status.drill_age_s(wall_ms()),
            "backup_drill_failed": not status.drill.good,
        }
    values |= media_size.gauges(Path(settings.data))
    return values


def _of_folder(folder: Folder) -> dict[str, float]:
    """Sizes of the store and its log, whether there is a rival primary, and the lag of a standby."""
    environment, (first, last) = folder.environment, folder.log.bounds()
    values: dict[str, float] = {
        "log_events": last - first + 1,
        "log_sequence": last,
        "log_bytes": folder.log.size(),
        "store_bytes": environment.bytes_used(),
        "disk_free_bytes": _free(environment),
        "rival_primary": bool(store_role.rival(environment)),
    }
    closed = store_role.read_closed_note(environment)
    return values | _of_standby(environment) if closed is not None and closed.why == "standby" else values


def _free(environment: Environment) -> int:
    """Free bytes on the disk of the data folder."""
    disk = os.statvfs(environment.folder)
    return disk.f_bavail * disk.f_frsize


async def _timelines(settings: Settings) -> int:
    """Number of timelines that are kept."""
    async with timelines.open_reader(settings) as reader:
        return await reader.count()


async def _of_leases(log: LogStore) -> dict[str, float]:
    """Number of leases of the log, and of lost ones, and the lag in events of the slowest holder."""
    leases = await log.leases()
    behind = [(await log.behind(lease.at)).events for lease in leases if not lease.lost]
    return {
        "log_leases": len(behind),
        "log_leases_lost": len(leases) - len(behind),
        "log_leases_lag_events": max(behind, default=0),
    }


def _of_standby(environment: Environment) -> dict[str, float]:
    """The lag of a standby in seconds; infinite until it has caught up, so that one that never does is noticed."""
    level = StandbyLag(environment.folder)
    behind_ms = level.behind_ms()
    level.close()
    return {"standby_behind_seconds": math.inf if behind_ms is None else behind_ms / 1000}


def _of_commands(waiting: PendingCommands) -> dict[str, float]:
    """Number of writes that wait to be decided, and the age of the oldest."""
    lag = lag_of(Backlog(NOWHERE, waiting.commands, waiting.oldest_ms, False), wall_ms())
    return {f"{APPLY}_lag_events": lag.events, f"{APPLY}_lag_oldest_seconds": lag.oldest_s}


async def _of_group(log: LogStore, group: str, progress: Progress) -> dict[str, float]:
    """Lag of a group of consumers, and its numbers of dead and failed events."""
    lag, failures = lag_of(progress.behind, wall_ms()), await log.failures(group)
    dead = sum(failure.dead for failure in failures)
    return {
        f"{group}_lag_events": lag.events,
        f"{group}_lag_oldest_seconds": lag.oldest_s,
        f"{group}_dead_events": dead,
        f"{group}_failed_events": len(failures) - dead,
    }
