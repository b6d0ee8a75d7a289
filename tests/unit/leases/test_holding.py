"""Holding leases: a holder stops before its lease ends, and no two processes ever make the same id."""

from __future__ import annotations

import asyncio

import pytest
from cast import START_MS, FakeClock
from coroutines import Run, without_waits
from reference_leases import ReferenceLeases

from kith.core.clock import SKEW_MS_MAX
from kith.core.errors import Conflict, LeaseLost, Overloaded, StoreUnavailable
from kith.core.ids import Snowflakes
from kith.leases.holding import HeldLease, Leases, LeaseTerms
from kith.leases.node_numbers import COOLDOWN_S, USED_S, node_number
from kith.leases.store import Lease

TERMS = LeaseTerms(ttl_s=30.0, use_s=20.0, renew_s=5.0)


class Unreachable(ReferenceLeases):
    """Leases that a process cannot renew while `away`."""

    away = False

    async def renew(self, lease: Lease, ttl_s: float) -> bool:
        if self.away:
            raise StoreUnavailable("not now")
        return await super().renew(lease, ttl_s)


@pytest.fixture
def store(clock: FakeClock) -> Unreachable:
    return Unreachable(clock)


def process(store: ReferenceLeases, clock: FakeClock) -> Leases:
    """The leases as one of several processes sees them."""
    return Leases(store, lambda: clock.ms / 1_000)


def test_a_holder_stops_before_another_can_acquire_the_lease(run: Run, store: Unreachable, clock: FakeClock) -> None:
    async def play() -> None:
        async with process(store, clock).hold("a job", TERMS) as held:
            assert held is not None
            for _ in range(3):
                clock.ms += 19_000
                held.check()
                await held.renew()
            clock.ms += 20_000
            with pytest.raises(LeaseLost):
                held.check()
            async with process(store, clock).hold("a job", TERMS) as other:
                assert other is None, "the lease has not ended yet"
            await held.renew()
            held.check()

    run(play())


def test_the_loss_of_a_lease_is_reported_and_final(run: Run, store: Unreachable, clock: FakeClock) -> None:
    async def play() -> None:
        told = asyncio.Event()
        async with process(store, clock).hold("a job", TERMS, on_lost=told.set) as held:
            assert held is not None
            clock.ms += 31_000
            async with process(store, clock).hold("a job", TERMS) as other:
                assert other is not None
                assert other.lease.token > held.lease.token
                with without_waits():
                    await told.wait()
                other.check()
            assert (held.lost, held.is_usable) == (True, False)

    run(play())


def test_renewal_is_retried_while_the_store_is_away(run: Run, store: Unreachable, clock: FakeClock) -> None:
    async def play() -> None:
        async with process(store, clock).hold("a job", TERMS) as held:
            assert held is not None
            store.away = True
            clock.ms += 20_000
            with without_waits():
                for _ in range(10):
                    await asyncio.sleep(0)
            assert (held.lost, held.is_usable) == (False, False)
            store.away = False
            await held.renew()
            assert held.is_usable

    run(play())


def test_work_is_cancelled_once_the_lease_is_no_longer_ours(run: Run, store: Unreachable, clock: FakeClock) -> None:
    terms = TERMS._replace(renew_s=0.0)

    async def play() -> None:
        async with process(store, clock).hold("a job", terms) as held:
            assert held is not None
            assert await held.run_while_held(asyncio.sleep(0, "done")) == "done"
            store.away = True
            clock.ms += 20_000
            with pytest.raises(LeaseLost):
                await held.run_while_held(asyncio.Event().wait())

    run(play())


def test_the_second_process_to_start_an_exclusive_job_is_refused(
    run: Run, store: Unreachable, clock: FakeClock
) -> None:
    async def play() -> None:
        async with process(store, clock).hold_or_conflict("suggest"):
            with pytest.raises(Conflict, match="suggest"):
                async with process(store, clock).hold_or_conflict("suggest"):
                    pass
        async with process(store, clock).hold_or_conflict("suggest"):
            pass

    run(play())


def test_processes_have_distinct_node_numbers(run: Run, store: Unreachable, clock: FakeClock) -> None:
    async def play() -> None:
        async with node_number(process(store, clock), 2) as one, node_number(process(store, clock), 2) as other:
            assert (one.number, other.number) == (0, 1)
            with pytest.raises(Overloaded, match="all 2 node numbers"):
                async with node_number(process(store, clock), 2):
                    pass

    run(play())


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "cut off"])
def test_the_next_holder_of_a_node_number_repeats_no_id(
    run: Run, store: Unreachable, clock: FakeClock, ends: bool
) -> None:
    """The clock of the first process is ahead by the greatest allowed skew, and the next one's is as far behind."""

    def used_up(held: HeldLease) -> int:
        """The last id of a process that cannot renew its number."""
        ids = Snowflakes(0, lambda: clock.ms + SKEW_MS_MAX, held.check)
        last = 0
        while held.is_usable:
            last = ids.next()
            clock.ms += 1_000
        with pytest.raises(LeaseLost):
            ids.next()
        return last

    async def play() -> None:
        store.away = True
        first = node_number(process(store, clock), 1)
        number = await first.__aenter__()
        last = used_up(number.held)
        assert clock.ms - START_MS == USED_S * 1_000
        if ends:
            await first.__aexit__(None, None, None)
        clock.ms += int(COOLDOWN_S * 1_000) - 1_000
        with pytest.raises(Overloaded):
            async with node_number(process(store, clock), 1):
                pass
        clock.ms += 1_000
        async with node_number(process(store, clock), 1) as second:
            behind = FakeClock(clock.ms - SKEW_MS_MAX)
            assert Snowflakes(0, behind, second.held.check).next() > last
        if not ends:
            await first.__aexit__(None, None, None)

    run(play())
