"""Where the samples of an MP4 are, by the tables of its tracks; and what lies between them. Pure.

A chunk is a run of samples that lie side by side. A track has three tables: where each chunk begins; from which chunk
on a chunk has how many samples; and how large each sample is (ISO/IEC 14496-12, 8.7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

ENTRY_BYTES: dict[int | bytes, int] = {b"stco": 4, b"co64": 8, b"stsc": 12, b"stsz": 4}
"""Bytes of one entry of a table, by the kind of its box: offsets of chunks, runs of chunks, sizes of samples."""
Ranges: TypeAlias = npt.NDArray[np.int64]
"""Rows of a start and an end, as offsets in a file."""


class SampleTables(NamedTuple):
    """The tables of a track, as they are stored. `same`: the size of all samples; 0: `sizes` has the size of each."""

    chunks: bytes
    wide: bool
    runs: bytes
    same: int
    sizes: bytes


def chunk_ranges(tables: SampleTables, file_bytes: int) -> Ranges | None:
    """The range of each chunk, in the order of the table; None if the tables contradict each other or the file.

    A track whose samples have 1 byte may be anywhere: so QuickTime describes uncompressed sound, whatever it takes.
    """
    starts = _numbers(tables.chunks, ">u8" if tables.wide else ">u4")
    if not len(starts):
        return np.zeros((0, 2), np.int64)
    runs = _numbers(tables.runs, ">u4").reshape(-1, 3)
    firsts = runs[:, 0] - 1  # the chunk from which on a run holds; the table counts from 1
    is_in_order = len(runs) > 0 and firsts[0] == 0 and (np.diff(firsts) > 0).all()
    if not is_in_order or (starts < 0).any() or (starts > file_bytes).any():
        return None
    if tables.same == 1:
        return np.array([[0, file_bytes]], np.int64)
    is_used = firsts < len(starts)
    samples = np.repeat(runs[is_used, 1], np.diff(firsts[is_used], append=len(starts)))  # how many each chunk has
    if tables.same:
        sizes = np.minimum(samples, file_bytes // tables.same + 1) * tables.same
    else:
        ends, last = np.append(0, _numbers(tables.sizes, ">u4").cumsum()), samples.cumsum()
        if last[-1] >= len(ends):
            return None
        sizes = ends[last] - ends[last - samples]
    return np.column_stack((starts, starts + sizes))


def gaps(ranges: Sequence[Ranges], areas: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is in `areas`, from a start to an end each, but in none of `ranges`."""
    rows = np.concatenate((np.zeros((1, 2), np.int64), *ranges))
    rows = rows[rows[:, 0].argsort()]
    starts, ends = rows[:, 0], np.maximum.accumulate(rows[:, 1])
    for start, end in areas:
        within = slice(ends.searchsorted(start, "right"), starts.searchsorted(end))
        done, following = np.append(start, ends[within]), np.append(starts[within], end)
        is_gap = following > done
        yield from zip(done[is_gap].tolist(), following[is_gap].tolist(), strict=True)


def _numbers(table: bytes, kind: str) -> npt.NDArray[np.int64]:
    """The entries of a table; one beyond 63 bits becomes negative."""
    return np.frombuffer(table, kind).astype(np.int64)
