"""What every engine that keeps files must do, in the words of `objects.blobs.BlobStore`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from coroutines import Run
from small_s3 import SmallS3, small_s3

from kith.core.errors import BadRequest, StoreFull, StoreUnavailable
from kith.engines.blobs.store import FolderBlobs, open_blobs
from kith.media.blobs import Blob, BlobStore

KEY, OTHER = "3f/7-3f00.jpg", "a0/8-a000.thumbnail.webp"


class Store(NamedTuple):
    """An engine, and how whoever shows files reads one."""

    blobs: BlobStore
    read: Callable[[str], bytes | None]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    with small_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=["folder", "synced folder", "s3"])
def store(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Store:
    if request.param == "s3":
        request.getfixturevalue("bucket")
    url = "s3://bucket/some/prefix" if request.param == "s3" else ""
    blobs = open_blobs(url, tmp_path / "media", sync=request.param == "synced folder")

    def read(key: str) -> bytes | None:
        place = run(blobs.locate(key))
        if isinstance(place, str):
            answer = httpx.get(place, trust_env=False)
            return None if answer.status_code == 404 else answer.content
        return None if place is None else place.read_bytes()

    return Store(blobs, read)


def listed(run: Run, blobs: BlobStore) -> list[Blob]:
    async def collect() -> list[Blob]:
        return sorted([blob async for chunk in blobs.list() for blob in chunk])

    return list(run(collect()))


def test_a_file_reads_as_it_was_put(run: Run, store: Store) -> None:
    data = bytes(range(256)) * 100
    run(store.blobs.put(KEY, data, "image/jpeg"))
    run(store.blobs.put(OTHER, b"", "image/webp"))
    assert (store.read(KEY), store.read(OTHER)) == (data, b"")
    assert store.read("3f/7-3f01.jpg") is None


def test_of_a_file_object_all_is_put_that_follows_its_position_however_large(run: Run, store: Store) -> None:
    data = bytes(range(251)) * 50_000  # 12 MB: more than one part of an upload to a bucket
    file = io.BytesIO(b"before" + data)
    file.seek(6)
    run(store.blobs.put(KEY, file, "video/mp4"))
    assert store.read(KEY) == data


def test_deleted_files_are_gone_and_those_that_never_were_are_no_error(run: Run, store: Store) -> None:
    for key in (KEY, OTHER):
        run(store.blobs.put(key, b"x", "image/jpeg"))
    run(store.blobs.delete([KEY, "3f/9-3f02.jpg"]))
    run(store.blobs.delete([KEY]))
    run(store.blobs.delete([]))
    assert (store.read(KEY), store.read(OTHER)) == (None, b"x")


def test_all_files_are_listed_with_size_and_time(run: Run, store: Store) -> None:
    assert listed(run, store.blobs) == []
    run(store.blobs.put(OTHER, b"12345", "image/webp"))
    run(store.blobs.put(KEY, b"123", "image/jpeg"))
    found = listed(run, store.blobs)
    assert [(blob.key, blob.size) for blob in found] == [(KEY, 3), (OTHER, 5)]
    assert all(1_600_000_000_000 < blob.modified_at_ms < 5_000_000_000_000 for blob in found)


# What single engines promise beyond the port


def test_a_bucket_shows_files_with_the_right_headers_to_whoever_has_a_signed_address(run: Run, bucket: SmallS3) -> None:
    blobs = open_blobs("s3://bucket/some/prefix", Path("unused"), sync=True)
    run(blobs.put(KEY, b"x", "image/jpeg"))
    assert list(bucket.files) == [f"some/prefix/{KEY}"]
    address = run(blobs.locate(KEY))
    answer = httpx.get(address, trust_env=False)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert "immutable" in answer.headers["cache-control"]
    assert httpx.get(address.partition("?")[0], trust_env=False).status_code == 404, "unsigned"


def test_a_bucket_that_fails_is_an_error_of_ours_that_tells_no_keys(
    run: Run, bucket: SmallS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kith.engines.blobs.store._S3_RETRIES", 0)
    blobs = open_blobs("s3://bucket", Path("unused"), sync=False)
    bucket.broken = True
    with pytest.raises(StoreUnavailable) as refused:
        run(blobs.put(KEY, b"x", "image/jpeg"))
    assert KEY not in str(refused.value)


def test_a_full_disk_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    blobs = FolderBlobs(tmp_path, sync=False)
    monkeypatch.setattr("obstore.put_async", full)
    with pytest.raises(StoreFull):
        run(blobs.put(KEY, b"x", "image/jpeg"))


def test_what_a_killed_process_left_half_written_is_listed_and_can_be_removed(run: Run, tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path, sync=False)
    run(blobs.put(KEY, b"x", "image/jpeg"))
    (tmp_path / f"{OTHER}#1").parent.mkdir()
    (tmp_path / f"{OTHER}#1").write_bytes(b"half")
    assert [blob.key for blob in listed(run, blobs)] == [KEY, f"{OTHER}#1"]
    run(blobs.delete([f"{OTHER}#1"]))
    assert [blob.key for blob in listed(run, blobs)] == [KEY]


@pytest.mark.parametrize("url", ["gs://bucket", "/tmp/media", "s3:bucket"])
def test_another_kind_of_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        open_blobs(url, tmp_path, sync=False)
