"""`kith suggest` killed again and again, beside a server, leaves the suggestions of a run that nobody disturbed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from processes import serving

from kith import chores
from kith.config import Settings
from kith.engines.embedded.environment import Environment, only_run

# The command with chunks so small that a short run makes many moments to be killed at.
_SUGGEST = """
import sys
from kith.graph import suggestion_batch
suggestion_batch.USERS_A_CHUNK = 5
from kith.cli import main
sys.argv[0] = "kith"
print("ready", flush=True)
main()
"""
USERS = 1_500


def imported(folder: Path, seed: int) -> Path:
    """A data folder with a graph in it."""
    chosen = np.random.default_rng(seed)
    ends = np.unique(np.column_stack([chosen.integers(0, USERS, 30_000), chosen.zipf(1.3, 30_000) % USERS]), axis=0)
    file = folder / "edges.csv"
    file.write_text("\n".join(f"{s},{d},{at}" for at, (s, d) in enumerate(ends.tolist()) if s != d) + "\n")
    chores.import_edges(Settings(data=str(folder / "data")), "follows", file, _Silent())
    return folder / "data"


class _Silent:
    def reading(self, bytes_read: int, rows: int) -> None: ...
    def writing(self, rows_done: int, rows: int) -> None: ...


def start(data: Path) -> subprocess.Popen[str]:
    """The job in its process, past its imports."""
    command = [sys.executable, "-c", _SUGGEST, "suggest", "--data", str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def rows(data: Path) -> dict[bytes, bytes]:
    """What is kept of each user, without the times."""
    with Environment(data, create=False) as environment, environment.lmdb.begin(environment.suggestions) as txn:
        return {key: row[8:16] + row[24:] for key, row in txn.cursor() if len(key) == 9}


def test_a_job_killed_many_times_ends_as_if_it_had_not_been(tmp_path: Path, seed: int) -> None:
    data, chosen = imported(tmp_path, seed), random.Random(seed)
    with serving(data) as server, server.client() as client:
        began = time.monotonic()
        out, err = start(data).communicate(timeout=120)
        whole_s = time.monotonic() - began
        assert f"suggestions of {USERS:,} users kept" in out, err
        whole = rows(data)
        assert len(whole) == USERS
        kills = 0
        for _ in range(200):
            process = start(data)
            time.sleep(chosen.uniform(0, whole_s / 6))
            if kills < 12:
                process.kill()
            out, err = process.communicate(timeout=120)
            assert client.get("/api/v1/users/7/suggestions").status_code == 200
            if process.returncode == 0:
                break
            assert process.returncode == -9, err
            kills += 1
        assert kills >= 8, "it had little to resume"
        assert "went on after" in out
        assert rows(data) == whole


def test_a_second_job_on_the_same_folder_is_refused(tmp_path: Path, seed: int) -> None:
    data = imported(tmp_path, seed)
    with only_run(data, "suggest"):
        _, err = start(data).communicate(timeout=60)
        assert "wait for it" in err
        assert rows(data) == {}
    assert start(data).communicate(timeout=60)[0].startswith("suggestions of")
