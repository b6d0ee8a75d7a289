"""Tests of whole processes. How a server is run is shared with the tests of the API."""

from __future__ import annotations

import pytest
from running import People, cast


@pytest.fixture
def people() -> People:
    """Alice, Bob, Carol and Dana; every test here has a data folder of its own."""
    return cast(0)
