"""How a data folder is opened: for the first time, after a change of its files, beside a stale journal."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from coroutines import run_coroutine
from store_copies import copy_store

from kith.core.clock import Hlc
from kith.core.errors import StoreFull, StoreMismatch
from kith.core.events import user_changed
from kith.engines.embedded import changes, checkpoints, event_log, owners, recovery, redo
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import LOG_WHOLE_AFTER, Durability, Environment
from kith.engines.embedded.journal import JOURNAL_FILE, Journal
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.store_file import STORE_FILE

_OPEN_HEAD = 8 + 8 + 1
"""Bytes before the events in the open row of a log: number, version and form."""


def test_a_first_opening_that_fails_leaves_no_store_and_the_next_makes_one(tmp_path: Path) -> None:
    (tmp_path / f"{STORE_FILE}.part").write_bytes(b"of an opening that was cut short")
    with pytest.raises(StoreFull):
        Environment(tmp_path, bytes_max=8_192)
    assert not (tmp_path / STORE_FILE).exists()
    with Environment(tmp_path) as environment:
        assert environment.declare(["follows"]) == {"follows": 1}


def test_no_empty_store_is_made_beside_the_journal_of_a_missing_one(tmp_path: Path) -> None:
    folder, moved_away = tmp_path / "data", tmp_path / "away"
    with Environment(folder) as environment:
        environment.put_note("ours", b"1")
    moved_away.mkdir()
    journal = (folder / JOURNAL_FILE).read_bytes()
    (folder / STORE_FILE).rename(moved_away / STORE_FILE)
    with pytest.raises(StoreMismatch, match=r"put store\.mdb back, or restore a backup .* move store\.journal away"):
        Environment(folder)
    assert not (folder / STORE_FILE).exists()
    assert (folder / JOURNAL_FILE).read_bytes() == journal
    (moved_away / STORE_FILE).rename(folder / STORE_FILE)
    with Environment(folder) as environment:
        assert environment.get_note("ours") == b"1"
    for file in (STORE_FILE, JOURNAL_FILE):
        (folder / file).rename(moved_away / file)
    with Environment(folder) as environment:
        assert environment.get_note("ours") is None


def test_root_is_refused_in_the_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That user's servers could not open what root makes there, such as `servers.lock`."""
    Environment(tmp_path).close()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(owners, "owner_of", lambda _: 12_345)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StoreMismatch, match=r"belongs to user 12345, .*run this as that user"):
        Environment(tmp_path)
    assert sorted(tmp_path.iterdir()) == before
    monkeypatch.setattr(owners, "owner_of_new_files", lambda _: 12_345)
    Environment(tmp_path).close()
    monkeypatch.undo()
    monkeypatch.setattr(owners, "owner_of", lambda _: 12_345)
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    Environment(tmp_path).close()


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_backup_put_in_the_place_of_a_store_is_opened_as_it_is(tmp_path: Path, durability: str) -> None:
    """A copy of `store.mdb` made by hand may leave the journal of another store beside it."""
    folder, backup = tmp_path / "data", tmp_path / "kept"
    with Environment(folder, durability=durability) as environment:  # type: ignore[arg-type]
        environment.put_note("of the backup", b"1")
        copy_store(environment, backup)
        for step in range(20):
            environment.put_note(f"later/{step}", b"x" * 5_000)
        killed = tmp_path / "killed"
        shutil.copytree(folder, killed)
    shutil.copy(backup / STORE_FILE, killed / STORE_FILE)
    with Environment(killed, durability=durability) as environment:  # type: ignore[arg-type]
        assert environment.get_note("of the backup") == b"1"
        assert environment.notes("later/") == {}
        environment.put_note("later/0", b"y")


def test_a_store_that_was_changed_without_its_journal_keeps_the_change(tmp_path: Path) -> None:
    """As by a Kith from before journals, which syncs every commit. Also after relaxed commits, if they were closed."""
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


def test_an_opening_that_is_refused_releases_the_folder(tmp_path: Path) -> None:
    with Environment(tmp_path) as environment:
        environment.put_note("format", b"99")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(3):
        with pytest.raises(Exception, match="newer Kith"):
            Environment(tmp_path)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def made_older(store: Environment, number: int) -> None:
    """Turn a store into one of an older format, whose log has its open row among the closed ones."""
    with store.commit() as write:
        ((_, row),) = write.txn.cursor(store.log.open)
        if len(row) > _OPEN_HEAD:  # it has events
            write.txn.put(row[:8], row[8:], db=store.log.closed)
        write.txn.drop(store.log.open, delete=False)
        write.txn.put(b"format", b"%d" % number, db=store.notes_db)


@pytest.mark.parametrize("before", [5, 28, 33])
@pytest.mark.parametrize(("number", "whole_after"), [(2, True), (3, False)])
def test_the_store_of_a_killed_older_kith_is_upgraded_with_all_its_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, whole_after: bool, before: int
) -> None:
    """The log of format 2 was not complete, so the upgrade notes the event after which it is."""
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 3_600.0)
    with Environment(tmp_path / "data") as older:
        commits = CommitQueue(older)
        log = EmbeddedLog(older, commits)
        for user in range(before):
            run_coroutine(log.announce(user_changed(user, Hlc(1 + user))))
        commits.close()
        made_older(older, number)
        older.sync()
        for user in range(before, before + 7):  # only the journal has them
            with older.commit() as write:
                write.txn.put(b"n", b"%d" % user, db=older.notes_db)
                write.changes = redo.encode(0, [changes.announced(user_changed(user, Hlc(1 + user)))])
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    last = before + 7
    with Environment(tmp_path / "killed") as upgraded:
        assert upgraded.get_note(LOG_WHOLE_AFTER) == (b"%d" % last if whole_after else None)
        assert upgraded.get_note("format") == b"4"
        commits = CommitQueue(upgraded)
        run_coroutine(EmbeddedLog(upgraded, commits).announce(user_changed(last, Hlc(1 + last))))
        commits.close()
        with upgraded.lmdb.begin() as txn:
            assert event_log.bounds(txn, upgraded.log) == (1, last + 1)
            assert event_log.newest_version(txn, upgraded.log) == 1 + last
            events = event_log.read(txn, upgraded.log, upgraded.positions, 0, 1_000)
        assert [event.source for event in events] == list(range(last + 1))


@pytest.mark.parametrize(("change", "durability"), [("boot noted", "relaxed"), ("format upgraded", "full")])
def test_a_power_cut_while_an_opening_is_synced_leaves_the_store_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, durability: Durability
) -> None:
    """The opening commits before it syncs, and the disk may write the new meta page before the pages that it names."""
    folder, cut = tmp_path / "data", tmp_path / "cut"
    with Environment(folder) as environment:
        environment.put_note("ours", b"1")
        if change == "format upgraded":
            environment.put_note("format", b"3")
    synced, begin = (folder / STORE_FILE).read_bytes(), Journal.begin
    store = journal = b""

    def begin_after_a_copy(self: Journal, txn: int, meta: bytes, *, relaxed: bool) -> None:
        nonlocal store, journal
        store, journal = (folder / STORE_FILE).read_bytes(), (folder / JOURNAL_FILE).read_bytes()
        begin(self, txn, meta, relaxed=relaxed)

    monkeypatch.setattr(Journal, "begin", begin_after_a_copy)
    environment = Environment(folder, durability=durability)
    monkeypatch.undo()
    environment.close()
    cut.mkdir()
    metas_end = 2 * len(recovery.newest_meta(folder / STORE_FILE)[1])
    assert store[:metas_end] != synced[:metas_end], "the opening changed something"
    (cut / STORE_FILE).write_bytes(store[:metas_end] + synced[metas_end:])
    (cut / JOURNAL_FILE).write_bytes(journal)
    with Environment(cut) as environment:
        assert environment.get_note("ours") == b"1"


def test_a_folder_in_use_by_an_older_kith_is_not_upgraded(tmp_path: Path) -> None:
    with Environment(tmp_path) as older:
        older.put_note("format", b"2")
    server = Journal(tmp_path / JOURNAL_FILE)
    server.enter()
    server.share()
    with pytest.raises(StoreMismatch, match=r"a server of an older Kith uses .*; stop it first"):
        Environment(tmp_path)
    server.close()
    with Environment(tmp_path) as upgraded:
        assert upgraded.get_note("format") == b"4"
