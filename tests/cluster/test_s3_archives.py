"""The archive of backups, in a bucket of a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_engines import S3, prefix_of

from kith.core.errors import StoreMismatch
from kith.engines.blobs.archives import Archive, open_archive

MEGABYTE = 1 << 20


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An empty archive."""
    for name, value in S3.items():
        monkeypatch.setenv(name, value)
    return open_archive(f"s3://kith/{prefix_of(tmp_path)}")


def chunks(count: int) -> Iterator[bytes]:
    return (bytes([number]) * MEGABYTE for number in range(count))


def test_a_file_of_many_parts_is_stored_whole_and_replaced_whole(archive: Archive) -> None:
    archive.put("whole/1.mdb", chunks(12))
    assert b"".join(archive.read("whole/1.mdb")) == b"".join(chunks(12))
    archive.put("whole/1.mdb", [b"another"])
    assert b"".join(archive.read("whole/1.mdb")) == b"another"
    assert [file.name for file in archive.files("whole")] == ["whole/1.mdb"]


def test_a_file_whose_upload_fails_is_not_stored(archive: Archive) -> None:
    def failing() -> Iterator[bytes]:
        yield from chunks(7)
        raise StoreMismatch("it is damaged")

    with pytest.raises(StoreMismatch, match="it is damaged"):
        archive.put("whole/2.mdb", failing())
    assert not [*archive.files("whole")]
    with pytest.raises(StoreMismatch):
        b"".join(archive.read("whole/2.mdb"))


def test_deleted_files_are_gone_and_missing_ones_are_no_error(archive: Archive) -> None:
    for name in ("log/1", "log/2"):
        archive.put(name, [b"x"])
    archive.delete(["log/1", "log/7"])
    assert [file.name for file in archive.files("log")] == ["log/2"]
