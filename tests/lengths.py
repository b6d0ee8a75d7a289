"""How long histories at random are: some seconds in `make test`, and in `make test-long` TEST_STEPS steps a test."""

from __future__ import annotations

import os

STEPS = int(os.environ.get("TEST_STEPS", "0"))


def examples(few: int, steps: int) -> int:
    """How many histories of so many steps: a few, or as many as make STEPS."""
    return max(few, STEPS // steps)
