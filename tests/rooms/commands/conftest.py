"""A data folder, and imports in small steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from kith.commands.transfer import loading
from kith.engines.embedded import bulk
from kith.run.config import Settings


@pytest.fixture
def set_to(tmp_path: Path) -> Settings:
    """Settings of an empty folder."""
    return Settings(data=str(tmp_path / "data"), durability="relaxed", graphs=("matches",))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and ranges of a few rows, so that small files make many."""
    monkeypatch.setattr(bulk, "RUN_ROWS", 7)
    monkeypatch.setattr(bulk, "RANGE_ROWS", 10)
    monkeypatch.setattr(loading, "_MERGE_ROWS", 5)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read 50 bytes at a time."""
    monkeypatch.setattr(loading, "CHUNK_BYTES", 50)
    monkeypatch.setattr(loading, "_MERGE_BYTES", 50)
