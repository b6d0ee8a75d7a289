"""Files of pictures and videos in a backup: they never change, so each is copied once.

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
"""Files of media by their names in the folder of media."""
_CHUNK_BYTES = 1 << 20


def list_of(names: StoredFiles) -> bytes:
    """Names as the file `media` of a part."""
    lines = [f"{file.sha256} {file.bytes} {name}\n" for name, file in sorted(names.items())]
    return zlib.compress("".join(lines).encode(), 1)


def names_of(archive: Archive, parts: Iterable[Part]) -> dict[str, StoredFile]:
    """The files of media that came with some parts. Errors: StoreMismatch, StoreUnavailable."""
    found: dict[str, StoredFile] = {}
    for part in parts:
        if MEDIA in part.files:
            raw = b"".join(read_verified(archive, file_of(part.id, MEDIA), part.files[MEDIA]))
            for line in zlib.decompress(raw).decode().splitlines():
                digest, size, name = line.split(" ", 2)
                found[name] = StoredFile(int(size), digest)
    return found


def copy_in(
    folder: Path, archive: Archive, known: StoredFiles, progress: Callable[[int], None]
) -> dict[str, StoredFile]:
    """Copy the files of a folder to the archive, those in `known` excepted; all that the folder has now.

    One that is there already, from a backup that was cut short, is compared instead. `progress`: told of the files
    copied so far.
    """
    found: dict[str, StoredFile] = {}
    copied = 0
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if "#" in file.name or not file.is_file():  # the name of a file that is being written
            continue
        if name in known:
            found[name] = known[name]
            continue
        try:
            found[name] = _copied(file, archive, f"{MEDIA}/{name}")
        except FileNotFoundError:  # deleted meanwhile, by `kith sweep` or with its owner
            continue
        copied += 1
        progress(copied)
    return found


def copy_out(archive: Archive, names: StoredFiles, folder: Path, progress: Callable[[int], None]) -> list[str]:
    """Copy files of the archive to a folder, where they are not there yet; those that are damaged or missing."""
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
    with file.open("rb") as opened:  # before anything is written: it may be gone
        own = digest_of(_chunks(opened))
    try:
        if digest_of(archive.read(name)) == own:
            return own
    except StoreMismatch:  # it is not there
        pass
    with file.open("rb") as opened:
        return put_verified(archive, name, _chunks(opened))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
