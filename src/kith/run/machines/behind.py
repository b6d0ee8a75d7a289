"""How old a standby is: written by the process that follows the primary, read by those that answer requests.

    standby.level   monotonic ns at which the standby had all that the primary had, 0: not since it started u64
                    | length of what is wrong u16 | what is wrong, UTF-8

Mapped by all processes of the folder. The time is monotonic, so a wrong clock does not matter.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

from kith.engines.embedded.driver_errors import translated

_FILE = "standby.level"
_HEAD = struct.Struct("<QH")
_BYTES = 1024


class Level:
    """The file. `begin`: as the process that follows, which begins at nothing."""

    def __init__(self, folder: Path, *, begin: bool = False) -> None:
        descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with translated(f"write {_FILE}", folder):
                os.posix_fallocate(descriptor, 0, _BYTES)  # a full disk would end the process that writes to it
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        if begin:
            self.was_level(0)

    def was_level(self, monotonic_ns: int) -> None:
        """The standby had all that the primary had then, and nothing is wrong."""
        _HEAD.pack_into(self._map, 0, monotonic_ns, 0)

    def is_wrong(self, what: str) -> None:
        """Say why the standby does not follow."""
        raw = what.encode()[: _BYTES - _HEAD.size]
        self._map[_HEAD.size : _HEAD.size + len(raw)] = raw
        _HEAD.pack_into(self._map, 0, _HEAD.unpack_from(self._map)[0], len(raw))

    def behind_ms(self) -> int | None:
        """How old the standby may be; None if it never was level since it started."""
        level_ns, _ = _HEAD.unpack_from(self._map)
        return (time.monotonic_ns() - level_ns) // 1_000_000 if level_ns else None

    def problem(self) -> str:
        """What is wrong; empty if nothing is."""
        _, length = _HEAD.unpack_from(self._map)
        return self._map[_HEAD.size : _HEAD.size + length].decode(errors="replace")

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()
