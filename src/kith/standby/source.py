"""The port behind the routes for standbys: what a primary gives the machines that keep a copy of its store.

Implemented by `engines/embedded/shipping.py`. What is shipped is the engine's own: a standby has the same engine, and
the same version of Kith.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec


class Epoch(msgspec.Struct, frozen=True):
    """Tells which machine is the primary: the restores and promotions of a store, each with its name and the last event
    it kept.

    One is newer than another if it begins with that and goes on.
    """

    restores: Sequence[tuple[int, int]]


class Source(Protocol):
    """What a primary gives its standbys. Errors: `StoreUnavailable`."""

    def snapshot(self) -> AsyncGenerator[bytes, None]:
        """The whole store at one moment, in chunks, with its checksum at the end. Overloaded: one is under way here."""
        ...

    async def log(
        self, after: int, has: int | None, wait_s: float, *, with_places: bool = False, history: int | None = None
    ) -> bytes | None:
        """What follows an event, as bytes; None if nothing did within `wait_s`.

        `with_places`: and how far consumers are.
        `has`: the last event that the standby has for good, once it knows that its log begins as ours does; until then
        None, and what it is given lets it find out. So where `history`, that of its store, is not ours any more.
        TokenTooOld, if the log does not reach back so far. Overloaded.
        """
        ...

    async def epoch(self) -> Epoch:
        """The epoch of the store."""
        ...

    async def fence(self, newer: Epoch, primary: str) -> int:
        """Take no writes any more: `primary` does. The number of the last event, which is then the last for good.

        Conflict, if the epoch is not newer, or another machine is the primary already.
        """
        ...
