"""A restore gives the store as it was at any moment of its history, even if some of its backups failed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from backups import DyingArchive, State, restored, state
from store_copies import copy_store
from store_histories import StoreHistory
from store_wrappers import ProcessDied

from kith.core.errors import BadRequest, Conflict, KithError, StoreMismatch
from kith.core.tokens import WriteMark, WriteTokens
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded import segments
from kith.engines.embedded.changes import note_changed
from kith.engines.embedded.environment import LOG_WHOLE_AFTER, Environment
from kith.engines.embedded.event_log import LogWriter
from kith.engines.embedded.retention import LogBounds, Retention
from kith.run.backups import backup_maker
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.parts import read_parts
from kith.watch.tokens import WatchTokens

_START_MS = 1_700_000_000_000
_HISTORIES = 3


class RecordedStore:
    """A store under a random history, with its state after each step of the history."""

    def __init__(self, store: Environment, seed: int) -> None:
        self.store, self.chosen, self.now_ms = store, random.Random(seed), _START_MS
        self.history = StoreHistory(store, seed, repairs=False, now_ms=lambda: self.now_ms)
        self.was: dict[int, State] = {}
        self.ms: dict[int, int] = {}
        """When each event was logged, by its number."""

    def steps(self, count: int, *, back_ms: int = 0) -> None:
        for _ in range(count):
            before = self.event
            self.history.step()
            self.ms |= dict.fromkeys(range(before + 1, self.event + 1), self.now_ms)
            self.was[self.event] = state(self.store)
            self.now_ms += self.chosen.randrange(-back_ms, 3)

    @property
    def event(self) -> int:
        return segments.last_event(self.store)

    def at(self, ms: int) -> int:
        """The last event before the first one that was logged after `ms`."""
        return next((event - 1 for event in sorted(self.ms) if self.ms[event] > ms), self.event)

    def token(self, event: int) -> str:
        """A token of the position after an event: that of a writer, or that of a watcher."""
        place, secret = self.store.positions.of(event), self.store.secret("signing")
        if self.chosen.random() < 0.5:
            return WatchTokens(secret).issue(place)
        return WriteTokens(secret).issue(WriteMark(place, 1))


@contextmanager
def recorded(folder: Path, seed: int) -> Iterator[RecordedStore]:
    with Environment(folder) as store:
        store.secret("signing")
        one = RecordedStore(store, seed)
        try:
            yield one
        finally:
            one.history.close()


def time_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def test_every_moment_in_a_backup_is_restored_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_maker, "BYTES_A_SEGMENT", 3_000)
    for seed in range(_HISTORIES):
        archive = FolderArchive(tmp_path / f"kept-{seed}")
        with recorded(tmp_path / f"data-{seed}", seed) as one:
            maker = BackupMaker(one.store, archive, None, now_ms=lambda one=one: one.now_ms)  # type: ignore[misc]
            one.steps(one.chosen.randrange(10))
            maker.make(whole=True)
            first = one.event
            for _ in range(6):
                one.steps(one.chosen.randrange(15))
                whole = one.chosen.random() < 0.3
                assert maker.make(whole=whole).because == ""
            acknowledged = one.event
            one.steps(5)  # after the last backup, so these steps are lost
            done, found = restored(archive, tmp_path / f"newest-{seed}")
            assert (done.event, found) == (acknowledged, one.was.get(acknowledged, found)), f"history {seed}"
            for number, event in enumerate(one.chosen.sample([at for at in one.was if first <= at <= acknowledged], 4)):
                done, found = restored(archive, tmp_path / f"token-{seed}-{number}", one.token(event))
                assert (done.event, found) == (event, one.was[event]), f"history {seed} at event {event}"
            for number in range(4):
                ms = one.chosen.randrange(one.ms.get(first, _START_MS) + 10, one.now_ms + 10)
                done, found = restored(archive, tmp_path / f"time-{seed}-{number}", time_of(ms))
                event = min(one.at(ms), acknowledged)
                assert done.event == event, f"history {seed} at {ms}"
                assert found == one.was.get(event, found)
            with pytest.raises(BadRequest, match="ends at event"):
                restored(archive, tmp_path / f"lost-{seed}", one.token(one.event))


def test_tokens_up_to_the_restored_moment_are_valid_and_later_ones_are_refused(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 1) as one:
        maker = BackupMaker(one.store, archive, None)
        maker.make(whole=True)
        one.steps(30)
        maker.make(whole=False)
        event = sorted(one.was)[10]
        restored(archive, tmp_path / "back", one.token(event))
        with Environment(tmp_path / "back") as back:
            for asked in one.was:
                is_there = back.positions.sequence(one.store.positions.of(asked)) is not None
                assert is_there == (asked <= event)


def test_a_restore_to_joined_tokens_gives_the_first_moment_that_covers_all_of_them(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 5) as one:
        maker = BackupMaker(one.store, archive, None)
        maker.make(whole=True)
        one.steps(20)
        maker.make(whole=False)
        first, middle, last = sorted(one.was)[5:8]
        together = ".".join(one.token(event) for event in (middle, last, first))
        done, found = restored(archive, tmp_path / "back", together)
        assert (done.event, found) == (last, one.was[last])
        with pytest.raises(BadRequest, match="is neither a time"):
            restored(archive, tmp_path / "other", f"{together}.of-another-store")


def test_after_a_clock_went_back_a_restore_holds_nothing_logged_after_the_requested_time(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 2) as one:
        maker = BackupMaker(one.store, archive, None, now_ms=lambda: one.now_ms)
        maker.make(whole=True)
        for _ in range(4):
            one.steps(15, back_ms=4)
            one.now_ms -= 30
            assert maker.make(whole=False).because == ""
        for number, ms in enumerate(range(_START_MS, max(one.ms.values()) + 5, 7)):
            done, found = restored(archive, tmp_path / f"back-{number}", time_of(ms))
            assert done.event == one.at(ms)
            assert found == one.was.get(done.event, found)


def test_a_full_backup_after_a_clock_went_back_restores_nothing_logged_later(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 2) as one:
        one.steps(15, back_ms=4)
        latest_ms = max(one.ms.values())
        one.now_ms -= 100
        one.steps(3)
        assert max(one.ms.values()) == latest_ms
        BackupMaker(one.store, archive, None, now_ms=lambda: one.now_ms).make(whole=True)
        with pytest.raises(BadRequest, match="as old as that"):
            restored(archive, tmp_path / "too-early", time_of(latest_ms - 1))
        done, _ = restored(archive, tmp_path / "back", time_of(latest_ms))
        assert done.event == one.event


@pytest.mark.parametrize("error", [ProcessDied, lambda: OSError(28, "No space left on device")], ids=["killed", "full"])
@pytest.mark.parametrize("whole", [False, True], ids=["increment", "whole"])
def test_a_backup_that_fails_at_any_step_is_ignored_and_the_next_one_completes(
    tmp_path: Path, error: type[ProcessDied], whole: bool
) -> None:
    with recorded(tmp_path / "data", 3) as one:
        media = tmp_path / "data" / "media"
        media.mkdir()
        (media / "a.png").write_bytes(b"a" * 100)
        maker = BackupMaker(one.store, FolderArchive(tmp_path / "before"), media)
        one.steps(20)
        maker.make(whole=True)
        before, step, ended = one.event, 0, False
        one.steps(20)
        (media / "b.png").write_bytes(b"b" * 100)
        while not ended:
            step += 1
            kept, back = tmp_path / f"kept-{step}", tmp_path / "back"
            shutil.copytree(tmp_path / "before", kept)
            dying = DyingArchive(kept, error)
            dying.left = step
            try:
                BackupMaker(one.store, dying, media).make(whole=whole)
                ended = True
            except (ProcessDied, KithError, OSError):
                done, found = restored(FolderArchive(kept), back)
                assert done.event in (before, one.event)
                assert found == one.was[done.event]
                shutil.rmtree(back)
                assert BackupMaker(one.store, FolderArchive(kept), media).make(whole=whole).because == ""
            done, found = restored(FolderArchive(kept), back)
            assert (done.event, found, done.files, done.lost) == (one.event, one.was[one.event], 2, [])
            shutil.rmtree(back)
        assert step > 8


def test_an_altered_byte_or_a_missing_part_is_reported_and_never_restored(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with recorded(tmp_path / "data", 4) as one:
        media = tmp_path / "data" / "media"
        media.mkdir()
        (media / "a.png").write_bytes(b"a" * 100)
        maker = BackupMaker(one.store, FolderArchive(kept), media)
        maker.make(whole=True)
        for _ in range(2):
            one.steps(10)
            maker.make(whole=False)
        was = one.was[one.event]
    files = sorted(file for file in kept.rglob("*") if file.is_file())
    assert len(files) == 8
    chosen = random.Random(5)
    for number, file in enumerate(files * 6):
        good = file.read_bytes()
        at = chosen.randrange(len(good))
        bad = bytearray(good)
        bad[at] ^= 1 + at % 255
        file.write_bytes(bad if number % 2 else good[:at])
        try:
            done, found = restored(FolderArchive(kept), tmp_path / f"back-{number}")
        except StoreMismatch as error:
            assert str(file.relative_to(kept)) in error.message  # noqa: PT017
        else:
            assert found == was
            assert done.lost == ["a.png"] == [file.name]
        file.write_bytes(good)
    for number, file in enumerate(files):
        good = file.read_bytes()
        file.unlink()
        if file.parent.name == "parts" and file == max(one for one in files if one.parent.name == "parts"):
            file.write_bytes(good)
            continue  # the last of an unknown number of parts: nothing says that it existed
        try:
            done, _ = restored(FolderArchive(kept), tmp_path / f"gone-{number}")
        except StoreMismatch as error:
            assert "missing" in error.message  # noqa: PT017
        else:
            assert done.lost == ["a.png"] == [file.name]
        file.write_bytes(good)


def test_a_missing_increment_is_reported_and_the_next_backup_is_full(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 6) as one:
        maker = BackupMaker(one.store, archive, None, now_ms=lambda: one.now_ms)
        maker.make(whole=True)
        for _ in range(3):
            one.steps(10)
            maker.make(whole=False)
        lost = read_parts(archive).whole[2]
        (tmp_path / "kept" / "parts" / f"{lost.id}.json").unlink()
        with pytest.raises(StoreMismatch, match=f"events {lost.after + 1} to {lost.until} are missing"):
            restored(archive, tmp_path / "back")
        done, found = restored(archive, tmp_path / "earlier", one.token(lost.after))
        assert found == one.was[done.event]
        made = BackupMaker(one.store, archive, None).make(whole=False)
        assert "are missing from the backup" in made.because
        done, found = restored(archive, tmp_path / "again")
        assert (done.event, found) == (one.event, one.was[one.event])


def test_after_a_gap_in_the_log_the_next_increment_is_a_full_backup_and_says_why(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 7) as one:
        maker = BackupMaker(one.store, archive, None)
        one.steps(20)
        maker.make(whole=True)
        one.steps(5)
        one.store.put_note(LOG_WHOLE_AFTER, str(one.event).encode())  # as a bulk import writes it
        assert "bulk import" in maker.make(whole=False).because
        assert maker.make(whole=False).parts == []
        for _ in range(40):
            with one.store.commit() as write:
                writer = LogWriter(write.txn, one.store.log)
                writer.append(note_changed("another", b"1"))
                writer.flush()
                Retention(LogBounds(5), one.store.log, one.store.notes_db).forget(write.txn, writer.last, 0)
        made = maker.make(whole=False)
        assert "events were forgotten" in made.because
        assert [part.kind for part in made.parts] == ["whole"]
        _, found = restored(archive, tmp_path / "back")
        assert found == state(one.store)


def test_a_restored_store_starts_its_own_history_and_both_histories_can_be_restored(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 8) as one:
        maker = BackupMaker(one.store, archive, None)
        maker.make(whole=True)
        one.steps(20)
        maker.make(whole=False)
        middle, lost = sorted(one.was)[10], one.event
        lost_token, middle_token = one.token(lost), one.token(middle)
        was = one.was
        restored(archive, tmp_path / "second", middle_token)
    with recorded(tmp_path / "second", 9) as two:
        maker = BackupMaker(two.store, archive, None)
        assert "restored since" in maker.make(whole=False).because
        two.steps(20)
        assert maker.make(whole=False).because == ""
        _, found = restored(archive, tmp_path / "newest")
        assert found == two.was[two.event]
        _, found = restored(archive, tmp_path / "before it was lost", lost_token)
        assert found == was[lost]


def test_an_older_copy_in_place_of_the_store_is_detected(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "data", 13) as one:
        one.store.secret("backups")
        one.steps(10)
        copy_store(one.store, tmp_path / "copy")
        BackupMaker(one.store, archive, None).make(whole=True)
        one.steps(20)
        BackupMaker(one.store, archive, None).make(whole=False)
        reached = one.event
    with recorded(tmp_path / "copy", 14) as two:
        two.steps(5)
        assert two.event < reached
        assert "put in its place" in BackupMaker(two.store, archive, None).make(whole=False).because
    shutil.rmtree(tmp_path / "copy")
    with recorded(tmp_path / "data", 13) as one:
        copy_store(one.store, tmp_path / "copy")
        BackupMaker(one.store, archive, None).make(whole=False)
    with recorded(tmp_path / "copy", 15) as two:
        with recorded(tmp_path / "data", 16) as one:
            one.steps(5)
            BackupMaker(one.store, archive, None).make(whole=False)
        while two.event <= max(one.was):
            two.steps(5)
        assert "put in its place" in BackupMaker(two.store, archive, None).make(whole=False).because
        _, found = restored(archive, tmp_path / "back")
        assert found == two.was[two.event]


def test_two_backups_made_at_once_are_both_usable(tmp_path: Path) -> None:
    with recorded(tmp_path / "data", 10) as one:
        BackupMaker(one.store, FolderArchive(tmp_path / "kept"), None).make(whole=True)
        one.steps(10)
        dying = DyingArchive(tmp_path / "kept")
        others: list[BackupMaker] = [BackupMaker(one.store, FolderArchive(tmp_path / "kept"), None)]

        def meanwhile() -> None:
            if others:
                one.steps(5)
                others.pop().make(whole=False)

        dying.step = meanwhile  # type: ignore[method-assign]
        BackupMaker(one.store, dying, None).make(whole=False)
        one.steps(5)
        BackupMaker(one.store, FolderArchive(tmp_path / "kept"), None).make(whole=False)
        _, found = restored(FolderArchive(tmp_path / "kept"), tmp_path / "back")
        assert found == one.was[one.event]


def test_a_second_store_is_not_backed_up_to_the_same_archive(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    with recorded(tmp_path / "one", 11) as one, recorded(tmp_path / "two", 12) as two:
        BackupMaker(one.store, archive, None).make(whole=True)
        with pytest.raises(Conflict, match="another store"):
            BackupMaker(two.store, archive, None).make(whole=False)
