"""Layers over an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest
from layered import Layered


@pytest.fixture
def layered(tmp_path: Path) -> Layered:
    return Layered(tmp_path)
