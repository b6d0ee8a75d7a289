"""What every BlobStore must do, as `media.blobs.BlobStore` promises."""

from __future__ import annotations

import io
from collections.abc import Callable

import httpx
import pytest
from coroutines import Run
from servers import PLAIN

from kith.media.blobs import Blob, BlobStore

PORT = "blobs"
Read = Callable[[str], bytes | None]
KEY, OTHER = "3f/7-3f00.jpg", "a0/8-a000.thumbnail.webp"


@pytest.fixture
def read(blobs: BlobStore, run: Run) -> Read:
    """Reads a file, like the code that serves it."""

    def read_at(key: str) -> bytes | None:
        place = run(blobs.locate(key))
        if isinstance(place, str):
            answer = httpx.get(place, **PLAIN)
            return None if answer.status_code == 404 else answer.content
        return None if place is None else place.read_bytes()

    return read_at


def listed(run: Run, blobs: BlobStore) -> list[Blob]:
    async def collect() -> list[Blob]:
        return sorted([blob async for chunk in blobs.list() for blob in chunk])

    return list(run(collect()))


def test_a_file_reads_as_it_was_put(run: Run, blobs: BlobStore, read: Read) -> None:
    data = bytes(range(256)) * 100
    run(blobs.put(KEY, data, "image/jpeg"))
    run(blobs.put(OTHER, b"", "image/webp"))
    assert (read(KEY), read(OTHER)) == (data, b"")
    assert read("3f/7-3f01.jpg") is None


def test_a_file_object_of_any_size_is_put_from_its_position_on(run: Run, blobs: BlobStore, read: Read) -> None:
    data = bytes(range(251)) * 50_000  # 12 MB: more than one part of an upload to a bucket
    file = io.BytesIO(b"before" + data)
    file.seek(6)
    run(blobs.put(KEY, file, "video/mp4"))
    assert read(KEY) == data


def test_deleted_files_are_gone_and_deleting_missing_files_is_no_error(run: Run, blobs: BlobStore, read: Read) -> None:
    for key in (KEY, OTHER):
        run(blobs.put(key, b"x", "image/jpeg"))
    run(blobs.delete([KEY, "3f/9-3f02.jpg"]))
    run(blobs.delete([KEY]))
    run(blobs.delete([]))
    assert (read(KEY), read(OTHER)) == (None, b"x")


def test_all_files_are_listed_with_size_and_time(run: Run, blobs: BlobStore, read: Read) -> None:
    assert listed(run, blobs) == []
    run(blobs.put(OTHER, b"12345", "image/webp"))
    run(blobs.put(KEY, b"123", "image/jpeg"))
    files = listed(run, blobs)
    assert [(blob.key, blob.size) for blob in files] == [(KEY, 3), (OTHER, 5)]
    assert all(1_600_000_000_000 < blob.modified_at_ms < 5_000_000_000_000 for blob in files)
