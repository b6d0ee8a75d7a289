"""Media files in a backup. They never change, so each is copied once.

files/<part>/media    deflated lines: SHA-256 in hex, bytes, name
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from kith.core.errors import StoreMismatch
from kith.engines.blobs.archives import Archive, FolderArchive
from kith.run.backups.parts import MEDIA, Part, StoredFile, digest_of, file_of, put_verified, read_verified

StoredFiles = Mapping[str, StoredFile]
"""Media files by their names in the media folder."""
_CHUNK_BYTES = 1 << 20


def list_of(names: StoredFiles) -> bytes:
    """The content of a part's file `media`: the list of these files."""
    lines = [f"{file.sha256} {file.bytes} {name}\n" for name, file in sorted(names.items())]
    return zlib.compress("".join(lines).encode(), 1)


def names_of(archive: Archive, parts: Iterable[Part]) -> dict[str, StoredFile]:
    """The media files listed in these parts. Errors: StoreMismatch, StoreUnavailable."""
    files: dict[str, StoredFile] = {}
    for part in parts:
        if MEDIA in part.files:
            raw = b"".join(read_verified(archive, file_of(part.id, MEDIA), part.files[MEDIA]))
            for line in zlib.decompress(raw).decode().splitlines():
                digest, size, name = line.split(" ", 2)
                files[name] = StoredFile(int(size), digest)
    return files


def copy_in(
    folder: Path, archive: Archive, stored: StoredFiles, progress: Callable[[int], None]
) -> dict[str, StoredFile]:
    """Copy the files of a folder to the archive, except those in `stored`; returns all files of the folder.

    A file that an interrupted backup left in the archive is compared instead of copied. `progress`: called with the
    number of files copied so far.
    """
    files: dict[str, StoredFile] = {}
    copied = 0
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if "#" in file.name or not file.is_file():  # `#` marks a file that is being written
            continue
        if name in stored:
            files[name] = stored[name]
            continue
        try:
            files[name] = _copied(file, archive, f"{MEDIA}/{name}")
        except FileNotFoundError:  # deleted meanwhile, by `kith sweep` or with its owner's account
            continue
        copied += 1
        progress(copied)
    return files


def copy_out(archive: Archive, names: StoredFiles, folder: Path, progress: Callable[[int], None]) -> list[str]:
    """Copy files of the archive to a folder, except files that it has; returns the names of damaged or missing ones."""
    target, lost = FolderArchive(folder, private=False), []
    for number, (name, file) in enumerate(sorted(names.items()), 1):
        if not (folder / name).exists() or digest_of(target.read(name)) != file:
            try:
                target.put(name, read_verified(archive, f"{MEDIA}/{name}", file))
            except StoreMismatch:
                lost.append(name)
        progress(number)
    return lost


def _copied(file: Path, archive: Archive, name: str) -> StoredFile:
    with file.open("rb") as opened:  # first, because the file may be gone
        digest = digest_of(_chunks(opened))
    try:
        if digest_of(archive.read(name)) == digest:
            return digest
    except StoreMismatch:  # the archive does not have it
        pass
    with file.open("rb") as opened:
        return put_verified(archive, name, _chunks(opened))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
