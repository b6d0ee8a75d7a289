"""Edges in Parquet: columns found by name or position, rows refused by number, damaged files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import pytest
from edge_files import BIG, RANGE, SELF, FileContent, all_of

from kith.commands.transfer import formats
from kith.core.errors import BadRequest

# Parquet


def columns_of(folder: Path, **columns: list[int | None]) -> Path:
    """A Parquet file."""
    parquet.write_table(pyarrow.table(columns), folder / "edges.parquet")
    return folder / "edges.parquet"


def test_parquet_columns_are_found_by_name_or_else_by_position(tmp_path: Path) -> None:
    path = columns_of(tmp_path, position=[7, 8], destination=[2, 4], note=[0, 0], source=[1, 3])
    assert all_of(path) == FileContent([(1, 2, 7), (3, 4, 8)], [])
    assert all_of(columns_of(tmp_path, a=[1, 3], b=[2, 4])) == FileContent([(1, 2), (3, 4)], [])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_in_parquet_become_positions_in_ms(tmp_path: Path, unit: str) -> None:
    at = pyarrow.array([datetime(2024, 1, 1, tzinfo=UTC), None], pyarrow.timestamp(unit, "UTC"))
    parquet.write_table(pyarrow.table({"a": [1, 3], "b": [2, 4], "c": at}), tmp_path / "edges.parquet")
    assert all_of(tmp_path / "edges.parquet") == FileContent([(1, 2, 1_704_067_200_000), (3, 4)], [])


def test_parquet_refuses_rows_by_number_across_batches_and_after_skipped_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_PARQUET_ROWS", 2)
    path = columns_of(tmp_path, source=[1, 2, -3, 4, 5], destination=[1, 3, 4, 5, 5])
    assert all_of(path) == FileContent([(2, 3), (4, 5)], [(1, SELF), (3, RANGE), (5, SELF)])
    assert all_of(path, skip_lines=3) == FileContent([(4, 5)], [(5, SELF)])
    assert all_of(path, skip_lines=4) == FileContent([], [(5, SELF)])
    assert all_of(path, skip_lines=5) == FileContent([], [])


def test_a_missing_value_in_parquet_does_not_round_large_ids(tmp_path: Path) -> None:
    path = columns_of(tmp_path, source=[BIG, 5], destination=[BIG + 2, 6], position=[None, 7])
    assert all_of(path) == FileContent([(BIG, BIG + 2), (5, 6, 7)], [])
    path = columns_of(tmp_path, source=[BIG, None], destination=[BIG + 2, 6])
    found = all_of(path)
    assert found.rows == [(BIG, BIG + 2)]
    assert [line for line, _ in found.refused] == [2]


def test_parquet_without_two_id_columns_is_refused(tmp_path: Path) -> None:
    for path in (columns_of(tmp_path, source=[1]), columns_of(tmp_path, source=[1], position=[5])):
        with pytest.raises(BadRequest):
            all_of(path)


def test_parquet_that_is_not_parquet_or_not_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    path.write_bytes(b"1,2\n")
    with pytest.raises(BadRequest, match="not a Parquet file"):
        all_of(path)
    for column in (["x"], [1.5], pyarrow.array([1 << 63], pyarrow.uint64())):
        parquet.write_table(pyarrow.table({"source": column, "destination": [2]}), path)
        with pytest.raises(BadRequest, match="whole numbers"):
            all_of(path)


def test_parquet_damaged_inside_is_refused(tmp_path: Path) -> None:
    path = columns_of(tmp_path, source=list(range(10_000)), destination=list(range(20_000, 30_000)))
    data = bytearray(path.read_bytes())
    data[200:2000] = bytes(byte ^ 0x55 for byte in data[200:2000])
    path.write_bytes(data)
    with pytest.raises(BadRequest):
        all_of(path)
