"""Layers over an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks_world import ChecksWorld


@pytest.fixture
def world(tmp_path: Path) -> ChecksWorld:
    return ChecksWorld(tmp_path)
