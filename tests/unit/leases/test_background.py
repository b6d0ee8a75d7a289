"""Background jobs of one process."""

from __future__ import annotations

import asyncio

from cast import FakeClock
from coroutines import Run
from reference_leases import ReferenceLeases

from kith.leases.background import Background
from kith.leases.holding import HeldLease, Leases


def test_a_job_that_is_found_while_it_begins_stops_when_the_process_ends(run: Run, clock: FakeClock) -> None:
    """A look for abandoned jobs finds it between its first step and the rest."""

    async def play() -> bool:
        background = Background(Leases(ReferenceLeases(clock), lambda: clock.ms / 1_000))
        stopped = asyncio.Event()

        async def work(held: HeldLease) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async def first(held: HeldLease) -> None:
            background.start("a job", work)

        await background.begin("a job", first, work)
        for _ in range(10):  # the start finds the lease held, and ends
            await asyncio.sleep(0)
        await background.close()
        return stopped.is_set()

    assert run(play())
