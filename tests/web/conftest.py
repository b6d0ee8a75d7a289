"""A browser for the scenes. Without KITH_BROWSER, as in `make test`, there is nothing to collect here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

if "KITH_BROWSER" in os.environ:
    from playwright.sync_api import Browser, sync_playwright
else:
    collect_ignore_glob = ["test_*.py"]

_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or what KITH_BROWSER names."""
    found = shutil.which(os.environ["KITH_BROWSER"]) or shutil.which("chromium")
    assert found, "no Chromium was found"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield running
        running.close()
