"""Commands are decided once, published once and answered right, wherever an owner stops, for good or for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from coroutines import Run
from kafka_in_memory import MemoryKafka
from owners import OwnersScene

from kith.core.clock import wall_ms
from kith.core.errors import NotConfirmed, StoreUnavailable
from kith.engines.kafka import owner_runner
from kith.engines.kafka.broker import Topic
from kith.engines.kafka.commands import GATHER_WAITING_MIN
from kith.log.commands import Reply

STEPS = 75
"""More steps than the first owner takes in a scene."""


def test_an_owner_killed_at_any_step_leaves_nothing_undone_nor_done_twice(run: Run) -> None:
    async def killed_at(step: int) -> bool:
        async with OwnersScene(MemoryKafka(2), step) as scene:
            return await scene.played()

    async def scenes() -> None:
        stopped = await asyncio.gather(*map(killed_at, range(3, STEPS)))
        assert stopped.count(True) > 40
        assert not stopped[-1], "in the last scenes the first owner does it all"

    run(scenes())


def test_an_owner_that_wakes_up_after_others_took_over_changes_nothing(run: Run) -> None:
    async def paused_at(step: int) -> bool:
        async with OwnersScene(MemoryKafka(2), step) as scene:
            return await scene.played(wakes=True)

    async def scenes() -> None:
        stopped = await asyncio.gather(*map(paused_at, range(3, STEPS // 2)))
        assert stopped.count(True) > 30

    run(scenes())


def test_partitions_are_handed_over_when_owners_come_and_go(run: Run) -> None:
    async def scene() -> None:
        async with OwnersScene(MemoryKafka(8)) as scene:
            first = await scene.start_owner()
            await scene.until(lambda: len(first.partitions) == 8)
            replies = [await scene.asked(account) for account in range(16)]
            second = await scene.start_owner()
            await scene.until(lambda: (len(first.partitions), len(second.partitions)) == (4, 4))
            replies += [await scene.asked(account) for account in range(16)]
            await first.close()
            replies += [await scene.asked(account) for account in range(16)]
            await scene.until(lambda: len(second.partitions) == 8)
            await scene.check(replies)
            assert set(scene.ledger.decided.values()) == {1}

    run(scene())


def test_many_commands_that_wait_are_decided_in_their_order(run: Run) -> None:
    async def scene() -> None:
        async with OwnersScene(MemoryKafka(2)) as scene:
            asking = [asyncio.create_task(scene.asked(account % 5)) for account in range(3_000)]
            await asyncio.sleep(0)
            await scene.start_owner()
            await scene.check(await asyncio.gather(*asking))

    run(scene())


def test_no_command_is_answered_while_its_partition_has_no_owner(run: Run) -> None:
    async def scene() -> None:
        async with OwnersScene(MemoryKafka(2), answer_timeout_s=0.01) as scene:
            with pytest.raises(NotConfirmed):
                await scene.asked(1)

    run(scene())


def test_outcomes_come_in_the_order_of_the_questions(run: Run) -> None:
    async def scene() -> None:
        async with OwnersScene(MemoryKafka(2)) as scene:
            await scene.start_owner()
            commands = scene.commands
            replies = await commands.ask_many([(account % 2, scene.command(account)) for account in (4, 1, 4, 2)])
            assert [scene.account(reply) for reply in replies] == [(4, 1), (1, 1), (4, 2), (2, 1)]
            assert isinstance(replies[0], Reply)

    run(scene())


def test_no_commands_get_no_answers_while_many_wait(run: Run) -> None:
    async def scene() -> None:
        async with OwnersScene(MemoryKafka(1)) as scene:
            asking = [asyncio.create_task(scene.asked(0)) for _ in range(GATHER_WAITING_MIN)]
            await scene.until(lambda: len(scene.commands._waiting) == GATHER_WAITING_MIN)
            assert await scene.commands.ask_many([]) == []
            await scene.start_owner()
            await scene.check(await asyncio.gather(*asking))

    run(scene())


@pytest.mark.parametrize("junk", [b"", b"hello"])
def test_records_too_short_for_a_command_stop_no_partition(run: Run, junk: bytes) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(1)
        async with OwnersScene(kafka) as scene:
            await scene.start_owner()
            await kafka.append("writes", 0, junk)
            scene.unknown = 1
            await scene.check([await scene.asked(1)])

    run(scene())


def test_commands_that_wait_for_an_owner_are_counted_until_they_are_done(run: Run) -> None:
    async def counted() -> None:
        kafka = MemoryKafka(2)
        async with OwnersScene(kafka) as scene:
            assert await scene.commands.waiting() == (0, None)
            asking = [asyncio.create_task(scene.asked(account)) for account in (0, 1, 0)]
            grown = kafka.grown
            while (waiting := await scene.commands.waiting()).commands < len(asking):
                await grown.wait()
                grown = kafka.grown
            assert waiting.oldest_ms is not None
            assert waiting.oldest_ms <= wall_ms()
            runner = await scene.start_owner()
            await asyncio.gather(*asking)
            assert await scene.commands.waiting() == (0, None)
            assert runner.is_ready

    run(counted())


def test_an_owner_is_ready_once_it_decides_for_all_its_partitions(run: Run) -> None:
    async def seen() -> None:
        async with OwnersScene(MemoryKafka(2)) as scene:
            first = await scene.start_owner()
            assert not first.is_ready
            await scene.until(lambda: first.partitions == [0, 1])
            assert first.is_ready
            second = await scene.start_owner()
            await scene.until(lambda: first.is_ready and second.is_ready and len(first.partitions) == 1)
            await second.close()
            assert not second.is_ready

    run(seen())


def test_an_owner_that_alone_has_lost_its_store_hands_over_and_comes_back(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_runner, "CUT_OFF_S", 0.0)
    monkeypatch.setattr(owner_runner, "_BACK_OFF_S", 1.0)

    async def scene() -> None:
        async with OwnersScene(MemoryKafka(4)) as scene:
            first, second = await scene.start_owner(), await scene.start_owner()
            await scene.until(lambda: (len(first.partitions), len(second.partitions)) == (2, 2))
            scene.cut_off(first)
            replies = await asyncio.gather(*map(scene.asked, range(16)))
            scene.cut_off(first, False)
            await scene.until(lambda: len(first.partitions) == 2)
            replies += await asyncio.gather(*map(scene.asked, range(16)))
            await scene.check(replies)

    run(scene())


def test_an_owner_that_is_alone_waits_for_its_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_runner, "CUT_OFF_S", 0.0)

    async def scene() -> None:
        async with OwnersScene(MemoryKafka(2)) as scene:
            first = await scene.start_owner()
            await scene.until(lambda: len(first.partitions) == 2)
            scene.cut_off(first)
            asking = asyncio.gather(*map(scene.asked, range(4)))
            await scene.until(lambda: not first.partitions)
            scene.cut_off(first, False)
            await scene.check(await asking)

    run(scene())


class CountingKafka(MemoryKafka):
    """Counts appends to `writes`. Those to partition 0 fail while it `is_away`."""

    def __init__(self) -> None:
        super().__init__(2)
        self.appends, self.is_away = 0, False

    async def append_many(self, topic: Topic, records: Sequence[tuple[int, bytes]]) -> list[int]:
        if topic == "writes":
            self.appends += 1
            if self.is_away and records[0][0] == 0:
                raise StoreUnavailable("away")
        return await super().append_many(topic, records)


def test_few_commands_are_appended_at_once_and_many_together(run: Run) -> None:
    async def scene() -> None:
        kafka = CountingKafka()
        async with OwnersScene(kafka) as scene:
            few = [asyncio.create_task(scene.asked(account)) for account in range(GATHER_WAITING_MIN)]
            await scene.until(lambda: kafka.appends == GATHER_WAITING_MIN)
            many = [asyncio.create_task(scene.asked(account % 7)) for account in range(200)]
            many_more = [asyncio.create_task(scene.asked(account)) for account in range(3)]
            await asyncio.sleep(0.02)
            many_more[0].cancel()
            assert kafka.appends <= GATHER_WAITING_MIN + 4, "at most two appends a partition"
            await scene.start_owner()
            await asyncio.gather(*few, *many, *many_more[1:])
            assert set(scene.ledger.decided.values()) == {1}

    run(scene())


def test_commands_that_cannot_be_appended_do_not_hinder_those_of_other_partitions(run: Run) -> None:
    async def scene() -> None:
        kafka = CountingKafka()
        async with OwnersScene(kafka) as scene:
            await scene.start_owner()
            await scene.commands.ask_many([(number, scene.command(number)) for number in (0, 1)])
            kafka.is_away = True
            asking = [scene.commands.ask(number % 2, scene.command(number)) for number in range(100)]
            replies = await asyncio.gather(*asking, return_exceptions=True)
            assert {type(reply) for reply in replies[::2]} == {StoreUnavailable}
            assert {type(reply) for reply in replies[1::2]} == {Reply}

    run(scene())
