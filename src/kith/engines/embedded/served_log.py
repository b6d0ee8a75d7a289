"""The ServedLog as files, each written by one process: `served/<yyyymmddThhmmss>-<microseconds>-<pid>.rows`.

    a row   length u32 | CRC-32 u32 | a Served as MessagePack

Rows are buffered. A request writes the buffer once it has FLUSH_BYTES, or once FLUSH_S have passed since the last
write. A crash loses the buffer. A reader stops at an incomplete row, so nothing may be appended to a file whose end may
be torn. A process therefore begins a new file when it starts, when the disk refuses a write, and when a file has its
share of `bytes_max`. The oldest files are deleted when all files together exceed `bytes_max`.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from kith.home.served import Served

FLUSH_BYTES, FLUSH_S = 1 << 16, 5.0
FILES_MIN = 8
"""A file holds at most 1/FILES_MIN of `bytes_max`; less if many processes write."""
_HEAD = struct.Struct("<II")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Served).decode
_log = structlog.get_logger("kith.home")


class ServedFiles:
    """See `home.served.ServedLog`.

    `share`: the part of the pages that is kept (0 to 1), spread evenly. `bytes_max`: of all files together. `writers`:
    how many processes write to the folder.
    """

    def __init__(self, folder: Path, *, share: float, bytes_max: int, writers: int = 1) -> None:
        self._folder, self._share = folder, share
        self._file_max = bytes_max // max(FILES_MIN, 2 * writers)
        self._done_max = bytes_max - writers * self._file_max  # leaves room for the file that each writer has open
        self._pages_due, self._buffer, self._flushed_s = 0.0, bytearray(), time.monotonic()
        self._file: Path | None = None
        self._file_bytes = 0

    def add(self, page: Served) -> None:
        self._pages_due += self._share
        if self._pages_due < 1:
            return
        self._pages_due -= 1
        row = _encode(page)
        self._buffer += _HEAD.pack(len(row), zlib.crc32(row)) + row
        if len(self._buffer) >= FLUSH_BYTES or time.monotonic() - self._flushed_s >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write the buffer. If the disk refuses it, the rows are dropped, with a warning in the process's logs."""
        rows, self._buffer, self._flushed_s = bytes(self._buffer), bytearray(), time.monotonic()
        if not rows:
            return
        try:
            self._write(rows)
        except OSError as error:
            self._file = None
            _log.warning("served pages could not be written, and are dropped", error=str(error), bytes=len(rows))

    def _write(self, rows: bytes) -> None:
        if self._file is None or self._file_bytes + len(rows) > self._file_max:
            self._folder.mkdir(exist_ok=True)
            self._file = self._folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S-%f}-{os.getpid()}.rows"
            self._file.touch(0o600)
            self._file_bytes = 0
            self._forget_oldest()
        with self._file.open("ab", buffering=0) as output:
            if output.write(rows) != len(rows):
                raise OSError("the disk took a part of it only")
        self._file_bytes += len(rows)

    def _forget_oldest(self) -> None:
        """Delete the oldest files, to make room for a new one."""
        files = sorted(self._folder.glob("*.rows"))  # oldest first: names begin with the time
        sizes = [_size(file) for file in files]
        excess = sum(sizes) - self._done_max
        for file, size in zip(files, sizes, strict=True):
            if excess <= 0:
                return
            file.unlink(missing_ok=True)
            excess -= size


def _size(file: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # another process deleted it
        return file.stat().st_size
    return 0


def read_served(file: Path) -> Iterator[Served]:
    """The pages in a file, up to the first incomplete row."""
    raw, offset = file.read_bytes(), 0
    while offset + _HEAD.size <= len(raw):
        length, crc = _HEAD.unpack_from(raw, offset)
        offset += _HEAD.size + length
        row = raw[offset - length : offset]
        if not row or zlib.crc32(row) != crc:
            return
        yield _decode(row)
