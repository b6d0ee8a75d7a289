"""The port behind the routes for standbys: what a primary ships to the machines that keep a copy of its store.

Implemented by `engines/embedded/shipping.py`. The shipped format is private to the engine, so a standby must run the
same engine and the same version of Kith.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec


class Epoch(msgspec.Struct, frozen=True):
    """The history of a store's restores and promotions, which decides which machine is the primary.

    `restores`: for each, its name and the last event that it kept. An epoch is newer than another if it starts with the
    other's entries and has more.
    """

    restores: Sequence[tuple[int, int]]


class Source(Protocol):
    """What a primary ships to its standbys. Errors: `StoreUnavailable`."""

    def snapshot(self) -> AsyncGenerator[bytes, None]:
        """The whole store at one moment, in chunks, with a checksum at the end.

        Overloaded if another snapshot is in progress here.
        """
        ...

    async def log(
        self, after: int, has: int | None, wait_s: float, *, with_places: bool = False, history: int | None = None
    ) -> bytes | None:
        """The log after event number `after`, as bytes; None if nothing followed within `wait_s`.

        `has`: the last event that the standby has stored durably. None until it knows that its log is a prefix of ours;
        the answer then lets it find out. The same holds if `history`, that of the standby's store, is no longer ours.
        `with_places`: answer at once, with the checkpoints of consumers. So a standby follows these, and which server
        keys are valid, while nothing is written.
        Errors: TokenTooOld if the log does not reach back that far; Overloaded.
        """
        ...

    async def epoch(self) -> Epoch:
        """The epoch of the store."""
        ...

    async def fence(self, newer: Epoch, primary: str) -> int:
        """Refuse all writes from now on, as `primary` takes them. Returns the number of the last event, now final.

        Conflict if the epoch is not newer, or another machine is the primary already.
        """
        ...
