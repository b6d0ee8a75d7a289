"""Owners on a real Kafka: killed or paused at some steps, and partitions handed over under load."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from coroutines import Run
from owners import OwnersScene

from kith.core.errors import StoreMismatch, StoreUnavailable
from kith.engines.kafka import connecting
from kith.engines.kafka.connecting import Kafka

SERVERS = os.environ["KITH_TEST_KAFKA"]


def kafka_of(prefix: str, partitions: int = 2) -> Kafka:
    return Kafka(SERVERS, prefix=prefix, partitions=partitions)


@pytest.fixture
def prefix() -> str:
    return "tests-" + secrets.token_hex(6)


@pytest.mark.parametrize("wakes", [False, True], ids=["killed", "paused"])
@pytest.mark.parametrize("step", [5, 9, 12, 15, 18, 21, 24, 27, 30])
def test_an_owner_that_stops_at_a_step_is_replaced(prefix: str, run: Run, step: int, wakes: bool) -> None:
    async def scene() -> None:
        kafka = kafka_of(prefix)
        async with OwnersScene(kafka, step) as played:
            assert await played.played(wakes=wakes)
        await kafka.close()

    run(scene())


def test_partitions_are_handed_over_under_load_and_nothing_is_lost(prefix: str, run: Run) -> None:
    async def scene() -> None:
        kafka = kafka_of(prefix, 8)
        async with OwnersScene(kafka) as played:
            first = await played.start_owner()
            replies, going = [], True

            async def asking(account: int) -> None:
                while going:
                    replies.append(await played.asked(account))

            tasks = [asyncio.create_task(asking(account)) for account in range(24)]
            await played.until(lambda: len(replies) > 200)
            second = await played.start_owner()
            await played.until(lambda: (len(first.partitions), len(second.partitions)) == (4, 4))
            before = len(replies)
            await played.until(lambda: len(replies) > before + 200)
            await first.close()
            await played.until(lambda: len(second.partitions) == 8)
            going = False
            await asyncio.gather(*tasks)
            await played.check(replies)
            assert set(played.ledger.decided.values()) == {1}
        await kafka.close()

    run(scene())


def test_the_number_of_partitions_cannot_change(prefix: str, run: Run) -> None:
    async def scene() -> None:
        kafka = kafka_of(prefix, 2)
        await kafka.ends("writes")
        other = kafka_of(prefix, 3)
        with pytest.raises(StoreMismatch):
            await other.ends("writes")
        await asyncio.gather(kafka.close(), other.close())

    run(scene())


def test_the_offset_of_a_repeated_append_is_not_guessed(prefix: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka acknowledges a record that it already has without its offset."""

    class Repeating(Producer):  # type: ignore[misc]  # a class in C, without types
        def produce(self, *arguments: Any, on_delivery: Callable[[Any, Any], None], **keywords: Any) -> None:
            super().produce(
                *arguments, on_delivery=lambda error, _: on_delivery(error, Message(offset=-1001)), **keywords
            )

    async def scene() -> None:
        kafka = kafka_of(prefix)
        await kafka.append("events", 0, b"first")
        await kafka.close()
        monkeypatch.setattr(connecting, "Producer", Repeating)
        with pytest.raises(StoreUnavailable, match="did not name its offset"):
            await kafka.append("events", 0, b"second")
        assert await kafka.ends("events") == [2, 0]
        await kafka.close()

    run(scene())
