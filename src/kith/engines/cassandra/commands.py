"""Commands of every kind as bytes, and the client that asks owners to decide them.

A command that an owner does not know, as from a newer Kith, changes nothing and has an empty answer; nor does one at
which the owner fails change anything, and those beside it are decided.
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
    """The command of some bytes; None if it is none that is known."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


class Owners:
    """Those who decide writes: sends them commands, and reads their answers. `joined`: see `log.store.LogStore`.

    `permit`: by which they are done though the store is closed (`closing`). `check`: raises where this process may send
    none now.
    """

    def __init__(
        self, commands: Commands, joined: Joined, permit: int = 0, check: Callable[[], None] = lambda: None
    ) -> None:
        self.commands, self.joined, self.permit, self._check = commands, joined, permit, check
        self.partitions = Partitions(commands.partitions)

    async def one(self, partition: int, command: AnyCommand, kind: type[T]) -> tuple[T, LogPosition]:
        """What a command answers, and a log position that covers it."""
        ((answer, position),) = await self.many([(partition, command)], kind)
        return answer, position

    async def many(self, asked: Sequence[tuple[int, AnyCommand]], kind: type[T]) -> list[tuple[T, LogPosition]]:
        """Like `one`, for several at once; those of one partition in their order."""
        self._check()
        if self.permit:
            asked = [(at, msgspec.structs.replace(command, permit=self.permit)) for at, command in asked]
        encoded = [(partition, msgspec.msgpack.encode(command)) for partition, command in asked]
        return [(_answer(reply, kind), reply.log_position) for reply in await self.commands.ask_many(encoded)]

    async def pass_batches(self) -> None:
        """Wait until every owner, or who has taken over from it, is done with the batches that it began before."""
        owners = range(self.partitions.count)
        await self.many([(owner, ListEdges([])) for owner in owners], type(None))


def _answer(reply: Reply, kind: Any) -> Any:
    if not reply.outcome:
        raise StoreUnavailable("the owner of these rows runs an older Kith, which cannot do this; upgrade it")
    if reply.outcome == FAILED:
        raise RuntimeError("the owner of these rows failed at this write, which changed nothing; its log says how")
    if (refused := refusal(reply.outcome)) is not None:
        raise refused
    return msgspec.msgpack.decode(reply.outcome, type=kind)
