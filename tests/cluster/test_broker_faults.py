"""One of three brokers is killed or stopped under load: acknowledged writes are there once, and writes continue."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from coroutines import Run
from owners import OwnersScene
from three_servers import KAFKA, KAFKA_ADDRESSES

from kith.core.errors import Overloaded, StoreUnavailable, Unavailable
from kith.engines.kafka.connecting import Kafka
from kith.log.commands import Reply

BROKERS = (1, 2, 3)
QUEUED_MAX = 100_000
"""Records that the driver queues by default."""


@pytest.fixture(scope="module")
def three() -> Iterator[str]:
    """The addresses of three brokers started for these tests."""
    KAFKA.script("up", "3")
    yield KAFKA_ADDRESSES
    KAFKA.script("down")


async def seconds_to_recover(played: OwnersScene, replies: list[Reply]) -> float:
    """Seconds until commands of every account are answered again."""
    started = time.monotonic()
    for account in range(8):
        async with asyncio.timeout(60):
            while True:
                try:
                    replies.append(await played.asked(account))
                    break
                except Unavailable:  # the outcome is unknown
                    played.unknown += 1
    return time.monotonic() - started


async def under_load(played: OwnersScene, replies: list[Reply], going: asyncio.Event, account: int) -> None:
    while not going.is_set():
        try:
            replies.append(await played.asked(account))
        except Unavailable:
            played.unknown += 1


@pytest.mark.parametrize("broker", BROKERS)
def test_a_killed_broker_loses_nothing_and_doubles_nothing(three: str, run: Run, broker: int) -> None:
    async def scene() -> None:
        async with playing(three) as (played, replies):
            KAFKA.send(signal.SIGKILL, broker)
            took_s = await seconds_to_recover(played, replies)
            print(f"broker {broker} killed: every partition answers after {took_s:.1f} s")
            await asyncio.to_thread(KAFKA.restart, broker)
            await seconds_to_recover(played, replies)

    run(scene())


def test_a_paused_broker_loses_nothing(three: str, run: Run) -> None:
    async def scene() -> None:
        async with playing(three) as (played, replies):
            KAFKA.send(signal.SIGSTOP, 2)
            took_s = await seconds_to_recover(played, replies)
            print(f"a broker stands still: every partition answers after {took_s:.1f} s")
            KAFKA.send(signal.SIGCONT, 2)
            await seconds_to_recover(played, replies)

    run(scene())


def test_a_batch_that_was_partly_queued_is_not_refused_as_if_nothing_was_sent(three: str, run: Run) -> None:
    async def scene() -> None:
        kafka = Kafka(three, prefix="tests-" + secrets.token_hex(6), partitions=1, copies=3)
        await kafka.append("writes", 0, b"first")
        for broker in BROKERS:
            KAFKA.send(signal.SIGSTOP, broker)
        try:
            with pytest.raises(StoreUnavailable):
                await kafka.append_many("writes", [(0, b"more")] * (QUEUED_MAX + 1))
            with pytest.raises(Overloaded):
                await kafka.append("writes", 0, b"none of this")
        finally:
            for broker in BROKERS:
                KAFKA.send(signal.SIGCONT, broker)
        async with asyncio.timeout(60):
            await wait_for_commands(kafka, 1 + QUEUED_MAX)
        assert await kafka.append("writes", 0, b"last") == 1 + QUEUED_MAX
        await kafka.close()

    run(scene())


async def wait_for_commands(kafka: Kafka, end: int) -> None:
    """Wait until the log of commands ends at `end`."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            if (await kafka.ends("writes"))[0] >= end:
                return
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def playing(servers: str) -> AsyncIterator[tuple[OwnersScene, list[Reply]]]:
    """Two owners and eight clients. At the end, every answered command must be there once, and little else."""
    kafka = Kafka(servers, prefix="tests-" + secrets.token_hex(6), partitions=4, copies=3)
    replies: list[Reply] = []
    going = asyncio.Event()
    async with OwnersScene(kafka, answer_timeout_s=5.0) as played:
        owners = [await played.start_owner(), await played.start_owner()]
        await played.until(lambda: sum(len(owner.partitions) for owner in owners) == 4)
        asking = [asyncio.create_task(under_load(played, replies, going, account)) for account in range(8)]
        await played.until(lambda: len(replies) > 50)
        yield played, replies
        going.set()
        await asyncio.gather(*asking)
        await played.check(replies)
    await kafka.close()
