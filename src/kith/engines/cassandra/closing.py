"""Closes a store to writes: while another store is moved into it, and after it was moved away.

Each partition of the command log has a `closed` row. A command sets or deletes that row, and the partition's owner
checks it before each command. So once every owner has answered `CloseStore`, commands sent before it are done and
commands sent after it are refused, even by a new owner. The process that moves the store sends a permit with its
commands, and they pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kith.core.errors import KithError, StoreMoved, StoreUnavailable
from kith.engines.cassandra.owner_command import OwnerCommand
from kith.engines.cassandra.row_batch import RowBatch
from kith.engines.cassandra.row_reader import Key

_REFUSED = b"\xc1"  # no MessagePack value starts with this byte
MOVING_IN = "a store is being moved into this cluster; it takes writes when `kith move` is done there"


class ClosedRow(NamedTuple):
    """The row of a closed partition: only commands with this permit are executed.

    `moved_to`: where the store was moved to; "": another store is being moved in.
    """

    permit: int
    moved_to: str

    def refusal(self) -> KithError:
        """The error for a write."""
        if not self.moved_to:
            return StoreUnavailable(MOVING_IN)
        return StoreMoved(
            f"this store was moved to {self.moved_to}, and takes no writes here; send them to a server there",
            to=self.moved_to,
        )


class CloseStore(OwnerCommand, frozen=True, tag="close"):
    """From now on execute only commands with this permit; None: execute all commands again."""

    closed: ClosedRow | None

    def reads(self, partition: int) -> Iterable[Key]:
        return [closed_row(partition)]

    def run(self, batch: RowBatch) -> None:
        key = closed_row(batch.partition)
        if self.closed is not None:
            batch.put(key, tuple(self.closed))
        elif batch.get(key) is not None:
            batch.delete(key)


def closed_row(partition: int) -> Key:
    """The key of a partition's `closed` row."""
    return Key("closed", (partition,))


def closed_by(batch: RowBatch) -> ClosedRow | None:
    """The `closed` row of a batch's partition; None while the partition is open."""
    values = batch.get(closed_row(batch.partition))
    return None if values is None else ClosedRow(*values)


def refusal_to(closed: ClosedRow) -> bytes:
    """The outcome of a command without the permit, as bytes."""
    return _REFUSED + msgspec.msgpack.encode(closed)


def refusal(outcome: bytes) -> KithError | None:
    """The error that an outcome of `refusal_to` stands for; None for any other outcome."""
    if not outcome.startswith(_REFUSED):
        return None
    return msgspec.msgpack.decode(outcome[len(_REFUSED) :], type=ClosedRow).refusal()
