"""The read-your-writes token: the position of the log when a write was acknowledged.

A request with a token must be answered from a state that is at least that new, on any instance: see
`log.store.LogStore.reached`. Requests and answers carry the token in the `Kith-Token` header.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kith.core.errors import BadToken, Conflict
from kith.core.events import NOWHERE, LogPosition
from kith.core.signing import Signer

_VERSION = struct.Struct(">Q")


class WriteMark(NamedTuple):
    """A write's place in the log: every position that covers `at` covers all its events. `updated_at`: its version."""

    at: LogPosition
    updated_at: int


NO_MARK = WriteMark(NOWHERE, 0)
"""The mark of a write that changed nothing."""


class WriteTokens:
    """Makes and reads tokens."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, "write-token")

    def issue(self, mark: WriteMark) -> str:
        """The token for an acknowledged write."""
        return self._signer.seal(_VERSION.pack(mark.updated_at) + mark.at)

    def read(self, text: str) -> WriteMark:
        """The mark in a token. BadToken if this service did not issue it."""
        payload = self._signer.open(text)
        if payload is None or len(payload) <= _VERSION.size:
            raise BadToken("Kith-Token was not issued by this service; send back what the last write answered")
        return WriteMark(LogPosition(payload[_VERSION.size :]), *_VERSION.unpack_from(payload))


def lost_write_error() -> Conflict:
    """The error for a token whose write this store does not have."""
    return Conflict(
        "this store has not seen the write your Kith-Token stands for (it was restored from a backup, or moved); "
        "drop the token, and repeat the write if it still matters"
    )
