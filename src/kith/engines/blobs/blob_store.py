"""The BlobStore of media, on the library obstore: files by key, in a local folder or in S3."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from kith.core.errors import BadRequest, StoreFull, StoreUnavailable
from kith.engines.blobs.bucket import open_bucket
from kith.media.blobs import Blob, BlobStore

_LIST_PAGE_FILES = 1_000
_LINK_VALID_FOR = timedelta(hours=1)
_S3_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Disposition": "inline"}


def open_blobs(url: str, folder: Path, *, sync: bool) -> BlobStore:
    """The store that `media_url` names: `s3://bucket/prefix`, or empty for `folder`.

    `sync`: files in the folder survive a power cut. BadRequest for another address.
    """
    if not url:
        return FolderBlobs(folder, sync=sync)
    if url.startswith("s3://"):
        return BucketBlobs(url)
    raise BadRequest("media_url is empty (a folder beside the data) or s3://bucket/prefix")


class FolderBlobs:
    """A `media.blobs.BlobStore` in a local folder."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        """Create the folder if it does not exist; never the folder above it. StoreUnavailable if it cannot be used."""
        with _translate_errors():
            folder.mkdir(exist_ok=True)
        self._folder, self._sync = folder.resolve(), sync
        self._store = LocalStore(prefix=self._folder)

    async def put(self, key: str, data: bytes | BinaryIO, content_type: str) -> None:
        with _translate_errors():
            self._folder.mkdir(exist_ok=True)  # obstore would also create the folder above, if that was moved away
            await obstore.put_async(self._store, key, data)
            if self._sync:
                await asyncio.to_thread(_sync, self._folder, key)

    async def locate(self, key: str) -> Path | str | None:
        path = self._folder / key
        return path if path.is_file() else None

    async def delete(self, keys: Sequence[str]) -> None:
        with _translate_errors():
            for key in keys:
                (self._folder / key).unlink(missing_ok=True)

    async def list(self) -> AsyncIterator[Sequence[Blob]]:
        with _translate_errors():
            async for page in obstore.list(self._store, chunk_size=_LIST_PAGE_FILES):
                yield [_blob(entry) for entry in page]
            for file in self._folder.glob("*/*#*"):  # obstore does not list files that it has not finished
                with contextlib.suppress(FileNotFoundError):  # finished, and so renamed, meanwhile
                    status = file.stat()
                    yield [Blob(f"{file.parent.name}/{file.name}", status.st_size, int(status.st_mtime * 1000))]


class BucketBlobs:
    """A `media.blobs.BlobStore` in a bucket, of S3 or a compatible store."""

    def __init__(self, url: str) -> None:
        self._store = open_bucket(url, "media_url")

    async def put(self, key: str, data: bytes | BinaryIO, content_type: str) -> None:
        with _translate_errors():
            await obstore.put_async(self._store, key, data, attributes={**_S3_HEADERS, "Content-Type": content_type})

    async def locate(self, key: str) -> Path | str | None:
        with _translate_errors():
            return await obstore.sign_async(self._store, "GET", key, _LINK_VALID_FOR)

    async def delete(self, keys: Sequence[str]) -> None:
        with _translate_errors(), contextlib.suppress(FileNotFoundError):
            if keys:
                await obstore.delete_async(self._store, list(keys))

    async def list(self) -> AsyncIterator[Sequence[Blob]]:
        with _translate_errors():
            async for page in obstore.list(self._store, chunk_size=_LIST_PAGE_FILES):
                yield [_blob(entry) for entry in page]


def _blob(entry: obstore.ObjectMeta) -> Blob:
    return Blob(entry["path"], entry["size"], int(entry["last_modified"].timestamp() * 1000))


def _sync(folder: Path, key: str) -> None:
    """Sync the file, its folder, and the folder above that."""
    path = folder / key
    for target in (path, path.parent, folder):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of obstore into Kith's. Drops their texts: they may hold keys, and a key gives access."""
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise StoreFull("no room for files; make room where media_url points, then try again") from None
        raise StoreUnavailable(f"the store of files did not answer ({type(error).__name__}); try again") from None
