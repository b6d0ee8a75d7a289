"""Which partition of the command log owns a row: a hash of its key decides, for good."""

from __future__ import annotations

import hashlib
import struct

_ID, _RECORD = struct.Struct(">Q"), struct.Struct(">BQ")


class Partitions:
    """The partitions of a command log. Their `count` never changes."""

    def __init__(self, count: int) -> None:
        self.count = count

    def of_node(self, id_: int) -> int:
        """The partition that owns a node, and all edges with this source."""
        return self._of(b"n" + _ID.pack(id_))

    def of_record(self, kind: int, id_: int) -> int:
        """The partition that owns a record."""
        return self._of(b"r" + _RECORD.pack(kind, id_))

    def of_claim(self, key: bytes) -> int:
        """The partition that owns a claim."""
        return self._of(b"c" + key)

    def of_note(self, name: str) -> int:
        """The partition that owns a note."""
        return self._of(b"t" + name.encode())

    def _of(self, key: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") % self.count
