"""Backups of a data folder with media files: write to it, back it up, and list what an archive or a folder holds."""

from __future__ import annotations

from pathlib import Path

from kith.engines.blobs.archives import Archive
from kith.run.backups import schedule
from kith.run.backups.backup_maker import BackupResult
from kith.run.config import Settings
from kith.run.opening import folders

DAY_MS = 86_400_000
FILES = {"01/a.png": b"a" * 3000, "01/a.thumbnail.webp": b"b", "ff/c.mp4": b"c" * 70_000}


def put(settings: Settings, name: str, data: bytes) -> None:
    file = folders.media_folder(settings) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def note(settings: Settings, key: str) -> None:
    """Write a note: a change for which the log has no event."""
    with folders.open_environment(settings) as store:
        store.put_note(f"server-key/{key}", b"1")


def back_up(settings: Settings, archive: Archive, *, whole: bool = False) -> BackupResult:
    with folders.open_environment(settings) as store:
        return schedule.open_maker(settings, store, archive.where).make(whole=whole)


def held(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder, by relative path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def names(archive: Archive, prefix: str) -> set[str]:
    return {found.name for found in archive.files(prefix)}
