"""Replaying the journal over the last checkpoint gives exactly the store that was not interrupted.

A random history has jobs of every kind, and checkpoints at random moments. At the cut, the files are copied as they
are.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from store_histories import StoreHistory, content

from kith.engines.embedded import checkpoints, environment
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.store_file import STORE_FILE

_HISTORIES = 12
_JOBS = 250


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_replaying_the_journal_gives_the_store_that_was_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: environment.Durability
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)  # checkpoints only where the history makes one
    replays = 0
    for seed in range(_HISTORIES):
        folder, cut = tmp_path / f"{seed}", tmp_path / f"{seed}-cut"
        with Environment(folder, durability=durability) as opened:
            history = StoreHistory(opened, seed)
            try:
                for _ in range(random.Random(seed).randrange(_JOBS)):
                    history.step()
                cut.mkdir()
                for name in (STORE_FILE, JOURNAL_FILE):
                    shutil.copy(folder / name, cut / name)
                with Environment(cut, durability=durability) as replayed:
                    replays += replayed.lmdb.info()["last_txnid"] < opened.lmdb.info()["last_txnid"]
                    assert content(replayed) == content(opened), f"history {seed}"
            finally:
                history.close()
    assert replays > _HISTORIES // 2, "most copies had entries to replay"
