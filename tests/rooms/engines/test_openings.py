"""How a data folder is opened: for the first time, after a change of its files, beside a stale journal."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from coroutines import run_all

from kith.core.clock import Hlc
from kith.core.errors import StoreFull, StoreMismatch
from kith.core.events import user_changed
from kith.engines.embedded import checkpoints, event_log
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import LOG_WHOLE_AFTER, Environment
from kith.engines.embedded.journal import JOURNAL_FILE, Journal
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.store_file import STORE_FILE


def test_a_first_opening_that_fails_leaves_no_store_and_the_next_makes_one(tmp_path: Path) -> None:
    (tmp_path / f"{STORE_FILE}.part").write_bytes(b"of an opening that was cut short")
    with pytest.raises(StoreFull):
        Environment(tmp_path, bytes_max=8_192)
    assert not (tmp_path / STORE_FILE).exists()
    with Environment(tmp_path) as environment:
        assert environment.declare(["follows"]) == {"follows": 1}


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_backup_put_in_the_place_of_a_store_is_opened_as_it_is(tmp_path: Path, durability: str) -> None:
    """Whoever copies `store.mdb` by hand may leave the journal of another store beside it."""
    folder, kept = tmp_path / "data", tmp_path / "kept"
    with Environment(folder, durability=durability) as environment:  # type: ignore[arg-type]
        environment.put_note("of the backup", b"1")
        environment.copy_to(kept)
        for step in range(20):
            environment.put_note(f"later/{step}", b"x" * 5_000)
        killed = tmp_path / "killed"
        shutil.copytree(folder, killed)
    shutil.copy(kept / STORE_FILE, killed / STORE_FILE)
    with Environment(killed, durability=durability) as environment:  # type: ignore[arg-type]
        assert environment.get_note("of the backup") == b"1"
        assert environment.notes("later/") == {}
        environment.put_note("later/0", b"y")


def test_a_store_that_was_changed_without_its_journal_keeps_the_change(tmp_path: Path) -> None:
    """As a Kith of before journals does, which syncs every commit. Also after relaxed ones, if they were closed."""
    with Environment(tmp_path, durability="relaxed") as environment:
        environment.put_note("ours", b"1")
        environment.put_note("ours", b"2")
        other = tmp_path / "other"
        other.mkdir()
    shutil.copy(tmp_path / STORE_FILE, other / STORE_FILE)
    with Environment(other) as environment:
        environment.put_note("theirs", b"1")
    os.replace(other / STORE_FILE, tmp_path / STORE_FILE)
    with Environment(tmp_path) as environment:
        assert (environment.get_note("ours"), environment.get_note("theirs")) == (b"2", b"1")


def test_an_opening_that_is_refused_gives_the_folder_back(tmp_path: Path) -> None:
    with Environment(tmp_path) as environment:
        environment.put_note("format", b"99")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(3):
        with pytest.raises(Exception, match="newer Kith"):
            Environment(tmp_path)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_an_upgrade_after_a_kill_says_that_the_log_is_whole_after_all_that_the_older_kith_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)
    with Environment(tmp_path / "data") as older:
        older.put_note("format", b"2")
        older.sync()
        commits = CommitQueue(older)
        for user in range(7):  # only the journal has them
            run_all(EmbeddedLog(older, commits).announce(user_changed(user, Hlc(1))))
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
        commits.close()
    with Environment(tmp_path / "killed") as upgraded, upgraded.lmdb.begin() as txn:
        assert event_log.bounds(txn, upgraded.log) == (1, 7)
        assert upgraded.get_note(LOG_WHOLE_AFTER) == b"7"
        assert upgraded.get_note("format") == b"3"


def test_a_folder_that_an_older_kith_uses_is_not_upgraded_under_it(tmp_path: Path) -> None:
    with Environment(tmp_path) as older:
        older.put_note("format", b"2")
    server = Journal(tmp_path / JOURNAL_FILE)
    server.enter()
    server.share()
    with pytest.raises(StoreMismatch, match=r"a server of an older Kith uses .*; stop it first"):
        Environment(tmp_path)
    server.close()
    with Environment(tmp_path) as upgraded:
        assert upgraded.get_note("format") == b"3"
