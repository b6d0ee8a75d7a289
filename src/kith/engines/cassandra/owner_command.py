"""The base of every command: it names the rows that it needs, and changes a batch once they were read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kith.engines.cassandra.batch import RowBatch
from kith.engines.cassandra.reading import Key
from kith.graph.shapes import Listing

FAILED = b"\xc1"
"""The outcome of a command that raised, which changes nothing; no MessagePack begins so."""


class OwnerCommand(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A command, as it stands in its partition; see `commands`. `permit`: by which a closed store is written to."""

    permit: int = 0

    def reads(self, partition: int) -> Iterable[Key]:
        """The rows that it needs, as far as they are known before others are read. `partition`: its own."""
        raise NotImplementedError

    def run(self, batch: RowBatch) -> Any:
        """Decide it; returns the answer."""
        raise NotImplementedError

    def lengths(self) -> Iterable[Listing]:
        """Lists whose length it needs."""
        return ()
