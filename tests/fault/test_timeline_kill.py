"""A writer of timelines that is killed at any moment leaves correct timelines, and readers never see wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def said(script: str, *arguments: str | int | Path) -> str:
    """The output of a script in this folder. NumPy runs one thread, so that forks copy no held lock."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    process = subprocess.run(command, check=False, capture_output=True, text=True, env=variables, timeout=300)
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr[-4000:]}"
    print(process.stdout)
    return process.stdout


@pytest.mark.short_of("test_a_hundred_and_fifty_kills_leave_only_correct_ids")
def test_thirty_kills_leave_only_correct_ids(tmp_path: Path, seed: int) -> None:
    assert "30 kills" in said("timeline_writer.py", tmp_path, seed, "kill", 30)


@pytest.mark.long
def test_a_hundred_and_fifty_kills_leave_only_correct_ids(tmp_path: Path, seed: int) -> None:
    assert "150 kills" in said("timeline_writer.py", tmp_path, seed, "kill", 150)


@pytest.mark.short_of("test_readers_see_only_correct_and_complete_timelines_for_longer")
def test_readers_in_other_processes_see_only_correct_and_complete_timelines(tmp_path: Path, seed: int) -> None:
    assert said("timeline_writer.py", tmp_path, seed, "read", 2).count(" reads, ") == 2


@pytest.mark.long
def test_readers_see_only_correct_and_complete_timelines_for_longer(tmp_path: Path, seed: int) -> None:
    assert said("timeline_writer.py", tmp_path, seed, "read", 8).count(" reads, ") == 2


@pytest.mark.slow
def test_a_kill_at_any_line_of_a_change_leaves_the_state_before_or_after_it(tmp_path: Path) -> None:
    kills = [int(line.split()[-2]) for line in said("timeline_lines.py", tmp_path).splitlines()]
    assert len(kills) == 7
    assert min(kills) > 100
