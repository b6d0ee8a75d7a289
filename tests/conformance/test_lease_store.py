"""What every LeaseStore must do, as `leases.store.LeaseStore` promises."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from engines import Engine

from kith.leases.store import Lease, LeaseStore

PORT = "leases"
TTL_S = 30.0


async def acquired(store: LeaseStore, name: str = "a job", holder: str = "first") -> Lease:
    """Acquire a lease of a free name."""
    lease = await store.acquire(name, holder, TTL_S)
    assert lease is not None
    assert lease[:2] == (name, holder)
    return lease


@pytest.mark.parametrize("other", ["second", "first"], ids=["another", "itself"])
def test_the_holder_of_a_name_keeps_others_out_until_it_releases_it(run: Run, leases: LeaseStore, other: str) -> None:
    async def play() -> None:
        first = await acquired(leases)
        assert await leases.acquire("a job", other, TTL_S) is None
        await acquired(leases, "another/job", other)
        await leases.release(first)
        await acquired(leases, holder=other)

    run(play())


def test_of_many_concurrent_requests_one_gets_the_lease(run: Run, leases: LeaseStore) -> None:
    async def play() -> None:
        answers = await asyncio.gather(*(leases.acquire("a job", f"process {number}", TTL_S) for number in range(10)))
        assert sum(lease is not None for lease in answers) == 1

    run(play())


def test_tokens_of_a_name_grow(run: Run, leases: LeaseStore) -> None:
    async def play() -> None:
        tokens = []
        for _ in range(12):
            lease = await acquired(leases)
            tokens.append(lease.token)
            await leases.release(lease)
        assert tokens == sorted(set(tokens))

    run(play())


def test_tokens_grow_across_a_restart(run: Run, lasting: Engine, tmp_path: Path, clock: FakeClock) -> None:
    assert lasting.leases
    tokens = []
    for _ in range(3):
        with lasting.leases(tmp_path, clock) as store:
            tokens.append(run(acquired(store)).token)
        clock.ms += 60_000
    assert tokens == sorted(set(tokens))


def test_a_released_lease_cannot_be_renewed_or_free_the_new_one(run: Run, leases: LeaseStore) -> None:
    async def play() -> None:
        released = await acquired(leases)
        await leases.release(released)
        assert not await leases.renew(released, TTL_S)
        current = await acquired(leases, holder="second")
        assert not await leases.renew(released, TTL_S)
        await leases.release(released)
        assert await leases.renew(current, TTL_S)
        assert await leases.acquire("a job", "third", TTL_S) is None

    run(play())


def test_a_lease_ends_by_time_only_in_stores_where_leases_expire(
    run: Run, leases: LeaseStore, clock: FakeClock
) -> None:
    async def play() -> None:
        paused = await acquired(leases)
        clock.ms += 29_000
        assert await leases.renew(paused, TTL_S)
        clock.ms += 29_000
        assert await leases.acquire("a job", "second", TTL_S) is None
        clock.ms += 2_000
        successor = await leases.acquire("a job", "second", TTL_S)
        assert (successor is not None) == leases.expires
        assert await leases.renew(paused, TTL_S) == (not leases.expires)
        if successor is not None:
            assert successor.token > paused.token
            await leases.release(paused)
            assert await leases.renew(successor, TTL_S)

    run(play())


def test_an_expired_lease_is_not_renewed_even_if_its_name_is_free(
    run: Run, leases: LeaseStore, clock: FakeClock
) -> None:
    async def play() -> None:
        paused = await acquired(leases)
        clock.ms += 31_000
        assert await leases.renew(paused, TTL_S) == (not leases.expires)

    run(play())
