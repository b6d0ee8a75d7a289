"""The base of all commands: a command names the rows that it needs, and then changes a batch that holds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kith.engines.cassandra.row_batch import RowBatch
from kith.engines.cassandra.row_reader import Key
from kith.graph.shapes import Listing

FAILED = b"\xc1"
"""The outcome of a command that raised, and changed nothing. No MessagePack value starts with this byte."""


class OwnerCommand(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A command as the log stores it; see `commands`. `permit`: lets it write to a closed store (`closing`)."""

    permit: int = 0

    def reads(self, partition: int) -> Iterable[Key]:
        """The rows that the command needs, as far as it knows before any are read. `partition`: the command's own."""
        raise NotImplementedError

    def run(self, batch: RowBatch) -> Any:
        """Decide the command and change the batch; returns the answer."""
        raise NotImplementedError

    def lengths(self) -> Iterable[Listing]:
        """The lists whose lengths the command needs."""
        return ()
