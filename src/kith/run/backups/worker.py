"""The process `kith worker backup`: makes backups when they are due, and holds a lease of the log for the next one."""

from __future__ import annotations

import asyncio
import signal

from kith.core.clock import wall_ms
from kith.log.lease_holder import LogLeaseHolder
from kith.run import logs
from kith.run.backups import schedule
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.schedule import NAME, RETRIED_S
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.opening.stores import OpenStores
from kith.run.serving import processes


async def keep(settings: Settings) -> None:
    """Make backups when they are due, until this process is killed, at any time: an interrupted part does not count."""
    logs.configure(settings.log_level)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    async with wiring.open_stores(settings, NAME, create=False, on_fatal=processes.replace_process) as stores:
        await asyncio.gather(processes.stay_with_supervisor(), _keep(settings, stores))


async def _keep(settings: Settings, stores: OpenStores) -> None:
    environment = stores.of_folder("a backup of Kith's own").environment
    maker, log_lease = (
        schedule.open_maker(settings, environment, settings.backup_to),
        LogLeaseHolder(stores.log, NAME, wall_ms),
    )
    while True:
        async with stores.leases.hold(NAME) as lease:
            pause_s = RETRIED_S if lease is None else await run_due(settings, stores, maker, log_lease, wall_ms())
        await asyncio.sleep(pause_s)


async def run_due(
    settings: Settings, stores: OpenStores, maker: BackupMaker, log_lease: LogLeaseHolder, now_ms: int
) -> float:
    """Make the backup that is due, and lease the log from its end; returns the seconds until the next check."""
    pause_s = await schedule.run_due(settings, maker, now_ms)
    if maker.until is not None:
        positions = stores.of_folder("a backup of Kith's own").environment.positions
        await log_lease.keep(positions.of(max(0, maker.until - 1)))  # keeps the last event too: its mark is compared
    return pause_s
