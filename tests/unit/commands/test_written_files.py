"""Edge files that Kith writes: they read back the same, and a failed write leaves no file."""

from __future__ import annotations

import fcntl
import gzip
import resource
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from edge_files import COMPRESSIONS, FileContent, all_of

from kith.commands.transfer.formats import EdgeFileWriter
from kith.core.errors import Conflict
from kith.core.ids import ID_MAX
from kith.graph.edge import POSITION_MIN

# Writing

WRITTEN = [*(kind + how for kind in (".csv", ".tsv", ".txt", ".ndjson", ".jsonl") for how in COMPRESSIONS), ".parquet"]


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("kind", WRITTEN)
def test_written_edges_are_read_back(tmp_path: Path, kind: str, width: int) -> None:
    chosen = np.random.default_rng(width)
    path = tmp_path / f"edges{kind}"
    rows = np.column_stack(
        [np.arange(5000), chosen.integers(5000, ID_MAX, 5000), chosen.integers(-(2**62), 2**62, 5000)]
    )
    rows[0] = (0, ID_MAX, POSITION_MIN)
    with EdgeFileWriter(path) as writer:
        for part in np.array_split(rows[:, :width], 3):
            writer.write(part)
    assert all_of(path) == FileContent([tuple(row) for row in rows[:, :width].tolist()], [])
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_file_without_edges_is_written_and_read_back(tmp_path: Path, kind: str) -> None:
    with EdgeFileWriter(tmp_path / f"edges{kind}"):
        pass
    assert all_of(tmp_path / f"edges{kind}") == FileContent([], [])


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_failed_write_leaves_the_earlier_file_as_it_was(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"edges{kind}"
    path.write_bytes(b"before")

    def write_and_fail() -> None:
        with EdgeFileWriter(path) as writer:
            writer.write(np.array([[1, 2]], np.int64))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_file_has_one_writer_at_a_time(tmp_path: Path, kind: str) -> None:
    """An export that takes longer than the time between two runs must not be mixed with the next one."""
    path, rows = tmp_path / f"edges{kind}", np.array([[1, 2], [3, 4]], np.int64)
    with EdgeFileWriter(path) as writer:
        writer.write(rows[:1])
        with pytest.raises(Conflict, match=f"another command is writing {path}; wait for it"), EdgeFileWriter(path):
            pass
        writer.write(rows[1:])
    assert all_of(path) == FileContent([(1, 2), (3, 4)], [])
    with EdgeFileWriter(path) as writer:
        writer.write(rows[1:])
    assert all_of(path) == FileContent([(3, 4)], [])
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_begins_as_another_ends_locks_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, row, flock = tmp_path / "edges.tsv", np.array([[1, 2]], np.int64), fcntl.flock
    first = EdgeFileWriter(path).__enter__()

    def lock_as_the_first_ends(file: IO[bytes], operation: int) -> None:
        monkeypatch.undo()
        first.__exit__(None, None, None)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", lock_as_the_first_ends)
    with EdgeFileWriter(path) as second:
        with pytest.raises(Conflict), EdgeFileWriter(path):
            pass
        second.write(row)
    assert all_of(path) == FileContent([(1, 2)], [])


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_write_that_finds_no_room_leaves_nothing(tmp_path: Path, kind: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = np.random.default_rng(1).integers(0, ID_MAX, (50_000, 3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        with pytest.raises(OSError, match="too large"), EdgeFileWriter(tmp_path / f"edges{kind}") as writer:
            writer.write(rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_csv_with_dots_in_its_name_is_separated_by_commas(tmp_path: Path) -> None:
    for name in ("edges.csv", "edges.csv.gz", "edges.2024.csv", "edges.v1.2.csv.gz"):
        with EdgeFileWriter(tmp_path / name) as writer:
            writer.write(np.array([[1, 2]], np.int64))
        data = (tmp_path / name).read_bytes()
        assert (gzip.decompress(data) if name.endswith(".gz") else data) == b"1,2\n"
