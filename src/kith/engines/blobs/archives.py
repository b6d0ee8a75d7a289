"""Archives of backups: files by name, in a folder or a bucket. The port and its two implementations.

A file is there whole or not at all, and survives a power cut once `put` has returned. Errors: StoreFull,
StoreUnavailable; StoreMismatch for a missing file. Credentials of a bucket come from the usual AWS_* variables.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import obstore
from obstore.exceptions import BaseError

from kith.core.errors import BadRequest, KithError, StoreFull, StoreMismatch, StoreUnavailable
from kith.engines.blobs.bucket import open_bucket
from kith.engines.embedded.store_file import sync_folder

_CHUNK_BYTES = 1 << 20
_DELETE_BATCH = 1_000
_PARTIAL = ".part"
"""Suffix of a file in a folder while it is being written."""


class ListedFile(NamedTuple):
    """One file in a listing. `modified_at_ms`: by the clock of the archive."""

    name: str
    modified_at_ms: int


class Archive(Protocol):
    """A folder or a bucket. Names are parts of `a-z`, `0-9`, `.` and `-`, separated by `/`."""

    where: str
    """The archive's address, as it was given."""

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file, whole or not at all. Replaces a file of this name. An error of `chunks` is raised unchanged."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file, chunk by chunk."""
        ...

    def files(self, prefix: str) -> Iterator[ListedFile]:
        """All files below the folder `prefix` of the archive, in any order."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete files. A missing file is no error."""
        ...


def open_archive(address: str) -> Archive:
    """The archive at an address: a folder, which need not exist yet, or `s3://bucket/prefix`.

    BadRequest for another address, and for an empty one, such as that of a shell variable that is not set.
    """
    if not address.strip():
        raise BadRequest("the place of the backup is empty: name a folder, or s3://bucket/prefix")
    if address.startswith("s3://"):
        return BucketArchive(address)
    if "://" in address:
        raise BadRequest(f"{address} is no place for backups: name a folder, or s3://bucket/prefix")
    return FolderArchive(Path(address))


class FolderArchive:
    """An `Archive` in a folder. `private`: only the owner of its files may read them.

    `makes`: whether `put` creates the folder if it does not exist.
    """

    def __init__(self, folder: Path, *, private: bool = True, makes: bool = True) -> None:
        self._folder, self.where, self._makes = folder, str(folder), makes
        self._mode = 0o600 if private else 0o644

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        file = self._folder / name
        partial = file.with_name(file.name + _PARTIAL)
        with _translate_errors(self.where):
            if self._makes:
                file.parent.mkdir(parents=True, exist_ok=True)
            try:
                with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self._mode), "wb") as output:
                    for chunk in chunks:
                        output.write(chunk)
                    output.flush()
                    os.fsync(output.fileno())
            except Exception:
                partial.unlink(missing_ok=True)
                raise
            partial.replace(file)
            for folder in (file.parent, *file.parent.parents):
                sync_folder(folder)
                if folder == self._folder:
                    break

    def read(self, name: str) -> Iterator[bytes]:
        with _translate_errors(self.where, name), (self._folder / name).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def files(self, prefix: str) -> Iterator[ListedFile]:
        with _translate_errors(self.where):
            for folder, _, names in os.walk(self._folder / prefix):
                for file in (Path(folder) / name for name in names):
                    with contextlib.suppress(FileNotFoundError):
                        yield ListedFile(
                            file.relative_to(self._folder).as_posix(), file.stat().st_mtime_ns // 1_000_000
                        )

    def delete(self, names: Sequence[str]) -> None:
        with _translate_errors(self.where):
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            for folder in {(self._folder / name).parent for name in names}:
                with contextlib.suppress(OSError):  # not empty
                    folder.rmdir()


class BucketArchive:
    """An `Archive` under a prefix of a bucket, in S3 or a compatible store."""

    def __init__(self, url: str) -> None:
        self.where, self._store = url, open_bucket(url, url)

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        source = _Source(chunks)
        try:
            with _translate_errors(self.where):
                obstore.put(self._store, name, source)
        except KithError:
            if source.error is not None:  # obstore raised its own error in place of this one
                raise source.error from None
            raise

    def read(self, name: str) -> Iterator[bytes]:
        with _translate_errors(self.where, name):
            for chunk in obstore.get(self._store, name).stream(_CHUNK_BYTES):
                yield bytes(chunk)

    def files(self, prefix: str) -> Iterator[ListedFile]:
        with _translate_errors(self.where):
            for page in obstore.list(self._store, prefix):
                for entry in page:
                    yield ListedFile(entry["path"], int(entry["last_modified"].timestamp() * 1000))

    def delete(self, names: Sequence[str]) -> None:
        with _translate_errors(self.where), contextlib.suppress(FileNotFoundError):
            for start in range(0, len(names), _DELETE_BATCH):
                obstore.delete(self._store, list(names[start : start + _DELETE_BATCH]))


class _Source:
    """Chunks for obstore. Keeps an error that the chunks raise, because obstore does not pass it on."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise


@contextlib.contextmanager
def _translate_errors(address: str, name: str = "") -> Iterator[None]:
    """Translate errors of the system and of obstore into Kith's. Drops obstore's texts, which may hold keys.

    `name`: the file that is being read, if any.
    """
    try:
        yield
    except KithError:
        raise
    except (BaseError, OSError, ValueError) as error:
        if name and isinstance(error, FileNotFoundError):
            raise StoreMismatch(f"{name} is missing from {address}: it was removed, or is no backup of Kith") from None
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"no room in {address}; make some, then try again. What it held is as it was") from None
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        check = "check the bucket, and the endpoint and credentials in AWS_*, then " if "://" in address else ""
        raise StoreUnavailable(f"{address} cannot be used ({reason}); {check}try again") from None
