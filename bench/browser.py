"""Starts a real Chromium for measures and for the scenes in `tests/web`.

Playwright drives it; `make test-web` installs it.
`python -m bench.browser` says whether one starts on this machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


class NoBrowser(Exception):
    """No Chromium starts on this machine; the message says what is missing."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium that KITH_BROWSER names, or one that is installed under one of NAMES."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ModuleNotFoundError:
        raise NoBrowser("Playwright is not installed: `make test-web` does it") from None
    named = os.environ.get("KITH_BROWSER")
    path = next(filter(None, map(shutil.which, (named,) if named else NAMES)), None)
    if path is None:
        raise NoBrowser(f"there is no {named or 'Chromium'}: install the package chromium")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            raise NoBrowser(f"{path} does not start: {error}") from error
        try:
            yield browser
        finally:
            browser.close()


def main() -> None:
    """Start a Chromium, and print which."""
    try:
        with chromium() as browser:
            print(f"Chromium {browser.version}")
    except NoBrowser as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
