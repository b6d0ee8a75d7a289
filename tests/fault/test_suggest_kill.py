"""`kith suggest` killed again and again, beside a server, leaves the suggestions of a run that nobody disturbed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from processes import serving

from kith.commands.edges import import_edges
from kith.engines.embedded.environment import Environment, only_run
from kith.run.config import Settings

# The command with chunks so small that a short run makes many moments to be killed at.
_SUGGEST = """
import sys
from kith.suggestions import batch
batch.USERS_A_CHUNK = 5
from kith.commands.cli import main
sys.argv[0] = "kith"
print("ready", flush=True)
main()
"""
USERS, KILLS = 3_000, 10
_PROGRESS_S = 60.0


def imported(folder: Path, seed: int) -> Path:
    """A data folder with a graph in it."""
    chosen = np.random.default_rng(seed)
    sources = np.append(chosen.integers(0, USERS, 27_000), np.arange(USERS))  # everybody follows somebody
    targets = np.append(chosen.zipf(1.3, 27_000) % USERS, (np.arange(USERS) + 1) % USERS)
    ends = np.unique(np.column_stack([sources, targets]), axis=0)
    file = folder / "edges.csv"
    file.write_text("\n".join(f"{s},{d},{at}" for at, (s, d) in enumerate(ends.tolist()) if s != d) + "\n")
    import_edges(Settings(data=str(folder / "data")), "follows", file, _Silent())
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


def rows(environment: Environment) -> dict[bytes, bytes]:
    """What is kept of each user, without the times."""
    with environment.lmdb.begin(environment.suggestions) as txn:
        return {key: row[8:16] + row[24:] for key, row in txn.cursor() if len(key) == 9}


def done(environment: Environment) -> int:
    """How many users the run under way has done, as its checkpoint says."""
    raw = environment.get_note("suggestions/batch")
    return 0 if raw is None else int(json.loads(raw)["done"])


def kill_after(process: subprocess.Popen[str], environment: Environment, users: int) -> None:
    """Kill -9 once this many are done; where in the next chunk is left to chance."""
    deadline = time.monotonic() + _PROGRESS_S
    while done(environment) < users:
        assert process.poll() is None, "it ended before it was to be killed"
        assert time.monotonic() < deadline, f"{users} users were not done in {_PROGRESS_S} s"
        time.sleep(0.001)
    process.kill()
    process.communicate()


def test_a_job_killed_many_times_ends_as_if_it_had_not_been(tmp_path: Path, seed: int) -> None:
    data, chosen = imported(tmp_path, seed), random.Random(seed)
    with serving(data) as server, server.client() as client, Environment(data, create=False) as environment:
        out, err = start(data).communicate(timeout=120)
        assert f"suggestions of {USERS:,} users kept" in out, err
        whole = rows(environment)
        assert len(whole) == USERS
        with environment.lmdb.begin(environment.suggestions, write=True) as txn:
            txn.drop(environment.suggestions, delete=False)
        at = 0
        for _ in range(KILLS):
            at = max(at + chosen.randrange(1, USERS // KILLS), done(environment))
            kill_after(start(data), environment, at)
            assert client.get("/api/v1/users/7/suggestions").status_code == 200
        before = done(environment)
        out, err = start(data).communicate(timeout=120)
        assert 0 < at <= before < USERS
        assert f"went on after {before:,} users" in out, err
        assert f"suggestions of {USERS - before:,} users kept" in out
        assert rows(environment) == whole


def test_a_second_job_on_the_same_folder_is_refused(tmp_path: Path, seed: int) -> None:
    data = imported(tmp_path, seed)
    with only_run(data, "suggest"):
        _, err = start(data).communicate(timeout=60)
    assert "wait for it" in err
    with Environment(data, create=False) as environment:
        assert rows(environment) == {}
    assert start(data).communicate(timeout=60)[0].startswith("suggestions of")
