"""A data folder with files of media, and the places where its backups may lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from media_backups import FILES, put
from small_s3 import SmallS3, small_s3

from kith.engines.blobs import bucket as bucket_of_blobs
from kith.engines.blobs.archives import Archive, FolderArchive, open_archive
from kith.run.config import Settings
from kith.run.opening import folders


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A data folder with a graph of its own and three files of media."""
    made = Settings(data=str(tmp_path / "data"), graphs=("matches",))
    folders.open_environment(made).close()
    for name, data in FILES.items():
        put(made, name, data)
    return made


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    monkeypatch.setattr(bucket_of_blobs, "RETRIES", 0)
    with small_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=["folder", "bucket"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    if request.param == "bucket":
        request.getfixturevalue("bucket")
        return open_archive("s3://bucket/some/prefix")
    return FolderArchive(tmp_path / "kept")
