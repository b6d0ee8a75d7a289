"""Edge files for tests: written to a folder, compressed, and read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kith.commands.transfer import formats
from kith.commands.transfer.formats import read, zstd

COMPRESSIONS = ("", ".gz", ".zst")


SELF, NUMBER, RANGE, SHORT = "self-edge", "not a number", "id out of range", "fewer than two columns"
BIG = (1 << 53) + 1  # the first number that a float cannot hold
_CHECKED = {zstd.CompressionParameter.checksum_flag: 1}


class FileContent(NamedTuple):
    """All rows of a file, and its refused lines with the reason."""

    rows: list[tuple[int, ...]]
    refused: list[tuple[int, str]]


def compressed(data: bytes, how: str) -> bytes:
    """`data` compressed for a file name that ends in `how`."""
    return gzip.compress(data) if how == ".gz" else zstd.compress(data, options=_CHECKED) if how == ".zst" else data


def put(folder: Path, data: bytes, kind: str = ".csv") -> Path:
    """Write a file with this ending; returns its path."""
    path = folder / f"edges{kind}"
    path.write_bytes(compressed(data, path.suffix))
    return path


def all_of(path: Path, skip_lines: int = 0, chunk_bytes: int = formats.CHUNK_BYTES) -> FileContent:
    """All that `read` returns for a file."""
    rows: list[tuple[int, ...]] = []
    refused: list[tuple[int, str]] = []
    for chunk in read(path, skip_lines, chunk_bytes):
        assert chunk.edges.dtype == np.int64
        rows += [tuple(row[:3] if len(row) < 4 or row[3] else row[:2]) for row in chunk.edges.tolist()]
        refused += map(tuple, chunk.refused)
    return FileContent(rows, refused)


def got(folder: Path, data: bytes, kind: str = ".csv") -> FileContent:
    """Write a file with this content, and read it."""
    return all_of(put(folder, data, kind))
