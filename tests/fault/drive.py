"""Rebuilds the disk of a traced process as a power cut would leave it: all synced writes, and any pages of the rest."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.store_file import STORE_FILE

FILES = {1: STORE_FILE, 2: JOURNAL_FILE}
_MARK = 0x5EA1ED0FD15C0B57
_HEADER = struct.Struct("=QQQQQ")
_SECTOR = 512
_PAGE = 4096


class Record(NamedTuple):
    """One step of the trace; see `faulty_disk.c`."""

    kind: str
    file: int
    offset: int
    data: bytes


def read_trace(raw: bytes) -> Iterator[Record]:
    """The steps, in order. An incomplete record at the end, of a writer that was killed, is left out."""
    mark = _MARK.to_bytes(8, sys.byteorder)
    position = 0
    while 0 <= position <= len(raw) - _HEADER.size:
        _, kind, file, offset, length = _HEADER.unpack_from(raw, position)
        start, end = position + _HEADER.size, position + _HEADER.size + length
        if end == len(raw) or raw.startswith(mark, end):
            yield Record(chr(kind), file, offset, raw[start:end])
            position = end
        else:
            position = raw.find(mark, position + 1)


class Drive:
    """The state of the disk: synced writes, and pending ones that a power cut may lose. Also what was acknowledged."""

    def __init__(self) -> None:
        self._files = {file: _File() for file in FILES}
        self.acknowledged: list[str] = []

    def take(self, step: Record) -> None:
        """Apply one step of the trace."""
        if step.kind == "A":
            self.acknowledged.append(step.data.decode())
        else:
            self._files[step.file].take(step)

    def cut(self, chosen: random.Random) -> dict[str, bytes]:
        """The files, by name, after a power cut at this moment."""
        return {name: self._files[file].cut(chosen) for file, name in FILES.items()}


class _File:
    """One file of the disk."""

    def __init__(self) -> None:
        self._synced = bytearray()
        self._pending: list[Record] = []
        self._syncs: dict[int, int] = {}  # by syncing thread: how many of the pending writes the sync covers

    def take(self, step: Record) -> None:
        if step.kind == "B":
            self._syncs[step.offset] = len(self._pending)
        elif step.kind == "S":
            synced_writes = self._syncs.pop(step.offset)
            for write in self._pending[:synced_writes]:
                _put(self._synced, write)
            del self._pending[:synced_writes]
            self._syncs = {thread: max(0, count - synced_writes) for thread, count in self._syncs.items()}
        else:
            self._pending.append(step)

    def cut(self, chosen: random.Random) -> bytes:
        disk, share = bytearray(self._synced), chosen.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for piece in [piece for write in self._pending for piece in _pieces(write)]:
            if chosen.random() < share:
                _put(disk, piece)
        return bytes(disk)


def _put(disk: bytearray, write: Record) -> None:
    if write.kind == "T":
        del disk[write.offset :]
        disk.extend(bytes(write.offset - len(disk)))
        return
    disk.extend(bytes(max(0, write.offset - len(disk))))
    disk[write.offset : write.offset + len(write.data)] = write.data


def _pieces(write: Record) -> Iterator[Record]:
    """The parts of a write that reach the drive independently: pages, or the whole write if it fits a sector."""
    if write.kind == "T" or len(write.data) <= _SECTOR:
        yield write
        return
    for start in range(0, len(write.data), _PAGE):
        yield Record(write.kind, write.file, write.offset + start, write.data[start : start + _PAGE])
