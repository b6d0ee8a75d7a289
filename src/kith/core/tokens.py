"""The read-your-writes token: it says how far the log was when a write was acknowledged.

A request with a token must be answered from a state that is at least as new, on any instance. On the embedded engine
every read sees every acknowledged write, so nothing waits; an engine whose caches lag must read past them. Requests and
answers carry the token in the `Kith-Token` header.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kith.core.errors import BadToken, Conflict
from kith.core.history import History
from kith.core.signing import Signer

_TOKEN = struct.Struct(">QQQ")


class WriteMark(NamedTuple):
    """The place of a write: the sequence number of its last event in the log, and its version."""

    sequence: int
    updated_at: int


class WriteTokens:
    """Writes and reads the tokens of a store with this history."""

    def __init__(self, secret: bytes, history: History | None = None) -> None:
        self._signer, self._history = Signer(secret, "write-token"), history or History()

    def issue(self, mark: WriteMark) -> str:
        """The token for an acknowledged write."""
        return self._signer.seal(_TOKEN.pack(self._history.name, *mark))

    def read(self, text: str) -> WriteMark:
        """The mark in a token. Errors: BadToken if this service did not issue it; Conflict if the write is lost,
        because this store was restored from an older backup.
        """
        payload = self._signer.open(text)
        if payload is None or len(payload) != _TOKEN.size:
            raise BadToken("Kith-Token was not issued by this service; send back what the last write answered")
        name, sequence, updated_at = _TOKEN.unpack(payload)
        if not self._history.holds(name, sequence):
            raise lost_write()
        return WriteMark(sequence, updated_at)


def lost_write() -> Conflict:
    """The error for a token whose write this store does not have."""
    return Conflict(
        "this store has not seen the write your Kith-Token stands for (it was restored from a backup); "
        "drop the token, and repeat the write if it still matters"
    )
