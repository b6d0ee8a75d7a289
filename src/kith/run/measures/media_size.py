"""How much media there is, and how fast it grows: every file is listed four times a day, and the sums are kept.

media-size.json    in the data folder: a list of Measure, oldest first

Limit: a bucket of ten million files is ten thousand requests each time; between two times nothing is told of what came.
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
    """What was there at a moment."""

    at_ms: int
    bytes: int


async def measure(blobs: BlobStore, folder: Path, now_ms: int) -> None:
    """List all files and keep the sums in a data folder, unless that was done lately."""
    before = read(folder)
    if before and 0 <= now_ms - before[-1].at_ms < 1_000 * EVERY_S // 2:
        return
    size = 0
    async for chunk in blobs.list():
        size += sum(blob.size for blob in chunk)
    kept = [*before[1 - _KEPT :], Measure(now_ms, size)]
    FolderArchive(folder, makes=False).put(_FILE, [msgspec.json.encode(kept)])


def read(folder: Path) -> list[Measure]:
    """What was measured, oldest first."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=list[Measure])
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def gauges(folder: Path) -> Mapping[str, float]:
    """Bytes when they were last measured, and how many more than a day before; nothing until then."""
    measures = read(folder)
    if not measures:
        return {}
    latest = measures[-1]
    values: dict[str, float] = {"media_bytes": latest.bytes}
    day_ago = [one for one in measures if one.at_ms <= latest.at_ms - _DAY_MS]
    if day_ago:
        before = day_ago[-1]
        values["media_bytes_per_day"] = (latest.bytes - before.bytes) * _DAY_MS / (latest.at_ms - before.at_ms)
    return values
