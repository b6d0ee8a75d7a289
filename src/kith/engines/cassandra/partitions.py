"""Which partition of the log of commands owns what: by a hash, for good."""

from __future__ import annotations

import hashlib
import struct

_ID, _RECORD = struct.Struct(">Q"), struct.Struct(">BQ")


class Partitions:
    """The partitions of a log of commands; there are always `count` of them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def of_node(self, id_: int) -> int:
        """Owns a node itself, and all edges of which it is the source."""
        return self._of(b"n" + _ID.pack(id_))

    def of_record(self, kind: int, id_: int) -> int:
        """Owns a record."""
        return self._of(b"r" + _RECORD.pack(kind, id_))

    def of_claim(self, key: bytes) -> int:
        """Owns a claim."""
        return self._of(b"c" + key)

    def of_note(self, name: str) -> int:
        """Owns a note."""
        return self._of(b"t" + name.encode())

    def _of(self, key: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") % self.count
