"""The port of stores for the files of media.

Implemented by `engines/blobs` (a local folder, S3). Limit: a key is written once and never changed. Kith never reads
the bytes back; clients get them from where `locate` says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol


class Blob(NamedTuple):
    """One stored file in a listing."""

    key: str
    size: int  # bytes
    modified_at_ms: int


class BlobStore(Protocol):
    """Files by key. Keys are folder names and a file name of `a-z`, `0-9`, `.` and `-`, separated by `/`.

    Atomicity: a file exists whole or not at all, even after a crash. Durability: whether a `put` that returned survives
    a power cut depends on the engine, which documents it. Errors: `StoreFull`, `StoreUnavailable` only; driver errors
    never leak.
    """

    async def put(self, key: str, data: bytes | BinaryIO, content_type: str) -> None:
        """Write one file. A file object is read in other threads, from its position to its end, in parts."""
        ...

    async def locate(self, key: str) -> Path | str | None:
        """Where a file is: a path on this machine, or a URL that is valid for an hour.

        None if there is no such key; but an engine that returns URLs may return one that leads nowhere.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete files. A missing key is no error."""
        ...

    def list(self) -> AsyncIterator[Sequence[Blob]]:
        """All files, in chunks, in any order. Includes the remains of an interrupted `put`, if the engine sees them."""
        ...
