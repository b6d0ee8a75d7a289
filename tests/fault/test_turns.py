"""Where a process that writes is killed, the others get their turn."""

from __future__ import annotations

from pathlib import Path

from test_timeline_kill import said


def test_a_kill_leaves_the_turn_to_the_others(tmp_path: Path, seed: int) -> None:
    """Two threads of the killed one wanted it: LMDB's own lock left the others waiting for ever, once in ten kills."""
    assert "60 kills" in said("turn_writers.py", tmp_path / "data", seed, 60)
