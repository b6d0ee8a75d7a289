"""Brokers of Kafka whose clocks are wrong, over a Kafka in memory."""

from __future__ import annotations

from collections.abc import Sequence

import kafka_in_memory
import pytest
import structlog
from cast import START_MS
from coroutines import Run
from kafka_in_memory import MemoryKafka

from kith.engines.kafka.engine import KafkaEngine
from kith.log.commands import Command, DecidedCommand


class DatingOwner:
    """An owner that remembers as of when it decided commands."""

    def __init__(self) -> None:
        self.decided_ms: list[int] = []

    async def take(self, partition: int, next_write: int) -> Sequence[DecidedCommand]:
        return ()

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
        self.decided_ms += [command.at_ms for command in commands]
        return [DecidedCommand(command.offset, b"done", ()) for command in commands]


@pytest.mark.parametrize(("ahead_ms", "decided_ms", "warned"), [(-500, -500, 0), (500, 0, 0), (3_600_000, 0, 1)])
def test_no_command_is_decided_as_of_the_future_though_a_brokers_clock_is_ahead(
    run: Run, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, decided_ms: int, warned: int
) -> None:
    """Edges that expire until then would be removed."""
    monkeypatch.setattr(kafka_in_memory, "wall_ms", lambda: START_MS + ahead_ms)

    async def scene() -> None:
        engine, owner = KafkaEngine(MemoryKafka(1), lambda _: 0, now_ms=lambda: START_MS), DatingOwner()
        runner = await engine.start_owner(owner)
        await engine.commands.ask(0, b"a command")
        assert owner.decided_ms == [START_MS + decided_ms]
        await runner.close()
        await engine.close()

    with structlog.testing.capture_logs() as logs:
        run(scene())
    assert len([line for line in logs if line.get("error") == "its clock is ahead"]) == warned
