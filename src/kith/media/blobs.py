"""The port behind files: what every engine that keeps the bytes of media must do.

Implemented by `engines/blobs` (a local folder, S3). Limit: a key is written once and never changed. Nothing reads the
bytes again but whoever shows them, and that is not Python: see `locate`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol


class Blob(NamedTuple):
    """One stored file, as a listing names it."""

    key: str
    size: int  # bytes
    modified_at_ms: int


class BlobStore(Protocol):
    """Files by key. Keys are folder names and a file name of `a-z`, `0-9`, `.` and `-`, separated by `/`.

    Atomicity: a key is there whole or not at all, also after a crash. Durability: a `put` that returned survives
    a power cut where the engine says so. Errors: `StoreFull`, `StoreUnavailable` only; drivers never leak.
    """

    async def put(self, key: str, data: bytes | BinaryIO, content_type: str) -> None:
        """Write one file; of a file object what follows its position, read in other threads, not held in memory."""
        ...

    async def locate(self, key: str) -> Path | str | None:
        """Where a file can be had: a path on this machine, or an address that holds for an hour; None where there is
        no such key. Where it answers addresses, one of a key that is not there leads nowhere.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove files; a key that is not there is no error."""
        ...

    def list(self) -> AsyncIterator[Sequence[Blob]]:
        """Every file, in chunks, in no order; also what a `put` that was cut off left, where the engine can see it."""
        ...
