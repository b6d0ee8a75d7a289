"""A simple `log.commands.Owner` that counts commands. Its rows and journals are in memory that outlives it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import Event
from kith.log.commands import Command, DecidedCommand


class Ledger:
    """What owners write: rows, and for each partition a journal and the epoch of its owner."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}  # by account: offset of the last command, number of commands
        self.journals: dict[int, list[tuple[DecidedCommand, tuple[int, int]]]] = defaultdict(list)
        self.epochs: Counter[int] = Counter()
        self.decided: Counter[bytes] = Counter()  # how often each command was written to a journal


class LedgerOwner:
    """Counts the commands of an account. A command: the account (8 bytes), then bytes that make it unique.

    The outcome is the account and its number of commands so far, as JSON.
    """

    def __init__(self, ledger: Ledger, step: Callable[[], Awaitable[None]]) -> None:
        self._ledger, self._step = ledger, step
        self._epochs: dict[int, int] = {}
        self.away = False

    async def take(self, partition: int, place: int) -> Sequence[DecidedCommand]:
        await self._step()
        self._check_available()
        self._ledger.epochs[partition] += 1
        self._epochs[partition] = self._ledger.epochs[partition]
        await self._step()
        replayed = [(one, row) for one, row in self._ledger.journals[partition] if one.offset >= place]
        await self._write(replayed)
        return [one for one, _ in replayed]

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
        self._check_available()
        rows, batch = dict(self._ledger.rows), list[tuple[DecidedCommand, tuple[int, int]]]()
        for command in commands:
            account = int.from_bytes(command.data[:8], "big")
            count = rows.get(account, (0, 0))[1] + 1
            rows[account] = command.offset, count
            event = Event(1, None, 0, account, count, count, Hlc(command.offset))
            batch.append(
                (DecidedCommand(command.offset, msgspec.json.encode([account, count]), [event]), (account, count))
            )
        await self._step()
        if self._ledger.epochs[partition] != self._epochs[partition]:
            raise StoreUnavailable("another owner has taken over")
        self._ledger.journals[partition] = batch
        self._ledger.decided.update(command.data for command in commands)
        await self._write(batch)
        return [one for one, _ in batch]

    def _check_available(self) -> None:
        if self.away:
            raise StoreUnavailable("the ledger is away")

    async def _write(self, batch: Sequence[tuple[DecidedCommand, tuple[int, int]]]) -> None:
        for one, (account, count) in batch:
            await self._step()
            if one.offset >= self._ledger.rows.get(account, (-1, 0))[0]:
                self._ledger.rows[account] = one.offset, count
