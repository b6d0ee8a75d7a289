"""Edge files for tests: put into a folder, compressed, and read whole."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kith.commands.transfer import formats
from kith.commands.transfer.formats import read, zstd

SQUEEZED = ("", ".gz", ".zst")


SELF, NUMBER, RANGE, SHORT = "self-edge", "not a number", "id out of range", "fewer than two columns"
BIG = (1 << 53) + 1  # the first number that a float cannot hold
_CHECKED = {zstd.CompressionParameter.checksum_flag: 1}


class Got(NamedTuple):
    """All of a file."""

    rows: list[tuple[int, ...]]
    refused: list[tuple[int, str]]


def squeezed(data: bytes, how: str) -> bytes:
    """`data` as it stands in a file whose name ends in `how`."""
    return gzip.compress(data) if how == ".gz" else zstd.compress(data, options=_CHECKED) if how == ".zst" else data


def put(folder: Path, data: bytes, kind: str = ".csv") -> Path:
    """A file of this kind."""
    path = folder / f"edges{kind}"
    path.write_bytes(squeezed(data, path.suffix))
    return path


def all_of(path: Path, skip_lines: int = 0, chunk_bytes: int = formats.CHUNK_BYTES) -> Got:
    """Everything `read` says of a file."""
    rows: list[tuple[int, ...]] = []
    refused: list[tuple[int, str]] = []
    for chunk in read(path, skip_lines, chunk_bytes):
        assert chunk.edges.dtype == np.int64
        rows += [tuple(row[:3] if len(row) < 4 or row[3] else row[:2]) for row in chunk.edges.tolist()]
        refused += map(tuple, chunk.refused)
    return Got(rows, refused)


def got(folder: Path, data: bytes, kind: str = ".csv") -> Got:
    """What a file with this content gives."""
    return all_of(put(folder, data, kind))
