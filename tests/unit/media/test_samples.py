"""Chunks of samples and the gaps between them, compared with a naive walk over tables and bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kith.media.samples import SampleTables, chunk_ranges, gaps

Ranges = Sequence[tuple[int, int]]
FILE_BYTES = 60
ranges_in_a_file = st.lists(st.tuples(st.integers(0, FILE_BYTES), st.integers(0, 12)), max_size=12).map(
    lambda pairs: [(start, start + size) for start, size in pairs]
)


@given(
    tracks=st.lists(ranges_in_a_file, max_size=3), cuts=st.lists(st.integers(0, FILE_BYTES), max_size=6, unique=True)
)
def test_gaps_are_the_bytes_of_the_areas_that_no_range_covers(tracks: Sequence[Ranges], cuts: list[int]) -> None:
    bounds = sorted(cuts)
    areas = list(zip(bounds[::2], bounds[1::2], strict=False))
    covered = {at for ranges in tracks for start, end in ranges for at in range(start, end)}
    found = list(gaps([np.array(ranges, np.int64).reshape(-1, 2) for ranges in tracks], areas))
    assert all(start < end for start, end in found)
    bytes_found = [at for start, end in found for at in range(start, end)]
    assert bytes_found == [at for start, end in areas for at in range(start, end) if at not in covered]


@given(
    chunks=st.lists(st.integers(0, FILE_BYTES), max_size=8),
    runs=st.dictionaries(st.integers(2, 9), st.integers(0, 4), max_size=4),
    first=st.integers(0, 4),
    same=st.sampled_from([0, 2, 7]),
    sizes=st.lists(st.integers(0, 9), min_size=32, max_size=32),
)
def test_a_chunk_reaches_from_its_offset_over_all_of_its_samples(
    chunks: list[int], runs: dict[int, int], first: int, same: int, sizes: list[int]
) -> None:
    all_runs, expected, count, sample = {1: first, **runs}, list[tuple[int, int]](), first, 0
    for number, start in enumerate(chunks, 1):
        count = all_runs.get(number, count)
        taken = [same] * count if same else sizes[sample : sample + count]
        sample += count
        expected.append((start, start + sum(taken)))
    tables = SampleTables(
        struct.pack(f">{len(chunks)}I", *chunks),
        False,
        b"".join(struct.pack(">3I", number, all_runs[number], 1) for number in sorted(all_runs)),
        same,
        struct.pack(f">{len(sizes)}I", *sizes),
    )
    ranges = chunk_ranges(tables, 1_000)
    assert ranges is not None
    assert [tuple(row) for row in ranges.tolist()] == expected
