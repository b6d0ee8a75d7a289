"""A server and a browser for tests in a browser. Nothing is collected without TEST_IN_BROWSER, as in `make test`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
from servers import Server, serving

from bench.browser import chromium

if "TEST_IN_BROWSER" in os.environ:
    from playwright.sync_api import Browser
    from scenes import Stage
else:
    collect_ignore_glob = ["test_*.py"]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or the browser that KITH_BROWSER names."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share."""
    with serving(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def stage(browser: Any, server: Server) -> Iterator[Stage]:
    """A stage with users that no other test uses."""
    one = Stage(browser, server, 1 + 100 * next(_numbers))
    yield one
    one.close()
