"""Runs a worker process: registered consumers over the event log with their tasks, or scheduled backups.

`supervisor` starts, watches and replaces it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog
import uvloop

from kith.core.errors import BadRequest, Unavailable
from kith.core.stopping import stop
from kith.leases.holding import Leases
from kith.run import logs
from kith.run.backups import schedule
from kith.run.backups import worker as backups
from kith.run.config import Settings
from kith.run.consumers import WORKERS, Task
from kith.run.opening.wiring import open_stores
from kith.run.serving import probes, processes

NAMES = (*WORKERS, schedule.NAME)
_log = structlog.get_logger("kith")


def run(names: Sequence[str], settings: Settings, probe_port: int | None = None) -> None:
    """Run these workers in this process. Errors: BadRequest for an unknown name, or names that cannot share a process.

    `probe_port`: the port on which probes of liveness, readiness and metrics are answered.
    """
    for name in names:
        if name not in NAMES:
            raise BadRequest(f"there is no worker {name!r}; there are {', '.join(NAMES)}")
    processes.name_process(names[0])
    if schedule.NAME not in names:
        uvloop.run(work(names, settings, probe_port))
    elif len(names) > 1:
        raise BadRequest(f"{schedule.NAME} has a process of its own; start it by itself")
    elif not settings.backup_to:
        raise BadRequest("no place for backups is set: `backup_to`")
    else:
        asyncio.run(backups.keep(settings))


async def work(names: Sequence[str], settings: Settings, probe_port: int | None = None) -> None:
    """Run registered consumers until a signal stops them; then they save their positions. If one fails, all end."""
    logs.configure(settings.log_level)
    async with contextlib.AsyncExitStack() as stack:
        stores = await stack.enter_async_context(
            open_stores(settings, "+".join(names), create=False, on_fatal=processes.replace_process)
        )
        workers = [await stack.enter_async_context(WORKERS[name].open(settings, stores)) for name in names]

        if probe_port is not None:
            ready = [worker.is_ready for worker in workers]
            await stack.enter_async_context(
                probes.serve_probes(
                    settings.host,
                    probe_port,
                    lambda: all(is_ready() for is_ready in ready),
                    stores.metrics.render,
                )
            )

        processes.spare_collections()

        def end() -> None:
            for worker in workers:
                worker.follower.stop()

        for number in processes.stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, end)
        background = [
            asyncio.create_task(processes.stay_with_supervisor()),
            *(
                asyncio.create_task(_every(task, action, stores.leases, stores.check_clock))
                for worker in workers
                for task, action in worker.tasks.items()
            ),
        ]
        following = [asyncio.create_task(worker.follower.run()) for worker in workers]
        await asyncio.sleep(0)  # send the first heartbeat: from here on the supervisor notices a hang
        _log.info("follows the log", groups=list(names))
        await asyncio.wait(following, return_when=asyncio.FIRST_EXCEPTION)
        end()
        await asyncio.wait(following)
        for task in following:
            task.result()
        await stop(*background)


async def _every(
    task: Task, action: Callable[[], Coroutine[Any, Any, None]], leases: Leases, check_clock: Callable[[], None]
) -> None:
    """Run a task now, then every `every_s` seconds, unless another worker holds its lease. The next run retries."""
    while True:
        try:
            check_clock()  # tasks judge age by this machine's clock
            async with leases.hold(f"task/{task.name}") as lease:
                if lease is not None:
                    await lease.run_while_held(action())
        except Unavailable as error:
            _log.warning("a task is postponed", what=task.name, error=error.message)
        except Exception:
            _log.exception("a task failed; it is retried later", what=task.name)
        await asyncio.sleep(task.every_s)
