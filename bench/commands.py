"""Commands on Kafka, from sending to the outcome: both sides in one process, with an owner that decides in memory.

It needs the Kafka that KITH_TEST_KAFKA names (`cluster/kafka.sh up`); without one there is no figure.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import SECONDS, Figure
from kith.core.clock import Hlc
from kith.core.events import Event
from kith.log.commands import Command, DecidedCommand

_PARTITIONS, _BYTES = 16, 100
_IN_FLIGHT = (1, 8, 64)


class _OneEventOwner:
    """Answers each command with one event."""

    async def take(self, partition: int, place: int) -> Sequence[DecidedCommand]:
        return ()

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
        return [
            DecidedCommand(
                command.offset, b"done", [Event(1, None, 0, partition, command.offset, 0, Hlc(command.offset))]
            )
            for command in commands
        ]


def kafka(folder: Path) -> list[Figure]:
    """Latency and rate of commands, by how many are in flight."""
    servers = os.environ.get("KITH_TEST_KAFKA")
    return asyncio.run(_measured(servers)) if servers else []


async def _measured(servers: str) -> list[Figure]:
    from kith.engines.kafka.connecting import Kafka  # imported here, as its driver may not be installed
    from kith.engines.kafka.engine import KafkaEngine

    broker = Kafka(servers, prefix="bench-" + secrets.token_hex(6), partitions=_PARTITIONS)
    engine = KafkaEngine(broker, lambda node: node % _PARTITIONS)
    runner = await engine.start_owner(_OneEventOwner())
    await engine.commands.ask_many([(at, b"first") for at in range(_PARTITIONS)])
    figures: list[Figure] = []
    for in_flight in _IN_FLIGHT:
        took_ms: list[float] = []
        started, cpu_s = time.perf_counter(), time.process_time()

        async def ask(number: int, took_ms: list[float] = took_ms, started: float = started) -> None:
            while (asked := time.perf_counter()) < started + SECONDS:
                await engine.commands.ask((number + len(took_ms)) % _PARTITIONS, bytes(_BYTES))
                took_ms.append((time.perf_counter() - asked) * 1000)

        await asyncio.gather(*map(ask, range(in_flight)))
        rate, cpu_ms = len(took_ms) / (time.perf_counter() - started), (time.process_time() - cpu_s) * 1000
        took_ms.sort()
        says = f"{in_flight} in flight, {_PARTITIONS} partitions; {cpu_ms / len(took_ms):.2f} ms CPU of both sides each"
        name, asked = f"commands-kafka-{in_flight}", "< 15" if in_flight == max(_IN_FLIGHT) else ""
        figures += [
            Figure(name, took_ms[len(took_ms) // 2], "ms p50", asked, data=says),
            Figure(f"{name}-p99", took_ms[len(took_ms) * 99 // 100], "ms", "", data=says),
            Figure(f"{name}-rate", rate, "commands/s", "", data=says),
        ]
    await runner.close()
    await engine.close()
    await broker.close()
    return figures
