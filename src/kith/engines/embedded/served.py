"""The ServedLog as files: one a process and day, `served/<yyyymmdd>-<pid>.rows`.

    a row   length u32 | a Served as MessagePack

Written in pieces of FLUSH_BYTES or after FLUSH_S, by the request that finds it so; a crash loses what was not, and
a reader stops at a row that is not whole. The oldest files go when all together have more than `bytes_max`.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

from kith.feed.served import Served

FLUSH_BYTES, FLUSH_S = 1 << 16, 5.0
_LENGTH = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_log = structlog.get_logger("kith.feed")


class ServedFiles:
    """See `feed.served.ServedLog`. `share`: of pages that are kept, spread evenly."""

    def __init__(self, folder: Path, *, share: float, bytes_max: int) -> None:
        self._folder, self._share, self._bytes_max = folder, share, bytes_max
        self._due, self._buffer, self._flushed = 0.0, bytearray(), time.monotonic()

    def add(self, page: Served) -> None:
        self._due += self._share
        if self._due < 1:
            return
        self._due -= 1
        row = _encode(page)
        self._buffer += _LENGTH.pack(len(row)) + row
        if len(self._buffer) >= FLUSH_BYTES or time.monotonic() - self._flushed >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered; where the disk does not take it, it is forgotten and said."""
        rows, self._buffer, self._flushed = bytes(self._buffer), bytearray(), time.monotonic()
        if not rows:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._folder / f"{time.strftime('%Y%m%d', time.gmtime())}-{os.getpid()}.rows"
            is_new = not file.exists()
            with file.open("ab") as end:
                end.write(rows)
            if is_new or len(rows) >= FLUSH_BYTES:
                self._forget_oldest(file)
        except OSError as error:
            _log.warning("what was served is not kept", error=str(error), bytes=len(rows))

    def _forget_oldest(self, written: Path) -> None:
        files = sorted(self._folder.glob("*.rows"))
        total = sum(file.stat().st_size for file in files)
        for file in files:
            if total <= self._bytes_max or file == written:
                return
            total -= file.stat().st_size
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                file.unlink()


def read_served(file: Path) -> Iterator[Served]:
    """The pages of a file, up to a row that is not whole."""
    raw, at = file.read_bytes(), 0
    while at + _LENGTH.size <= len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if at + length > len(raw):
            return
        yield msgspec.msgpack.decode(raw[at : at + length], type=Served)
        at += length
