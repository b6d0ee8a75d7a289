"""The length of random histories: some seconds in `make test`, TEST_STEPS steps per test in `make test-long`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

STEPS = int(os.environ.get("TEST_STEPS", "0"))


def examples(few: int, steps: int) -> int:
    """The number of histories of `steps` steps each: `few`, or more, so that together they have STEPS steps."""
    return max(few, STEPS // steps)


def seeds(few: int, steps: int) -> Sequence[Any]:
    """Seeds of `examples(few, steps)` histories, as parameters of a test. All but the first two are marked slow."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed > 1 else []) for seed in range(examples(few, steps))]
