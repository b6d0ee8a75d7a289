"""Background jobs that survive the process that runs them. One process works on a job at a time.

The store holds the jobs. A process that finds a job without a lease holder takes it over, so a job must be safe to
resume wherever it was left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import structlog

from kith.core.errors import Conflict, LeaseLost, Unavailable
from kith.core.stopping import stop
from kith.leases.holding import HeldLease, Leases

POLL_S = 30.0
"""How often a process looks for abandoned jobs, in seconds."""
_PAUSE_S, _PAUSE_S_MAX = 0.1, 30.0  # before a refused step is retried; doubled each time
_Answer = TypeVar("_Answer")
_log = structlog.get_logger("kith.leases")


class Background:
    """The jobs of this process, by name. Each runs under the lease of that name."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._running: dict[asyncio.Task[None], str] = {}  # by task: `start` and `begin` may meet at one name

    def start(self, name: str, work: Callable[[HeldLease], Awaitable[None]]) -> None:
        """Run a job, unless a process is already working on it."""
        if name not in self._running.values():
            self._spawn(name, partial(self._run_if_free, name, work))

    async def begin(
        self, name: str, first: Callable[[HeldLease], Awaitable[None]], work: Callable[[HeldLease], Awaitable[None]]
    ) -> None:
        """Run `first` now and then the rest of a new job in the background. Other processes that find the job meanwhile
        leave it alone, because its lease is held.
        """
        async with contextlib.AsyncExitStack() as stack:
            lease = await stack.enter_async_context(self._leases.hold_or_conflict(name))
            await first(lease)
            lease_context = stack.pop_all()
        self._spawn(name, partial(self._run_held, lease_context, lease, work))

    async def wait(self) -> None:
        """Return once all jobs of this process are done."""
        await asyncio.gather(*self._running)

    async def close(self) -> None:
        """Stop the jobs. Another process that looks for abandoned jobs resumes them."""
        await stop(*self._running)

    def _spawn(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._run_logged(name, work))
        self._running[task] = name
        task.add_done_callback(self._running.pop)

    async def _run_if_free(self, name: str, work: Callable[[HeldLease], Awaitable[None]]) -> None:
        async with self._leases.hold(name) as lease:
            if lease is not None:
                await work(lease)

    async def _run_held(
        self, lease_context: contextlib.AsyncExitStack, lease: HeldLease, work: Callable[[HeldLease], Awaitable[None]]
    ) -> None:
        async with lease_context:
            await work(lease)

    async def _run_logged(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a job, and log why it stops early."""
        try:
            await work()
        except Unavailable as error:
            _log.warning("a job stopped early; it will be resumed", job=name, error=error.message)
        except Exception:
            _log.exception("a job stopped early; it will be resumed", job=name)
            raise


async def with_retries(held: HeldLease, step: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Run a step. If the store refuses it, retry after growing pauses.

    LeaseLost if another process may have taken over.
    """
    pause_s = _PAUSE_S
    while True:
        held.check()
        try:
            return await step()
        except LeaseLost:
            raise
        except (Conflict, Unavailable) as error:
            _log.warning("a job waits for the store", job=held.lease.name, error=error.message)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)


async def keep_resuming(*resume: Callable[[], Awaitable[None]]) -> None:
    """Every POLL_S seconds, resume jobs whose process is gone."""
    while True:
        await asyncio.sleep(POLL_S)
        for resume_jobs in resume:
            try:
                await resume_jobs()
            except Unavailable as error:
                _log.warning("could not look for abandoned jobs; retried later", error=error.message)
