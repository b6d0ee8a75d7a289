"""How long histories at random are: some seconds in `make test`, and in `make test-long` TEST_STEPS steps a test."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

STEPS = int(os.environ.get("TEST_STEPS", "0"))


def examples(few: int, steps: int) -> int:
    """How many histories of so many steps: a few, or as many as make STEPS."""
    return max(few, STEPS // steps)


def seeds(few: int, steps: int) -> Sequence[Any]:
    """The seeds of so many histories, as parameters of a test. Without slow tests it is the first two."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed > 1 else []) for seed in range(examples(few, steps))]
