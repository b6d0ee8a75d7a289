"""Fixtures of the fault tests: the seed, and the faulty disk."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from processes import FaultyDisk, compile_disk


@pytest.fixture
def seed() -> int:
    """The seed of the test, printed so that a failing run can be repeated, as far as the moment of a kill allows."""
    chosen = int(os.environ.get("KITH_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"KITH_TEST_SEED={chosen}")
    return chosen


@pytest.fixture(scope="session")
def disk_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`faulty_disk.c`, compiled once."""
    return compile_disk(tmp_path_factory.mktemp("faulty-disk"))


@pytest.fixture
def disk(disk_library: Path, tmp_path: Path) -> FaultyDisk:
    """A disk that works until the test orders a fault."""
    return FaultyDisk(disk_library, tmp_path / "fault")
