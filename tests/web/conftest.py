"""A server and a browser for the scenes. Without KITH_BROWSER, as in `make test`, there is nothing to collect here."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from servers import Server, serving

if "KITH_BROWSER" in os.environ:
    from playwright.sync_api import Browser, sync_playwright
    from scenes import Stage

else:
    collect_ignore_glob = ["test_*.py"]

_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or what KITH_BROWSER names."""
    named = os.environ["KITH_BROWSER"]
    found = shutil.which(named) or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    assert found, "no Chromium was found; see tests/web/prepare.sh"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all scenes share."""
    with serving(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def stage(browser: Any, server: Server) -> Iterator[Stage]:
    """People whom no other scene has met, and windows for them."""
    one = Stage(browser, server, 1 + 100 * next(_numbers))
    yield one
    one.close()
