"""Whether a store takes writes: it does not while another is moved into it, nor once it was moved away.

Each partition of commands has a row of its own, which its owner looks at before each command, and which a command
changes. So once the owners have answered that they are closed, nothing that was asked for later is done, whoever
decides it; and what was asked for earlier is. Who moves sends a permit along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kith.core.errors import KithError, StoreMoved, StoreUnavailable
from kith.engines.cassandra.batch import RowBatch
from kith.engines.cassandra.owner_command import OwnerCommand
from kith.engines.cassandra.reading import Key

_REFUSED = b"\xc1"  # which begins no MessagePack
MOVING_IN = "a store is being moved into this cluster; it takes writes when `kith move` is done there"


class ClosedRow(NamedTuple):
    """Why a partition takes no commands but those with this permit. `moved_to`: where the store is; "": it comes."""

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
    """Do only what comes with this permit from now on, or (None) all commands again."""

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
    """The row that says so."""
    return Key("closed", (partition,))


def closed_by(batch: RowBatch) -> ClosedRow | None:
    """Why the partition of a batch is closed; None where it is not."""
    values = batch.get(closed_row(batch.partition))
    return None if values is None else ClosedRow(*values)


def refusal_to(closed: ClosedRow) -> bytes:
    """What a command without permit is answered."""
    return _REFUSED + msgspec.msgpack.encode(closed)


def refusal(outcome: bytes) -> KithError | None:
    """The error of such an answer; None for another."""
    if not outcome.startswith(_REFUSED):
        return None
    return msgspec.msgpack.decode(outcome[len(_REFUSED) :], type=ClosedRow).refusal()
