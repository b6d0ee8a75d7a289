"""The read-your-writes token: proof of how far the log had come when a write was acknowledged.

A reader that carries it must be answered from a state at least that new, on any instance. Engines whose
reads always see every acknowledged write (embedded) have nothing to wait for; those with caches that lag
step around them. Carried in the `Kith-Token` header, both ways.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kith.core.errors import BadToken, StoreUnavailable
from kith.core.history import History
from kith.core.signing import Signer

_TOKEN = struct.Struct(">QQQ")


class WriteMark(NamedTuple):
    """Where a write stands: the last sequence number it got in the log, and its clock value."""

    sequence: int
    updated_at: int


class WriteTokens:
    """Writes and reads tokens of a store with this history."""

    def __init__(self, secret: bytes, history: History | None = None) -> None:
        self._signer, self._history = Signer(secret, "write-token"), history or History()

    def issue(self, mark: WriteMark) -> str:
        """The token for an acknowledged write."""
        return self._signer.seal(_TOKEN.pack(self._history.name, *mark))

    def read(self, text: str) -> WriteMark:
        """The mark inside. BadToken for anything this service did not issue; StoreUnavailable where the write came
        after the backup that this store was restored from.
        """
        payload = self._signer.open(text)
        if payload is None or len(payload) != _TOKEN.size:
            raise BadToken("Kith-Token was not issued by this service; send back what the last write answered")
        name, sequence, updated_at = _TOKEN.unpack(payload)
        if not self._history.holds(name, sequence):
            raise lost_write()
        return WriteMark(sequence, updated_at)


def lost_write() -> StoreUnavailable:
    """The error for a token whose write this store does not have."""
    return StoreUnavailable(
        "this store has not seen the write your Kith-Token stands for (it was restored from a backup); "
        "drop the token and repeat the write"
    )
