"""Backup and restore of a data folder with media, and what happens when they are cut short."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kith.commands import backup
from kith.core.errors import Conflict, StoreFull
from kith.engines.embedded.store_file import STORE_FILE
from kith.run import folders
from kith.run.config import Settings

FILES = {"01/a.png": b"a" * 3000, "01/a.thumbnail.webp": b"b", "ff/c.mp4": b"c" * 70_000}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A data folder with a graph of its own and three files of media."""
    made = Settings(data=str(tmp_path / "data"), graphs=("matches",))
    folders.open_environment(made).close()
    for name, data in FILES.items():
        file = folders.media_folder(made) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return made


def held(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_backup_holds_store_and_media_and_is_restored_whole(settings: Settings, tmp_path: Path) -> None:
    counted: list[int] = []
    made = backup.backup(settings, tmp_path / "kept", counted.append)
    assert (made.files, made.elsewhere, counted) == (3, "", [1, 2, 3])
    assert made.store_bytes == (tmp_path / "kept" / STORE_FILE).stat().st_size
    assert set(held(tmp_path / "kept")) == {STORE_FILE, *(f"media/{name}" for name in FILES)}
    back = Settings(data=str(tmp_path / "back"))
    before = held(tmp_path / "kept")
    backup.restore(back, tmp_path / "kept")
    assert held(tmp_path / "kept") == before, "it may lie where nothing can be written"
    assert held(folders.media_folder(back)) == FILES
    with folders.open_environment(back, create=False) as environment:
        assert "matches" in environment.graph_numbers()
    with pytest.raises(Conflict, match="already holds a backup"):
        backup.backup(settings, tmp_path / "kept")
    with pytest.raises(Conflict, match="already holds a store"):
        backup.restore(back, tmp_path / "kept")


@pytest.mark.parametrize("broken", [1, 2, 3], ids=["first file", "second file", "third file"])
def test_a_backup_cut_short_is_none_yet_and_resumes(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    kept, back = tmp_path / "kept", Settings(data=str(tmp_path / "back"))
    with monkeypatch.context() as patch:
        patch.setattr(backup, "os", Failing(after=broken))
        with pytest.raises(StoreFull, match="no room on the disk"):
            backup.backup(settings, kept)
    assert not (kept / STORE_FILE).exists()
    there = {file: file.stat().st_ino for file in kept.rglob("*.*") if file.parent.parent.name == "media"}
    backup.backup(settings, kept)
    for file, inode in there.items():
        assert file.suffix == ".part" or file.stat().st_ino == inode, "it was copied again"
    with monkeypatch.context() as patch:
        patch.setattr(backup, "os", Failing(after=broken))
        with pytest.raises(StoreFull):
            backup.restore(back, kept)
    assert not (Path(back.data) / STORE_FILE).exists()
    backup.restore(back, kept)
    assert held(folders.media_folder(back)) == FILES


class Failing:
    """The module `os` on a disk that is full after so many files."""

    def __init__(self, after: int) -> None:
        self._left = after

    fspath: Callable[..., str] = staticmethod(os.fspath)  # type: ignore[assignment]

    def fsync(self, descriptor: int) -> None:
        self._left -= 1
        if not self._left:
            raise OSError(errno.ENOSPC, "no space left")
        os.fsync(descriptor)


def test_files_that_are_being_written_or_deleted_are_left_out(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    media = folders.media_folder(settings)
    (media / "01" / "d.png#1").write_bytes(b"half")
    copy = backup._copy

    def after_a_sweep(file: Path, to: Path) -> None:
        (media / "ff" / "c.mp4").unlink(missing_ok=True)
        copy(file, to)

    monkeypatch.setattr(backup, "_copy", after_a_sweep)
    made = backup.backup(settings, tmp_path / "kept")
    assert made.files == 2
    assert set(held(tmp_path / "kept" / "media")) == {"01/a.png", "01/a.thumbnail.webp"}


def test_media_in_a_bucket_are_named_and_not_copied(settings: Settings, tmp_path: Path) -> None:
    elsewhere = Settings(data=settings.data, graphs=settings.graphs, media_url="s3://pictures")
    made = backup.backup(elsewhere, tmp_path / "kept")
    assert (made.files, made.elsewhere) == (0, "s3://pictures")
    assert set(held(tmp_path / "kept")) == {STORE_FILE}
    back = Settings(data=str(tmp_path / "back"))
    backup.restore(back, tmp_path / "kept")
    assert held(folders.media_folder(back)) == {}
