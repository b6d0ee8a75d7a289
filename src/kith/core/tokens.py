"""The read-your-writes token: proof of how far the log had come when a write was acknowledged.

A reader that carries it must be answered from a state at least that new, on any instance. Engines whose
reads always see every acknowledged write (embedded) have nothing to wait for; those with caches that lag
step around them. Carried in the `Kith-Token` header, both ways.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kith.core.errors import BadToken
from kith.core.signing import Signer

_TOKEN = struct.Struct(">QQ")


class WriteMark(NamedTuple):
    """Where a write stands: the last sequence number it got in the log, and its clock value."""

    sequence: int
    updated_at: int


class WriteTokens:
    """Writes and reads tokens."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, "write-token")

    def issue(self, mark: WriteMark) -> str:
        """The token for an acknowledged write."""
        return self._signer.seal(_TOKEN.pack(*mark))

    def read(self, text: str) -> WriteMark:
        """The mark inside; BadToken for anything this service did not issue."""
        payload = self._signer.open(text)
        if payload is None or len(payload) != _TOKEN.size:
            raise BadToken("Kith-Token was not issued by this service; send back what the last write answered")
        return WriteMark(*_TOKEN.unpack(payload))
