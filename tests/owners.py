"""Owners of commands as processes that start, stop and resume, and checks of the log and the answers afterwards."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from types import TracebackType

import msgspec
from kafka_in_memory import Gate, Gated
from ledger_owner import Ledger, LedgerOwner

from kith.core.events import NOWHERE
from kith.engines.kafka.broker import Broker
from kith.engines.kafka.commands import KafkaCommands
from kith.engines.kafka.log_store import KafkaLog
from kith.engines.kafka.owner_runner import OwnerRunner
from kith.engines.kafka.recent_events import RecentEvents
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import Expel
from kith.log.commands import Reply

ACCOUNTS = 3
NEVER_S = 1e9
PATIENCE_S = 20.0


class OwnersScene:
    """Owners over one broker. The first stops at its step `stops_at`."""

    def __init__(self, broker: Broker, stops_at: int | None = None, answer_timeout_s: float = PATIENCE_S) -> None:
        self.ledger = Ledger()
        self.unknown = 0  # commands whose outcome the caller does not know
        self._registry = RegistryReplica(broker, expel_after_s=NEVER_S)
        self._recent = RecentEvents(broker, self._registry)
        self.commands = KafkaCommands(broker, self._recent, self._registry.positions, answer_timeout_s)
        self._broker, self._stops_at = broker, stops_at
        self._numbers = itertools.count()
        self._gates: list[Gate] = []
        self._owning: list[OwnerRunner] = []
        self._books: list[RegistryReplica] = []

    async def __aenter__(self) -> OwnersScene:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for gate in self._gates:
            gate.open.set()
        await asyncio.gather(*(runner.close() for runner in self._owning))
        await self._recent.close()
        await asyncio.gather(*(registry.close() for registry in [*self._books, self._registry]))

    async def start_owner(self, stops_at: int | None = None) -> OwnerRunner:
        """Start one more process with an owner."""
        gate = Gate(stops_at)
        broker = Gated(self._broker, gate)
        registry = RegistryReplica(broker, expel_after_s=NEVER_S)
        runner = OwnerRunner(broker, registry, LedgerOwner(self.ledger, gate.step))
        self._gates.append(gate)
        self._books.append(registry)
        self._owning.append(runner)
        await runner.start()
        return runner

    def cut_off(self, runner: OwnerRunner, away: bool = True) -> None:
        """Make the store unavailable to this process, or (`away` is false) available again."""
        owner = runner.owner
        assert isinstance(owner, LedgerOwner)
        owner.away = away

    async def played(self, *, wakes: bool = False) -> bool:
        """Stop the first owner while commands are sent, have a second one expel it, and check all.

        `wakes`: resume the first owner before the check, and send more commands. Returns whether it reached its stop.
        """
        first = asyncio.create_task(self.start_owner(self._stops_at))
        await asyncio.sleep(0)
        gate = self._gates[0]
        asking = asyncio.gather(*map(self._send_commands, range(ACCOUNTS)))
        reaching = asyncio.create_task(gate.reached.wait())
        await asyncio.wait((asking, reaching), return_when=asyncio.FIRST_COMPLETED)
        reaching.cancel()
        stopped = gate.reached.is_set()
        if stopped:
            await self.start_owner()
            registry = self._books[1]
            instance = self._books[0].instance
            if instance in (await registry.sync()).instances:
                await registry.write(Expel(instance, registry.now.instances[instance]))
        replies = [reply for some in await asking for reply in some]
        if wakes:
            gate.open.set()
            await first
            replies += [
                reply for some in await asyncio.gather(*map(self._send_commands, range(ACCOUNTS))) for reply in some
            ]
        await self.check(replies)
        gate.open.set()
        await first
        return stopped

    async def _send_commands(self, account: int) -> list[Reply]:
        """Send three commands one after the other, then two concurrently."""
        replies = [await self.asked(account) for _ in range(3)]
        return replies + await asyncio.gather(self.asked(account), self.asked(account))

    def command(self, account: int) -> bytes:
        """A new command, unlike any other."""
        return account.to_bytes(8, "big") + next(self._numbers).to_bytes(8, "big")

    async def asked(self, account: int) -> Reply:
        return await self.commands.ask(account % self._broker.partitions, self.command(account))

    def account(self, reply: Reply) -> tuple[int, int]:
        """The account of a command, and its count then."""
        account, count = msgspec.json.decode(reply.outcome, type=tuple[int, int])
        return account, count

    async def check(self, replies: Sequence[Reply]) -> None:
        """Check that each command is counted once and logged once, in order, and that each answer is in the log."""
        log = KafkaLog(self._broker, self._registry, self._recent, lambda source: source % self._broker.partitions)
        for reply in replies:
            assert await log.reached(reply.log_position)
        async with asyncio.timeout(PATIENCE_S):  # commands that timed out may still be in progress
            while True:
                batch = await log.read(NOWHERE, 1_000_000)
                told = [(event.source, event.position) for event in batch.events]
                counts = {account: count for account, (_, count) in self.ledger.rows.items()}
                if len(told) >= sum(counts.values()):
                    break
                await asyncio.sleep(0.01)
        for account, count in counts.items():
            assert [number for of, number in told if of == account] == list(range(1, 1 + count))
        answered = sorted(map(self.account, replies))
        assert len(told) == sum(counts.values())
        assert set(answered) <= set(told)
        assert len(set(answered)) == len(answered)
        assert len(told) <= len(answered) + self.unknown
        marks = {(event.source, event.position): event.log_position for event in batch.events}
        for reply in replies:
            assert log.covers(reply.log_position, marks[self.account(reply)])
            assert log.covers(batch.next, reply.log_position)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():  # noqa: ASYNC110  nothing signals it
                await asyncio.sleep(0.001)
