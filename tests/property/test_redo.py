"""Going back to the last checkpoint and doing the journal's entries again gives the very store that was never cut.

A random history of every kind of job, with checkpoints at random moments; at the cut the files are copied as they lie.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from histories import History, content

from kith.engines.embedded import checkpoints, environment
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.store_file import STORE_FILE

_HISTORIES = 12
_JOBS = 250


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_what_is_done_again_is_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: environment.Durability
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)  # only where the history makes one
    again = 0
    for seed in range(_HISTORIES):
        folder, cut = tmp_path / f"{seed}", tmp_path / f"{seed}-cut"
        with Environment(folder, durability=durability) as opened:
            history = History(opened, seed)
            try:
                for _ in range(random.Random(seed).randrange(_JOBS)):
                    history.step()
                cut.mkdir()
                for name in (STORE_FILE, JOURNAL_FILE):
                    shutil.copy(folder / name, cut / name)
                with Environment(cut, durability=durability) as replayed:
                    again += replayed.lmdb.info()["last_txnid"] < opened.lmdb.info()["last_txnid"]
                    assert content(replayed) == content(opened), f"history {seed}"
            finally:
                history.close()
    assert again > _HISTORIES // 2, "most histories went back to their base"
