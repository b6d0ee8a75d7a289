"""How much media there is and how fast it grows, measured a few times a day."""

from __future__ import annotations

from pathlib import Path

from cast import START_MS
from coroutines import Run

from kith.engines.blobs.blob_store import FolderBlobs
from kith.run.measures.media_size import EVERY_S, gauges, measure

HOUR_MS = 3_600_000


def test_media_are_measured_and_their_growth_a_day_is_reported(run: Run, tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "media", sync=False)

    async def at(hours: int, *files: tuple[str, int]) -> dict[str, float]:
        for name, size in files:
            await blobs.put(name, b"a" * size, "image/png")
        await measure(blobs, tmp_path, START_MS + hours * HOUR_MS)
        return dict(gauges(tmp_path))

    assert gauges(tmp_path) == {}
    assert run(at(0, ("01/a.png", 1_000))) == {"media_bytes": 1_000}
    assert run(at(1, ("01/b.png", 500))) == {"media_bytes": 1_000}, "measured a moment ago"
    assert run(at(EVERY_S // 3_600)) == {"media_bytes": 1_500}
    told = run(at(48, ("02/c.png", 4_000)))
    assert told == {"media_bytes": 5_500, "media_bytes_per_day": 4_000 / 1.75}
