"""The note `closed`: why a store takes no writes. Each commit reads it; `store_role` writes it."""

from __future__ import annotations

from typing import Literal

import msgspec

from kith.core.errors import KithError, NotPrimary, ReadOnlyStandby, StoreMoved

CLOSED_KEY = "closed"
"""The note's key."""


class ClosedNote(msgspec.Struct, frozen=True):
    """Why a store takes no writes.

    `primary`: the address of the machine that takes writes, or where the store was moved to. `epoch`: where fenced, the
    name of that primary's history; otherwise 0.
    """

    why: Literal["standby", "fenced", "moved"]
    primary: str
    epoch: int = 0

    def refusal(self) -> KithError:
        """The error for a write."""
        if self.why == "standby":
            return ReadOnlyStandby(
                f"this is a standby, which takes no writes; send them to {self.primary}", primary=self.primary
            )
        if self.why == "moved":
            return StoreMoved(
                f"this store was moved to {self.primary}, and takes no writes here; send them to a server there",
                to=self.primary,
            )
        return NotPrimary(
            f"another machine was made the primary, so this one takes no writes; send them to {self.primary}",
            primary=self.primary,
        )


def refusal(note: bytes) -> KithError:
    """The error for a write to a store that has this note."""
    return msgspec.msgpack.decode(note, type=ClosedNote).refusal()
