"""When a worker is killed in the middle of a chunk, the next one finishes it: each follower is notified once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
from cast import ALICE
from coroutines import Run
from mention_worker import CHUNK

from kith.core.clock import wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.notifications.outcomes import Outcomes
from kith.notifications.tiers import Tier
from kith.notifications.walks import Walk, Walks
from kith.run.config import Settings
from kith.run.opening import wiring

FOLLOWERS = range(1_000, 1_000 + 7 * CHUNK + 3)


def worker(folder: Path, chunk: int) -> int:
    """Run one worker; returns its exit status."""
    command = [sys.executable, str(Path(__file__).parent / "mention_worker.py"), str(folder), str(chunk)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, check=False).returncode


def test_a_mention_reaches_all_followers_although_workers_are_killed_within_chunks(
    run: Run, tmp_path: Path, seed: int
) -> None:
    notice = (wall_ms() - EPOCH_MS) << TIME_SHIFT
    users = np.array([*FOLLOWERS, 5_000_000], np.int64)

    async def begin() -> None:
        async with wiring.open_stores(Settings(data=str(tmp_path)), "test") as stores:
            number, version = stores.graph.graphs.number(FOLLOWS), stores.graph.clock.next()
            edges = [Edge(number, NodeId(follower), ALICE, State.NORMAL, follower, version) for follower in FOLLOWERS]
            await stores.store.apply([EdgeWrite(edge) for edge in edges])
            await Walks(stores.store).begin([Walk(notice, ALICE, Tier.ALL, 8)])

    async def state() -> tuple[int, bool, list[Walk]]:
        async with wiring.open_stores(Settings(data=str(tmp_path)), "test", create=False) as stores:
            is_held = await stores.inboxes.holding(notice, users)
            return int(is_held[:-1].sum()), bool(is_held[-1]), await Walks(stores.store).of(Tier)

    async def notified() -> int:
        async with wiring.open_stores(Settings(data=str(tmp_path)), "test", create=False) as stores:
            ((outcome,),) = await Outcomes(stores.records, stores.graph.clock).of([notice])
            return outcome.told

    run(begin())
    chunks_done, repeated = 0, 0
    for chunk in (random.Random(seed).randint(1, 3), 2):
        assert worker(tmp_path, chunk) == -9
        chunks_done += chunk - 1
        repeated += CHUNK // 2
        rows, strangers, (walk,) = run(state())
        assert (rows, strangers, walk.done) == (chunks_done * CHUNK + CHUNK // 2, False, chunks_done)
    assert worker(tmp_path, 0) == 0
    assert run(state()) == (len(FOLLOWERS), False, [])
    assert len(FOLLOWERS) - repeated <= run(notified()) <= len(FOLLOWERS)
