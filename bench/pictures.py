"""Takes the pictures of the README: `python -m bench.pictures [MINUTES]` runs a demo for that long and photographs it.

The demo is served twice, because media are measured at a start: only the second start finds the media of the first, and
can compare them with the day before, when the new community had none.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx
import msgspec
from PIL import Image

from bench.browser import chromium
from bench.figures import free_port
from kith.core.clock import wall_ms
from kith.run.measures.media_size import Measure

IMAGES = Path(__file__).parents[1] / "docs" / "images"
_DAY_MS = 86_400_000
_BUSIEST, _SWING_S = 25, 400.0
_USERS = 50_000
_DRAWN_MS = 2_000


def main() -> None:
    """Serve a demo, send it requests for some minutes, and take both pictures."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "demo"
        subprocess.run([*_kith("demo", "--once"), *_at(data, free_port())], check=True)
        (data / "media-size.json").write_bytes(msgspec.json.encode([Measure(wall_ms() - _DAY_MS, 0)]))
        with _served(data, free_port()) as (base, key, link):
            _live(base, key, minutes)
            _take(base, key, link)


def _kith(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kith", *arguments]


def _at(data: Path, port: int) -> list[str]:
    return ["--data", str(data), "--port", str(port)]


@contextmanager
def _served(data: Path, port: int) -> Iterator[tuple[str, str, str]]:
    """Run the demo; once it prints its invitation, yields its address, server key and link to the reader."""
    environment = {**os.environ, "COLUMNS": "2000", "PYTHONUNBUFFERED": "1"}
    command = [*_kith("demo"), *_at(data, port)]
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(command, stdout=said, env=environment) as demo:
        try:
            yield f"http://127.0.0.1:{port}", *_invited(said, demo)
        finally:
            demo.terminate()


def _invited(said: IO[str], demo: subprocess.Popen[bytes]) -> tuple[str, str]:
    while demo.poll() is None:
        said.seek(0)
        words = said.read()
        key, link = re.search(r"Server key for this run: (\S+)", words), re.search(r"http\S+/app#token=\S+", words)
        if key and link:
            return key[1], link[0]
        time.sleep(1)
    raise SystemExit("the demo ended before it was served")


def _live(base: str, key: str, minutes: float) -> None:
    """Read homes and follow for some minutes, at a rate that rises and falls."""
    ends_s, users = time.monotonic() + 60 * minutes, itertools.cycle(range(1, _USERS, 37))
    with httpx.Client(base_url=f"{base}/api/v1", headers={"Authorization": f"Bearer {key}"}) as http:
        while (now_s := time.monotonic()) < ends_s:
            acting = {"X-Kith-User": str(next(users))}
            http.get("/feed", headers=acting)
            http.post(f"/users/{next(users)}/follow", headers=acting)
            busy = (1.2 + math.sin(2 * math.pi * now_s / _SWING_S)) / 2.2
            time.sleep(2 / (_BUSIEST * busy))


def _take(base: str, key: str, link: str) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 860}, color_scheme="dark")
        page.goto(f"{base}/console")
        page.get_by_label("Server key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Media more than a day before").wait_for()
        _keep(page.screenshot(), "console")
        page = browser.new_page(viewport={"width": 760, "height": 860})
        page.goto(link)
        page.locator("kith-post img").first.wait_for()
        page.wait_for_timeout(_DRAWN_MS)
        _keep(page.screenshot(), "reader")


def _keep(png: bytes, name: str) -> None:
    Image.open(io.BytesIO(png)).save(IMAGES / f"{name}.webp", quality=80)


if __name__ == "__main__":
    main()
