"""The file of the timelines: its layout, and the checks whether it may be used.

    rings
      header      format, cells per slot, slots, boot id, checksum; then the words NAME (0: another file has replaced
                  this one), TURN and USED (see `directory`), CHANGING (see `ring_writers`), BUILT and
                  BUILDING (see `builds`)
      heads       i64       slot -> number of ids from its `put` and from all pushes since
      owners      i64       slot -> ~user; 0: free
      versions    i64       slot -> odd while its owner changes or its timeline is replaced by a `put`
      lacks       i64       slot -> lowest rate of authors whose posts were withheld from it since its `put`
      floors      i64       slot -> no id above this was overwritten or left out since its `put`
      tails       16 i64    slot -> the ids of the line that is not full yet: the n-th id is at n % 16
      directory   i64       two tables of (~user, slot)
      builds      i64       timelines that are being built (see `builds`)
      reads       i64       slot -> when and how often it was read (see `read_habits`); readers write this part only
      cells       512 i64   slot -> ring of ids, line by line: the n-th id is at n % 512, once its line is full
    writers.lock, change.lock   see `ring_writers`

All words are in the machine's byte order and 0 at first, so the file is sparse. Nothing is ever synced. What a killed
process wrote is still in the machine's memory; what is on the disk after the machine stopped cannot be trusted. So a
file of another boot, or with an invalid header, is not used: a writer makes a new one.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import weakref
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kith.engines.embedded.builds import BUILDS_MAX, COLUMNS, Builds
from kith.engines.embedded.directory import Directory, cells_for
from kith.engines.embedded.driver_errors import translate_errors

FORMAT = 5
FILE = "rings"
WIDTH = 512
LINE = 16
"""Ids that a tail collects before they are written to the ring together."""
_MAGIC = b"kithring"
_HEADER = struct.Struct("<8sIIQ36s")
_CHECKSUM = struct.Struct("<I")
_WORDS_AT, _HEADER_BYTES = 2048, 4096
_NAME, _TURN, _CHANGING, _BUILT, _WORDS = 0, 1, 3, 4, 6
_ALIGNED = 1 << 16  # pages of every machine divide it
_RESERVE_SLOTS = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class UnusableRingFile(Exception):
    """A file cannot be used as it is; the message says why."""


class Layout(NamedTuple):
    """The offset of each part in bytes, and the length of the file (`end`)."""

    heads: int
    owners: int
    versions: int
    lacks: int
    floors: int
    tails: int
    directory: int
    builds: int
    reads: int
    cells: int
    end: int

    @classmethod
    def of(cls, slots: int) -> Layout:
        """The layout of a file with `slots` slots."""
        column, tables = 8 * slots, 2 * 16 * cells_for(slots)
        offset, starts = _HEADER_BYTES, []
        reads = (column, _ALIGNED)  # mapped separately, so it shares no page with other parts
        parts = (*[(column, 64)] * 5, (column * LINE, 64), (tables, 64), (8 * BUILDS_MAX * COLUMNS, 64))
        for size, aligned in (*parts, reads, (column * WIDTH, _ALIGNED), (0, _ALIGNED)):
            offset = -(-offset // aligned) * aligned
            starts.append(offset)
            offset += size
        return cls(*starts)


class RingFile:
    """An open file as arrays, one element (or row) per slot. A reader may write only `reads`."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Map a file. UnusableRingFile if it is of another boot, damaged or short; FileNotFoundError if missing."""
        self._descriptor = os.open(path, os.O_RDWR)
        weakref.finalize(self, os.close, self._descriptor)
        self.slots = slots = _checked_slots(self._descriptor)
        layout = Layout.of(slots)
        mapped = mmap.mmap(self._descriptor, layout.end, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        reads = mmap.mmap(self._descriptor, 8 * slots, offset=layout.reads)
        self._layout = layout
        self._words = np.frombuffer(mapped, np.int64, _WORDS, _WORDS_AT)
        self.heads = np.frombuffer(mapped, np.int64, slots, layout.heads)
        self.owners = np.frombuffer(mapped, np.int64, slots, layout.owners)
        self.versions = np.frombuffer(mapped, np.int64, slots, layout.versions)
        self.lacks = np.frombuffer(mapped, np.int64, slots, layout.lacks)
        self.floors = np.frombuffer(mapped, np.int64, slots, layout.floors)
        self.reads = np.frombuffer(reads, np.int64, slots)
        self.tails = np.frombuffer(mapped, np.int64, slots * LINE, layout.tails)
        self.cells = np.frombuffer(mapped, np.int64, slots * WIDTH, layout.cells)
        tables = np.frombuffer(mapped, np.int64, 4 * cells_for(slots), layout.directory)
        self.directory = Directory(tables.reshape(2, -1, 2), self._words[_TURN:])
        builds = np.frombuffer(mapped, np.int64, BUILDS_MAX * COLUMNS, layout.builds)
        self.builds = Builds(builds.reshape(BUILDS_MAX, COLUMNS), self._words[_BUILT:])
        self.changing = self._words[_CHANGING : _CHANGING + 1]
        self._reserved: set[int] = set()
        if not self.live:
            raise UnusableRingFile("another was to take its place")

    @property
    def live(self) -> bool:
        """Whether this file is in use; False once a writer has replaced it."""
        return self.name != 0

    @property
    def name(self) -> int:
        """A random number that identifies these timelines. The store notes it, to recognise its own timelines."""
        return int(self._words[_NAME])

    def rename(self) -> None:
        """Take a new name, so that a store that noted the old one no longer accepts these timelines as its own."""
        self._words[_NAME] = _new_name()

    def allocate(self) -> None:
        """Allocate the disk space of everything in use, because a copy of a file may have holes. See `reserve`."""
        _allocate(self._descriptor, 0, self._layout.cells)
        for part in np.unique(np.flatnonzero(self.owners) // _RESERVE_SLOTS).tolist():
            self.reserve(part * _RESERVE_SLOTS)

    def reserve(self, slot: int) -> None:
        """Allocate the disk space of a slot. StoreFull here; without this, a write to a full disk would kill the
        process by a signal.
        """
        part = slot // _RESERVE_SLOTS
        if part not in self._reserved:
            slots = min(_RESERVE_SLOTS, self.slots - part * _RESERVE_SLOTS)
            start = self._layout.cells + part * _RESERVE_SLOTS * WIDTH * 8
            _allocate(self._descriptor, start, slots * WIDTH * 8)
            self._reserved.add(part)


def _new_name() -> int:
    return 1 + secrets.randbelow(2**62)


def boot_id() -> str:
    """The id of the machine's current boot; empty if the system has none."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


def create(path: Path, slots: int) -> None:
    """Make an empty file in place of any other. Readers of the other one notice, because its NAME becomes 0."""
    layout, fixed = Layout.of(slots), _HEADER.pack(_MAGIC, FORMAT, WIDTH, slots, boot_id().encode())
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(descriptor, layout.end)
        _allocate(descriptor, 0, layout.cells)
        os.pwrite(descriptor, fixed + _CHECKSUM.pack(zlib.crc32(fixed)), 0)
        os.pwrite(descriptor, np.array([_new_name(), *[0] * (_WORDS - 1)], np.int64).tobytes(), _WORDS_AT)
    finally:
        os.close(descriptor)
    _retire(path)
    part.replace(path)


def remove(path: Path) -> None:
    """Remove the file. Its readers notice."""
    _retire(path)
    path.unlink()


def _retire(path: Path) -> None:
    if path.exists() and path.stat().st_size >= _HEADER_BYTES:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, bytes(8), _WORDS_AT + 8 * _NAME)
        finally:
            os.close(descriptor)


def _checked_slots(descriptor: int) -> int:
    head = os.pread(descriptor, _HEADER.size + _CHECKSUM.size, 0)
    if len(head) < _HEADER.size + _CHECKSUM.size:
        raise UnusableRingFile("its header is cut short")
    fixed = head[: _HEADER.size]
    magic, version, width, slots, boot = _HEADER.unpack(fixed)
    if magic != _MAGIC or _CHECKSUM.unpack(head[_HEADER.size :])[0] != zlib.crc32(fixed):
        raise UnusableRingFile("its header is damaged")
    if (version, width) != (FORMAT, WIDTH):
        raise UnusableRingFile("it has another format")
    if boot.rstrip(b"\0").decode() != boot_id():
        raise UnusableRingFile("it was written before the machine started")
    if os.fstat(descriptor).st_size != Layout.of(slots).end:
        raise UnusableRingFile("its length is wrong")
    return int(slots)


def _allocate(descriptor: int, start: int, size: int) -> None:
    with translate_errors("keep timelines"):
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, start, size)
