"""A log of commands in this process. It decides the commands of a call and partition together, and logs at once."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence

from reference_logs import Partitions

from kith.core.clock import wall_ms
from kith.log.commands import Command, Owner, Reply


class LocalCommands:
    """See `log.commands.Commands`. Each partition decides its commands one batch at a time."""

    def __init__(self, owner: Owner, partitions: int, events: Partitions, now_ms: Callable[[], int] = wall_ms) -> None:
        self.partitions, self._owner, self._events, self._now_ms = partitions, owner, events, now_ms
        self._turns: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.begin(0)

    def begin(self, first: int) -> None:
        """Have the owner take partitions over again. The next command has the offset `first`."""
        self._offsets, self._first = itertools.count(first), first
        self._taken: set[int] = set()

    async def ask(self, partition: int, data: bytes) -> Reply:
        return (await self.ask_many([(partition, data)]))[0]

    async def ask_many(self, asked: Sequence[tuple[int, bytes]]) -> list[Reply]:
        parts: dict[int, list[int]] = defaultdict(list)
        for at, (partition, _) in enumerate(asked):
            parts[partition].append(at)
        told: dict[int, Reply] = {}
        some = [self._decide(partition, [asked[at][1] for at in part]) for partition, part in parts.items()]
        for part, replies in zip(parts.values(), await asyncio.gather(*some), strict=True):
            told |= zip(part, replies, strict=True)
        return [told[at] for at in range(len(asked))]

    async def _decide(self, partition: int, data: Sequence[bytes]) -> list[Reply]:
        async with self._turns[partition]:
            if partition not in self._taken:
                await self._owner.take(partition, self._first)
                self._taken.add(partition)
            now_ms = self._now_ms()
            commands = [Command(next(self._offsets), now_ms, one) for one in data]
            replies = []
            for decided in await self._owner.decide(partition, commands):
                for event in decided.events:
                    self._events.append(event)
                replies.append(Reply(decided.outcome, self._events.end))
            return replies
