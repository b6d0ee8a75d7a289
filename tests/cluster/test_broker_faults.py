"""One of three brokers is killed or stopped under load: what was acknowledged is there, once, and writes go on."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from coroutines import Run
from owners import Scene
from three import KAFKA, KAFKAS

from kith.core.errors import Unavailable
from kith.engines.kafka.connecting import Kafka
from kith.log.commands import Reply

BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def three() -> Iterator[str]:
    """Servers of three brokers of our own."""
    KAFKA.script("up", "3")
    yield KAFKAS
    KAFKA.script("down")


async def goes_on(played: Scene, replies: list[Reply]) -> float:
    """How long until commands of every account are answered again."""
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


async def under_load(played: Scene, replies: list[Reply], going: asyncio.Event, account: int) -> None:
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
            took_s = await goes_on(played, replies)
            print(f"broker {broker} killed: every partition answers after {took_s:.1f} s")
            await asyncio.to_thread(KAFKA.again, broker)
            await goes_on(played, replies)

    run(scene())


def test_a_broker_that_stands_still_for_a_while_loses_nothing(three: str, run: Run) -> None:
    async def scene() -> None:
        async with playing(three) as (played, replies):
            KAFKA.send(signal.SIGSTOP, 2)
            took_s = await goes_on(played, replies)
            print(f"a broker stands still: every partition answers after {took_s:.1f} s")
            KAFKA.send(signal.SIGCONT, 2)
            await goes_on(played, replies)

    run(scene())


@contextlib.asynccontextmanager
async def playing(servers: str) -> AsyncIterator[tuple[Scene, list[Reply]]]:
    """Two owners and eight who ask; in the end, all that was answered is there once, and little else."""
    kafka = Kafka(servers, prefix="tests-" + secrets.token_hex(6), partitions=4, copies=3)
    replies: list[Reply] = []
    going = asyncio.Event()
    async with Scene(kafka, answered_s=5.0) as played:
        owners = [await played.owning(), await played.owning()]
        await played.until(lambda: sum(len(owner.partitions) for owner in owners) == 4)
        asking = [asyncio.create_task(under_load(played, replies, going, account)) for account in range(8)]
        await played.until(lambda: len(replies) > 50)
        yield played, replies
        going.set()
        await asyncio.gather(*asking)
        await played.check(replies)
    await kafka.close()
