"""A worker process: one registered consumer over the event log, and its tasks. Imports nothing of the API.

`supervisor` starts, watches and replaces it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from kith.core.errors import Unavailable
from kith.leases.holding import Leases
from kith.run import logs, processes
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS, Task
from kith.run.wiring import opened

_log = structlog.get_logger("kith")


async def work(name: str, settings: Settings) -> None:
    """Run a registered consumer until SIGTERM or SIGINT; then it saves how far it is."""
    logs.configure(settings.log_level)
    async with (
        opened(settings, name, create=False, on_fatal=processes.replace_process) as parts,
        CONSUMERS[name].open(settings, parts) as worker,
    ):
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.follower.stop)
        beside = [
            asyncio.create_task(processes.stay_with_supervisor()),
            *(asyncio.create_task(_every(task, do, parts.leases)) for task, do in worker.tasks.items()),
        ]
        await worker.follower.run()
        for task in beside:
            task.cancel()


async def _every(task: Task, do: Callable[[], Coroutine[Any, Any, None]], leases: Leases) -> None:
    """Do it now, and again after so many seconds, unless another worker is at it. A failure waits for the next time."""
    while True:
        try:
            async with leases.hold(f"task/{task.name}") as held:
                if held is not None:
                    await held.while_ours(do())
        except Unavailable as error:
            _log.warning("done later", what=task.name, error=error.message)
        except Exception:
            _log.exception("failed; tried again later", what=task.name)
        await asyncio.sleep(task.every_s)
