"""The lag of a standby: written by the process that follows the primary, read by processes that answer requests.

    standby.level   monotonic ns when the standby last had all that the primary had, 0: never since it started u64
                    | length of the problem u16 | the problem, UTF-8

All processes of the folder map the file. The time is monotonic, so a wrong wall clock does not matter.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

from kith.engines.embedded.driver_errors import translate_errors

_FILE = "standby.level"
_HEAD = struct.Struct("<QH")
_BYTES = 1024


class StandbyLag:
    """The file. `begin`: reset it, as the process that follows the primary does."""

    def __init__(self, folder: Path, *, begin: bool = False) -> None:
        descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with translate_errors(f"write {_FILE}", folder):
                os.posix_fallocate(descriptor, 0, _BYTES)  # else writing to the map on a full disk kills us
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        if begin:
            self.note_caught_up(0)

    def note_caught_up(self, monotonic_ns: int) -> None:
        """Note that the standby had all that the primary had at this time, and clear the problem."""
        _HEAD.pack_into(self._map, 0, monotonic_ns, 0)

    def note_problem(self, problem: str) -> None:
        """Note why the standby cannot follow."""
        raw = problem.encode()[: _BYTES - _HEAD.size]
        self._map[_HEAD.size : _HEAD.size + len(raw)] = raw
        _HEAD.pack_into(self._map, 0, _HEAD.unpack_from(self._map)[0], len(raw))

    def behind_ms(self) -> int | None:
        """Lag of the standby in ms at most; None if it has not caught up since it started."""
        caught_up_ns, _ = _HEAD.unpack_from(self._map)
        return (time.monotonic_ns() - caught_up_ns) // 1_000_000 if caught_up_ns else None

    def problem(self) -> str:
        """The current problem; empty if there is none."""
        _, length = _HEAD.unpack_from(self._map)
        return self._map[_HEAD.size : _HEAD.size + length].decode(errors="replace")

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()
