"""An import that is killed and restarted many times gives the same store as an uninterrupted import."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from forking import Commands, commands

from kith.core.errors import StoreMismatch
from kith.engines.embedded.environment import LOADING_NOTE, Environment
from kith.graph.audit import audit
from kith.graph.edge import State
from kith.run.config import Settings
from kith.run.opening.wiring import open_graph
from kith.run.serving import supervisor

# Runs, ranges and chunks so small that even a short file offers many moments for a kill.
_SMALL_STEPS = """
from kith.engines.embedded import bulk
from kith.commands.transfer import formats, loading
bulk.RUN_ROWS, bulk.RANGE_ROWS, loading._MERGE_ROWS = 2_000, 100, 500
read = loading.read
loading.read = lambda path, skip_lines=0, chunk_bytes=0: read(path, skip_lines=skip_lines, chunk_bytes=16_000)
"""
_TRIES_MAX = 2_000
_GROWTH = 1.1


class Seen(NamedTuple):
    """The result of an import, without times."""

    rows: bytes  # of (source, destination, position), sorted
    refused: set[str]  # refused lines of the report


def write_file(path: Path, seed: int, rows: int) -> int:
    """Write a file of edges with duplicates, positions and invalid lines. Returns the number of invalid lines."""
    chosen = np.random.default_rng(seed)
    ends = np.column_stack([chosen.zipf(1.4, rows) % 3_000, chosen.integers(0, 3_000, rows)])
    ends[rows // 2 :: 10] = ends[: len(ends[rows // 2 :: 10])]  # these edges occur twice
    places = (ends[:, 0] * 3_000 + ends[:, 1]) * 7  # one position for each edge
    lines = [f"{s},{d},{p}" for (s, d), p in zip(ends.tolist(), places.tolist(), strict=True)]
    for row in range(0, rows, 97):
        lines[row] = "not an edge"
    path.write_text("from,to,when\n" + "\n".join(lines) + "\n")
    return len(range(0, rows, 97)) + sum(s == d for row, (s, d) in enumerate(ends.tolist()) if row % 97)


def whole_run(kith: Commands, data: Path, file: Path) -> tuple[str, float]:
    """Run an import without interruption. Returns its output and duration."""
    began_s = time.monotonic()
    status, output, err = kith.start("import", "edges", file, "--data", data).wait()
    assert status == 0, err
    return output, time.monotonic() - began_s


def killed_runs(kith: Commands, data: Path, file: Path, seed: int, kills_min: int, whole_s: float) -> int:
    """Kill and restart the import until it completes; returns the number of kills.

    The first `kills_min` kills are spread about evenly over the duration of one run.
    """
    chosen, longest_s = random.Random(seed), whole_s * 1.5 / kills_min
    for kills in range(_TRIES_MAX):
        process = kith.start("import", "edges", file, "--data", data)
        time.sleep(chosen.uniform(0, longest_s))
        if kills < kills_min or chosen.random() < 0.5:
            process.kill()
        status, _, err = process.wait()
        if status == 0:
            return kills
        assert status == -9, err
        if kills >= kills_min:
            longest_s *= _GROWTH
        refuse_half_loaded(data)
    raise AssertionError(f"the import was killed {_TRIES_MAX} times and never completed")


def refuse_half_loaded(data: Path) -> None:
    """Check that a folder with an unfinished load is not served."""
    if not (data / "store.mdb").exists():
        return
    with Environment(data, create=False) as environment:
        loading = environment.notes(LOADING_NOTE)
    if loading:
        with pytest.raises(StoreMismatch):
            supervisor.prepare(Settings(data=str(data)))


def seen(data: Path, file: Path) -> Seen:
    """The result in the folder, after an audit."""

    async def run() -> list[tuple[int, int, int]]:
        async with open_graph(Settings(data=str(data)), create=False) as service:
            number = service.graphs.number("follows")
            audit_report = await audit(service.store, "follows", number)
            assert audit_report.clean, audit_report
            return [
                (int(ends.edge.source), int(ends.edge.destination), ends.edge.position)
                async for chunk in service.store.edges(number)
                for ends in chunk
                if ends.edge.state is State.NORMAL
            ]

    rows = sorted(asyncio.run(run()))
    report = (data / "imports" / f"{file.name}.refused.tsv").read_text().splitlines()
    assert not list(data.glob("loading-*"))
    return Seen(np.array(rows).tobytes(), set(report))


def prepare(kith: Commands, data: Path, target: str) -> None:
    """For `bulk`: leave the folder empty. For `merge`: import one edge into it."""
    if target == "merge":
        one_row_file = data.parent / "one.csv"
        one_row_file.write_text("1000000,1000001,5\n")
        whole_run(kith, data, one_row_file)


def compare(folder: Path, target: str, seed: int, rows: int, kills_min: int) -> None:
    """Import a file with and without kills, and compare the results."""
    with commands(folder, _SMALL_STEPS) as kith:
        _compare(kith, folder, target, seed, rows, kills_min)


def _compare(kith: Commands, folder: Path, target: str, seed: int, rows: int, kills_min: int) -> None:
    file = folder / "edges.csv"
    refused_lines = write_file(file, seed, rows)
    prepare(kith, folder / "whole", target)
    output, whole_s = whole_run(kith, folder / "whole", file)
    assert f"({target})" in output
    assert f"{refused_lines:,} lines refused" in output
    kills = 0
    while kills < kills_min // 2:  # few restarts had work to resume: repeat, and kill sooner
        shutil.rmtree(folder / "killed", ignore_errors=True)
        prepare(kith, folder / "killed", target)
        kills = killed_runs(kith, folder / "killed", file, seed, kills_min, whole_s)
        whole_s /= 2
    uninterrupted, killed = seen(folder / "whole", file), seen(folder / "killed", file)
    print(f"{kills} kills, {len(uninterrupted.rows) // 24} edges, {refused_lines} refused")
    assert uninterrupted == killed
    assert len(uninterrupted.refused) == refused_lines
    supervisor.prepare(Settings(data=str(folder / "killed")))
    assert "0 edges" in whole_run(kith, folder / "killed", file)[0]


@pytest.mark.short_of("test_an_import_killed_many_times_gives_the_result_of_an_uninterrupted_one")
@pytest.mark.parametrize("target", ["bulk", "merge"])
def test_an_import_killed_a_few_times_gives_the_result_of_an_uninterrupted_one(
    tmp_path: Path, seed: int, target: str
) -> None:
    compare(tmp_path, target, seed, rows=15_000, kills_min=5)


@pytest.mark.long
@pytest.mark.parametrize("target", ["bulk", "merge"])
def test_an_import_killed_many_times_gives_the_result_of_an_uninterrupted_one(
    tmp_path: Path, seed: int, target: str
) -> None:
    compare(tmp_path, target, seed, rows=40_000, kills_min=10)
