"""When a writing process is killed, other processes get their turn to write."""

from __future__ import annotations

from pathlib import Path

from test_timeline_kill import said


def test_other_processes_get_the_turn_of_a_killed_one(tmp_path: Path, seed: int) -> None:
    """Two threads of the killed process wait for the turn. LMDB's own lock blocked the others forever in one of ten
    kills.
    """
    assert "60 kills" in said("turn_writers.py", tmp_path / "data", seed, 60)
