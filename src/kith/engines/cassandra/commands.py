"""The encoding of all commands, and the client that sends them to owners.

A command that the owner does not know (from a newer Kith) changes nothing and gets an empty answer. A command that
raises at the owner changes nothing either; the other commands of its batch are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from kith.core.errors import StoreUnavailable
from kith.core.events import LogPosition
from kith.engines.cassandra.closing import CloseStore, refusal
from kith.engines.cassandra.edge_commands import (
    CountStretch,
    DivideList,
    EndEdges,
    ForgetEdges,
    ForgetLong,
    ListEdges,
    UnlistStrays,
    WriteEdges,
)
from kith.engines.cassandra.owner_command import FAILED
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.row_commands import (
    ChangeNode,
    ForgetRecords,
    PutNote,
    ReleaseClaim,
    TakeClaim,
    TakeClaims,
    WriteRecords,
)
from kith.log.commands import Commands, Reply

AnyCommand = (
    WriteEdges | ForgetEdges | EndEdges | ListEdges | UnlistStrays | CountStretch | DivideList | ForgetLong
    | ChangeNode | PutNote | WriteRecords | ForgetRecords | TakeClaim | TakeClaims | ReleaseClaim | CloseStore
)  # fmt: skip
T = TypeVar("T")
Joined = Callable[[LogPosition, LogPosition], LogPosition]
_decoder: msgspec.msgpack.Decoder[AnyCommand] = msgspec.msgpack.Decoder(AnyCommand)


def read_command(data: bytes) -> AnyCommand | None:
    """Decode a command; None if this version of Kith does not know it."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


class Owners:
    """The client of the owners: sends them commands and decodes their answers.

    `joined`: see `log.store.LogStore`. `permit`: sent with each command, so that a closed store executes it
    (`closing`). `check`: raises if this process may not send commands now.
    """

    def __init__(
        self, commands: Commands, joined: Joined, permit: int = 0, check: Callable[[], None] = lambda: None
    ) -> None:
        self.commands, self.joined, self.permit, self._check = commands, joined, permit, check
        self.partitions = Partitions(commands.partitions)

    async def ask(self, partition: int, command: AnyCommand, kind: type[T]) -> tuple[T, LogPosition]:
        """Send one command; its answer, and a log position that covers it."""
        ((answer, position),) = await self.ask_many([(partition, command)], kind)
        return answer, position

    async def ask_many(self, commands: Sequence[tuple[int, AnyCommand]], kind: type[T]) -> list[tuple[T, LogPosition]]:
        """Like `ask`, for several commands at once. Commands of one partition are decided in the given order."""
        self._check()
        if self.permit:
            commands = [(to, msgspec.structs.replace(command, permit=self.permit)) for to, command in commands]
        encoded = [(partition, msgspec.msgpack.encode(command)) for partition, command in commands]
        return [(_answer(reply, kind), reply.log_position) for reply in await self.commands.ask_many(encoded)]

    async def drain_batches(self) -> None:
        """Wait until every owner, or its successor, has finished the batches that were in progress at the call."""
        owners = range(self.partitions.count)
        await self.ask_many([(owner, ListEdges([])) for owner in owners], type(None))


def _answer(reply: Reply, kind: Any) -> Any:
    if not reply.outcome:
        raise StoreUnavailable("the owner of these rows runs an older Kith, which cannot do this; upgrade it")
    if reply.outcome == FAILED:
        raise RuntimeError("the owner of these rows failed at this write, which changed nothing; its log says how")
    if (error := refusal(reply.outcome)) is not None:
        raise error
    return msgspec.msgpack.decode(reply.outcome, type=kind)
