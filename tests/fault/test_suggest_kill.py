"""`kith suggest`, killed many times beside a server, gives the same suggestions as an uninterrupted run."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from coroutines import run_coroutine
from forking import Commands, Running, commands
from processes import serving

from kith.commands.edges import import_edges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.file_leases import FileLeases
from kith.run.config import Settings

# Chunks so small that even a short run offers many moments for a kill.
_SMALL_STEPS = """
from kith.suggestions import batch
batch.USERS_A_CHUNK = 5
"""
USERS, EDGES, KILLS = 1_000, 9_000, 10
_PROGRESS_S = 60.0


def imported(folder: Path, seed: int) -> Path:
    """A data folder with an imported graph."""
    chosen = np.random.default_rng(seed)
    sources = np.append(chosen.integers(0, USERS, EDGES), np.arange(USERS))  # everybody follows at least one user
    targets = np.append(chosen.zipf(1.3, EDGES) % USERS, (np.arange(USERS) + 1) % USERS)
    ends = np.unique(np.column_stack([sources, targets]), axis=0)
    file = folder / "edges.csv"
    file.write_text("\n".join(f"{s},{d},{position}" for position, (s, d) in enumerate(ends.tolist()) if s != d) + "\n")
    import_edges(Settings(data=str(folder / "data")), "follows", file, _Silent())
    return folder / "data"


class _Silent:
    def reading(self, bytes_read: int, rows: int) -> None: ...
    def writing(self, rows_done: int, rows: int) -> None: ...


@pytest.fixture
def kith(tmp_path: Path) -> Iterator[Commands]:
    with commands(tmp_path, _SMALL_STEPS) as started:
        yield started


def rows(environment: Environment) -> dict[bytes, bytes]:
    """The stored row of each user, without times."""
    with environment.lmdb.begin(environment.suggestions) as txn:
        return {key: row[8:16] + row[24:] for key, row in txn.cursor() if len(key) == 9}


def done(environment: Environment) -> int:
    """The number of users that the unfinished run has done, by its checkpoint."""
    raw = environment.get_note("suggestions/job")
    return 0 if raw is None else int(json.loads(raw)["done"])


def kill_after(process: Running, environment: Environment, users: int) -> None:
    """Kill with SIGKILL after this many users are done, at a random moment in the next chunk."""
    deadline = time.monotonic() + _PROGRESS_S
    while done(environment) < users:
        assert not process.ended(), "the job ended before the kill"
        assert time.monotonic() < deadline, f"{users} users were not done in {_PROGRESS_S} s"
        time.sleep(0.001)
    process.kill()
    assert process.wait().status == -9


def test_a_job_killed_many_times_gives_the_result_of_an_uninterrupted_one(
    tmp_path: Path, seed: int, kith: Commands
) -> None:
    data, chosen = imported(tmp_path, seed), random.Random(seed)
    with serving(data) as server, server.client() as client, Environment(data, create=False) as environment:
        _, output, err = kith.start("suggest", "--data", data).wait()
        assert f"suggestions of {USERS:,} users kept" in output, err
        expected = rows(environment)
        assert len(expected) == USERS
        with environment.lmdb.begin(environment.suggestions, write=True) as txn:
            txn.drop(environment.suggestions, delete=False)
        progress = 0
        for _ in range(KILLS):
            progress = max(progress + chosen.randrange(1, USERS // KILLS), done(environment))
            kill_after(kith.start("suggest", "--data", data), environment, progress)
            assert client.get("/api/v1/users/7/suggestions", headers={"x-kith-user": "7"}).status_code == 200
        before = done(environment)
        _, output, err = kith.start("suggest", "--data", data).wait()
        assert 0 < progress <= before < USERS
        assert f"went on after {before:,} users" in output, err
        assert f"suggestions of {USERS - before:,} users kept" in output
        assert rows(environment) == expected


def test_a_second_job_on_the_same_folder_is_refused(tmp_path: Path, seed: int, kith: Commands) -> None:
    data = imported(tmp_path, seed)
    leases = FileLeases(data)
    assert run_coroutine(leases.acquire("suggest", "another", 1.0)) is not None
    outcome = kith.start("suggest", "--data", data).wait()
    leases.close()
    assert "wait for it" in outcome.err
    with Environment(data, create=False) as environment:
        assert rows(environment) == {}
    assert kith.start("suggest", "--data", data).wait().out.startswith("suggestions of")
