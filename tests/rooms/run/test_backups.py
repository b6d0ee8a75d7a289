"""What a backup of a data folder holds with its media files, in a folder and in a bucket, and how it is restored."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backups import DyingArchive
from cast import ALICE, BOB, CAROL
from coroutines import Run
from edges import G, edge_of
from embedded_engine import open_embedded
from media_backups import DAY_MS, FILES, back_up, held, names, note, put
from small_s3 import SmallS3
from store_copies import copy_store

from kith.core.clock import wall_ms
from kith.core.errors import BadRequest, Conflict, StoreFull, StoreMismatch, StoreUnavailable
from kith.engines.blobs.archives import Archive, FolderArchive, open_archive
from kith.engines.embedded import store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.graph.edge import EdgeWrite
from kith.run.backups import backup_maker, schedule
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.parts import encode_manifest, read_parts
from kith.run.backups.pruning import prune
from kith.run.backups.restoring import restore
from kith.run.config import Settings
from kith.run.opening import folders
from kith.run.serving import supervisor


def test_store_and_media_are_restored_whole_with_new_files_of_increments(
    settings: Settings, tmp_path: Path, archive: Archive
) -> None:
    assert back_up(settings, archive).files == 3
    put(settings, "02/d.png", b"d" * 10)
    put(settings, "02/e.png#1", b"half")
    note(settings, "new")
    made = back_up(settings, archive)
    assert ([part.kind for part in made.parts], made.files) == (["increment"], 1)
    assert back_up(settings, archive).parts == []
    assert names(archive, "media") == {f"media/{name}" for name in [*FILES, "02/d.png"]}
    back = Settings(data=str(tmp_path / "back"))
    done = restore(back, archive)
    assert (done.files, done.lost) == (4, [])
    assert held(folders.media_folder(back)) == {**FILES, "02/d.png": b"d" * 10}
    with folders.open_environment(back, create=False) as store:
        assert "matches" in store.graph_numbers()
        assert store.get_note("server-key/new") == b"1"
    with pytest.raises(Conflict, match="already holds a store"):
        restore(back, archive)


@pytest.mark.parametrize("before", ["an event", "a file", "nothing"])
def test_an_increment_has_the_files_that_its_log_names(
    run: Run, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """A user uploads while it is made: first the file is stored, then the edge that names it."""
    archive, copy_in, uploads = FolderArchive(tmp_path / "kept"), backup_maker.copy_in, iter([edge_of(ALICE, CAROL)])
    with open_embedded(Path(settings.data)) as (environment, edges):

        def copied(*arguments: Any) -> Any:
            found = copy_in(*arguments)
            for edge in uploads:
                put(settings, "aa/late.png", b"late")
                run(edges.apply([EdgeWrite(edge)]))
            return found

        maker = schedule.open_maker(settings, environment, archive.where)
        maker.make(whole=False)
        if before == "an event":
            run(edges.apply([EdgeWrite(edge_of(ALICE, BOB))]))
        elif before == "a file":
            put(settings, "aa/early.png", b"early")
        monkeypatch.setattr(backup_maker, "copy_in", copied)
        maker.make(whole=False)
    back = Settings(data=str(tmp_path / "back"))
    assert restore(back, archive).lost == []
    with open_embedded(Path(back.data)) as (_, edges):
        is_named = run(edges.exists_many(G, [(ALICE, CAROL)])) == [True]
    assert (folders.media_folder(back) / "aa" / "late.png").exists() or not is_named


def test_only_its_owner_may_read_a_backup_and_a_restore_writes_nothing_to_it(
    settings: Settings, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    back_up(settings, FolderArchive(kept))
    assert {file.stat().st_mode & 0o077 for file in kept.rglob("*") if file.is_file()} == {0}
    before = held(kept)
    restore(Settings(data=str(tmp_path / "back")), FolderArchive(kept))
    assert held(kept) == before


def test_a_bucket_that_fails_at_any_request_loses_nothing_and_the_next_backup_continues(
    settings: Settings, tmp_path: Path, bucket: SmallS3
) -> None:
    archive = open_archive("s3://bucket/some/prefix")
    back_up(settings, archive)
    put(settings, "02/d.png", b"d" * 10)
    note(settings, "new")
    before, failed = dict(bucket.files), 0
    while True:
        bucket.files = dict(before)
        bucket.breaks_after = failed
        try:
            back_up(settings, archive, whole=failed % 2 == 0)
        except StoreUnavailable as error:
            assert "some/prefix" in error.message  # noqa: PT017
            assert "endpoint and credentials" in error.message  # noqa: PT017
            bucket.breaks_after, bucket.broken = None, False
            assert len(read_parts(archive).whole) >= 1
            done = restore(Settings(data=str(tmp_path / f"first-{failed}")), archive)
            assert done.lost == []
            back_up(settings, archive)
            assert restore(Settings(data=str(tmp_path / f"then-{failed}")), archive).files == 4
            failed += 11
        else:
            break
    assert failed > 20


def test_a_damaged_media_file_is_reported_and_the_rest_is_restored(
    settings: Settings, tmp_path: Path, archive: Archive
) -> None:
    back_up(settings, archive)
    archive.put("media/01/a.png", [b"x" * 3000])
    archive.delete(["media/ff/c.mp4"])
    back = Settings(data=str(tmp_path / "back"))
    done = restore(back, archive)
    assert (done.files, done.lost) == (1, ["01/a.png", "ff/c.mp4"])
    assert held(folders.media_folder(back)) == {"01/a.thumbnail.webp": b"b"}


def test_files_that_an_interrupted_backup_copied_are_not_copied_again(settings: Settings, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    archive.put("media/01/a.png", [FILES["01/a.png"]])
    there = (tmp_path / "kept" / "media/01/a.png").stat().st_ino
    back_up(settings, archive)
    assert (tmp_path / "kept" / "media/01/a.png").stat().st_ino == there


def test_a_damaged_list_of_media_is_reported_and_the_next_backup_is_whole(
    settings: Settings, tmp_path: Path, archive: Archive
) -> None:
    (part,) = back_up(settings, archive).parts
    archive.put(f"files/{part.id}/media", [b"x"])
    with pytest.raises(StoreMismatch, match=f"{part.id}/media is damaged"):
        restore(Settings(data=str(tmp_path / "back")), archive)
    assert f"{part.id}/media is damaged" in back_up(settings, archive).because
    assert prune(archive, 0, 0, wall_ms() + 2 * DAY_MS) == 0
    assert restore(Settings(data=str(tmp_path / "back")), archive).files == 3


def test_a_copy_that_fails_half_way_releases_the_store(settings: Settings, tmp_path: Path) -> None:
    dying = DyingArchive(tmp_path / "kept", lambda: OSError(28, "No space left on device"))
    with folders.open_environment(settings) as store:
        for number in range(6):
            store.put_note(f"large-{number}", bytes(1 << 20))
        maker = BackupMaker(store, dying, None)
        dying.left = 3  # the first chunk is written, and others wait
        try:
            maker.make(whole=True)
        except StoreFull:  # while it is handled
            assert "kith-backup" not in {thread.name for thread in threading.enumerate()}
    assert dying.left == 0
    assert read_parts(FolderArchive(tmp_path / "kept")).whole == []


class Forgetful(FolderArchive):
    """A place that loses the last byte of each file whose name contains `worst`."""

    worst = ""

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        super().put(name, [b"".join(chunks)[:-1]] if self.worst in name else chunks)


@pytest.mark.parametrize("worst", ["store.mdb", "/media", "01/a.png", "parts/"])
def test_a_backup_that_is_not_stored_as_it_was_written_does_not_count(
    settings: Settings, tmp_path: Path, worst: str
) -> None:
    archive = Forgetful(tmp_path / "kept")
    archive.worst = worst
    with folders.open_environment(settings) as store:
        maker = BackupMaker(store, archive, folders.media_folder(settings))
        with pytest.raises(StoreUnavailable, match="did not keep"):
            maker.make(whole=True)
        assert read_parts(archive).whole == []


def test_media_in_a_bucket_are_not_in_a_backup(settings: Settings, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    assert back_up(msgspec.structs.replace(settings, media_url="s3://pictures"), archive).files == 0
    assert names(archive, "media") == set()


def test_old_parts_their_own_files_and_interrupted_backups_are_removed(settings: Settings, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    back_up(settings, archive)
    note(settings, "one")
    back_up(settings, archive)
    (folders.media_folder(settings) / "ff/c.mp4").unlink()
    back_up(settings, archive, whole=True)
    parts = read_parts(archive).whole
    newest = parts[-1]
    archive.put("files/00000009-0-whole/store.mdb", [b"half"])
    assert prune(archive, 0, 0, newest.began_ms) == 0
    assert names(archive, "files") > {"files/00000009-0-whole/store.mdb"}
    assert prune(archive, newest.reached_ms, 0, newest.began_ms) == len(parts) - 1
    assert "files/00000009-0-whole/store.mdb" in names(archive, "files"), "a backup may still be making it"
    assert names(archive, "media") >= {"media/ff/c.mp4"}, "it may belong to a part that is being made"
    assert prune(archive, newest.reached_ms, 0, newest.began_ms + 2 * DAY_MS) == 0
    assert names(archive, "files") == {f"files/{newest.id}/{name}" for name in newest.files}
    assert names(archive, "media") == {"media/01/a.png", "media/01/a.thumbnail.webp"}
    assert restore(Settings(data=str(tmp_path / "back")), archive).lost == []


def test_a_backup_of_an_older_kith_is_still_restored(settings: Settings, tmp_path: Path) -> None:
    older = tmp_path / "older"
    with folders.open_environment(settings) as store:
        store.put_note("kept", b"1")
        copy_store(store, older)
    shutil.copytree(folders.media_folder(settings), older / "media")
    with pytest.raises(Conflict, match="backup of an older Kith"):
        back_up(settings, FolderArchive(older))
    back = Settings(data=str(tmp_path / "back"))
    with pytest.raises(BadRequest, match="one moment only"):
        restore(back, FolderArchive(older), "2026-01-01")
    assert restore(back, FolderArchive(older)).files == 3
    assert held(folders.media_folder(back)) == FILES
    with folders.open_environment(back, create=False) as store:
        assert store.get_note("kept") == b"1"
        assert len(store.history().restores) == 1


def test_a_data_folder_is_not_restored_as_a_backup(settings: Settings, tmp_path: Path) -> None:
    """Its store.mdb may lack writes that its journal has, and is torn if it is copied while a server writes."""
    note(settings, "new")
    back = tmp_path / "back"
    with pytest.raises(BadRequest, match=f"is a data folder and no backup: .*kith backup PLACE --data {settings.data}"):
        restore(Settings(data=str(back)), FolderArchive(Path(settings.data)))
    assert not (back / "store.mdb").exists()


def test_a_backup_of_a_newer_kith_is_refused_and_the_next_one_is_whole(settings: Settings, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    (part,) = back_up(settings, archive).parts
    newer = msgspec.structs.replace(part, version=2, id="00000002-0-increment", kind="increment")
    archive.put("parts/00000002-0-increment.json", [encode_manifest(newer)])
    with pytest.raises(StoreMismatch, match=r"00000002-0-increment.* newer Kith"):
        restore(Settings(data=str(tmp_path / "back")), archive)
    assert "newer Kith" in back_up(settings, archive).because
    assert restore(Settings(data=str(tmp_path / "back")), archive).files == 3


@pytest.mark.parametrize("of", ["standby", "promoted"])
def test_a_restored_store_is_one_of_its_own_whichever_machine_was_backed_up(
    settings: Settings, tmp_path: Path, of: str
) -> None:
    """It must not be taken for the standby that was backed up, nor announce that it is the primary."""
    archive = FolderArchive(tmp_path / "kept")
    supervisor.prepare(settings)
    with folders.open_environment(settings) as store:
        store_role.close_to_writes(store, ClosedNote("standby", "http://primary"))
    if of == "promoted":
        with Environment(Path(settings.data), follows=True) as store:
            store_role.begin_promotion(store)
            store_role.promote(store, store_role.SuccessorNotice("http://primary", "http://new"))
    back_up(settings, archive)
    back = Settings(data=str(tmp_path / "back"))
    restore(back, archive)
    with folders.open_environment(back, create=False) as store:
        assert store_role.read_closed_note(store) is store_role.pending_notice(store) is None
        store.put_note("takes", b"writes")
        assert len(store.history().restores) == (2 if of == "promoted" else 1)


def test_a_folder_that_a_server_uses_is_not_restored_into(settings: Settings, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "kept")
    back_up(settings, archive)
    back = Settings(data=str(tmp_path / "back"))
    with (
        folders.serving(back),
        pytest.raises(Conflict, match=r"a server uses .*, or an import, a restore or a rebuild does"),
    ):
        restore(back, archive)
    restore(back, archive)


def test_a_restore_that_is_cut_short_leaves_no_store_and_can_be_repeated(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = FolderArchive(tmp_path / "kept")
    back_up(settings, archive)
    back = Settings(data=str(tmp_path / "back"))
    with monkeypatch.context() as patch:
        patch.setattr("kith.run.backups.restoring.copy_out", _fails)
        with pytest.raises(StoreUnavailable):
            restore(back, archive)
    assert not (Path(back.data) / "store.mdb").exists()
    assert restore(back, archive).files == 3


def _fails(*_: object) -> None:
    raise StoreUnavailable("the disk is gone")
