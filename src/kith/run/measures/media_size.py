"""Measures the size of media and its growth: lists every file four times a day, and keeps the sums.

media-size.json    in the data folder: a list of Measure, oldest first

Limits: listing a bucket of ten million files takes ten thousand requests. New media shows only at the next measuring.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kith.engines.blobs.archives import FolderArchive
from kith.media.blobs import BlobStore

EVERY_S = 21_600
_FILE = "media-size.json"
_KEPT = 400
_DAY_MS = 86_400_000


class Measure(msgspec.Struct, frozen=True):
    """The size of all media at one moment."""

    at_ms: int
    bytes: int


async def measure(blobs: BlobStore, folder: Path, now_ms: int) -> None:
    """List all files and store the sum in the data folder, unless the last sum is younger than half of EVERY_S."""
    before = read(folder)
    if before and 0 <= now_ms - before[-1].at_ms < 1_000 * EVERY_S // 2:
        return
    size = 0
    async for chunk in blobs.list():
        size += sum(blob.size for blob in chunk)
    measures = [*before[1 - _KEPT :], Measure(now_ms, size)]
    FolderArchive(folder, makes=False).put(_FILE, [msgspec.json.encode(measures)])


def read(folder: Path) -> list[Measure]:
    """The stored measures, oldest first."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=list[Measure])
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def gauges(folder: Path) -> Mapping[str, float]:
    """Bytes of media at the last measure, and their growth per day; nothing before the first measure."""
    measures = read(folder)
    if not measures:
        return {}
    latest = measures[-1]
    values: dict[str, float] = {"media_bytes": latest.bytes}
    day_ago = [earlier for earlier in measures if earlier.at_ms <= latest.at_ms - _DAY_MS]
    if day_ago:
        before = day_ago[-1]
        values["media_bytes_per_day"] = (latest.bytes - before.bytes) * _DAY_MS / (latest.at_ms - before.at_ms)
    return values
