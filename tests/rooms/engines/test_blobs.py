"""What blob engines do beyond their port: signed URLs of a bucket, errors, leftovers of a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from coroutines import Run
from servers import PLAIN
from small_s3 import SmallS3, small_s3

from kith.core.errors import BadRequest, StoreFull, StoreUnavailable
from kith.engines.blobs.blob_store import FolderBlobs, open_blobs
from kith.media.blobs import BlobStore

KEY, OTHER = "3f/7-3f00.jpg", "a0/8-a000.thumbnail.webp"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    with small_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def keys(run: Run, blobs: BlobStore) -> list[str]:
    async def collect() -> list[str]:
        return sorted([blob.key async for chunk in blobs.list() for blob in chunk])

    return list(run(collect()))


def test_a_signed_url_of_a_bucket_serves_the_file_with_the_right_headers(run: Run, bucket: SmallS3) -> None:
    blobs = open_blobs("s3://bucket/some/prefix", Path("unused"), sync=True)
    run(blobs.put(KEY, b"x", "image/jpeg"))
    assert list(bucket.files) == [f"some/prefix/{KEY}"]
    address = run(blobs.locate(KEY))
    answer = httpx.get(address, **PLAIN)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert "immutable" in answer.headers["cache-control"]
    assert httpx.get(address.partition("?")[0], **PLAIN).status_code == 404, "unsigned"


def test_a_failing_bucket_raises_an_error_that_names_no_keys(
    run: Run, bucket: SmallS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kith.engines.blobs.bucket.RETRIES", 0)
    blobs = open_blobs("s3://bucket", Path("unused"), sync=False)
    bucket.broken = True
    with pytest.raises(StoreUnavailable) as raised:
        run(blobs.put(KEY, b"x", "image/jpeg"))
    assert KEY not in str(raised.value)


def test_a_full_disk_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    blobs = FolderBlobs(tmp_path, sync=False)
    monkeypatch.setattr("obstore.put_async", full)
    with pytest.raises(StoreFull):
        run(blobs.put(KEY, b"x", "image/jpeg"))


def test_half_written_files_of_a_killed_process_are_listed_and_can_be_removed(run: Run, tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path, sync=False)
    run(blobs.put(KEY, b"x", "image/jpeg"))
    (tmp_path / f"{OTHER}#1").parent.mkdir()
    (tmp_path / f"{OTHER}#1").write_bytes(b"half")
    assert keys(run, blobs) == [KEY, f"{OTHER}#1"]
    run(blobs.delete([f"{OTHER}#1"]))
    assert keys(run, blobs) == [KEY]


def test_a_file_that_is_finished_during_a_listing_does_not_break_it(run: Run, tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path, sync=False)
    run(blobs.put(KEY, b"x", "image/jpeg"))
    (tmp_path / f"{KEY}#1").symlink_to(tmp_path / "gone by the time it is looked at")
    assert keys(run, blobs) == [KEY]


@pytest.mark.parametrize("url", ["gs://bucket", "/tmp/media", "s3:bucket"])
def test_another_kind_of_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        open_blobs(url, tmp_path, sync=False)
