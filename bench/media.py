"""Pictures and videos: uploads over HTTP, decoding alone, serving files, and how uploads slow other requests."""

from __future__ import annotations

import functools
import io
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from bench.figures import KEY, Figure, free_port, server
from bench.load import request, run
from kith.media.images import read_image
from kith.media.library import MediaLimits
from kith.run.config import Settings

SECONDS = 6.0
_UPLOADS, _PICTURES = 24, 40
_API = "/api/v1"


def media(folder: Path) -> list[Figure]:
    """One API process, files in a local folder, everything synced."""
    settings = Settings(data=str(folder / "media"), port=free_port(), api_keys=(KEY,), workers=1)
    photo, film = _photo(4032, 3024), _film(50 << 20)
    says = f"made-up photo of 4032 x 3024, {len(photo) / 1e6:.1f} MB of JPEG"
    figures = [*_decoding(photo, says)]
    with server(settings), _client(settings) as http:
        alone = [_timed(http, photo) for _ in range(_UPLOADS)]
        figures += [
            Figure("upload-photo-p50", float(np.percentile(alone, 50)), "ms", "", data=says),
            Figure("upload-photo-max", max(alone), "ms", "", data=says),
            Figure("upload-video", min(_timed(http, film) for _ in range(3)), "ms", "", data="MP4 of 50 MB"),
        ]
        shown = http.post(f"{_API}/media", files={"file": ("x", _photo(1080, 1350))}).json()
        for name, url in (("serve-image", shown["url"]), ("serve-thumbnail", shown["thumbnailUrl"])):
            size = len(http.get(url).content)
            load = run(settings.port, functools.partial(_gets, url), connections=16, seconds=SECONDS)
            figures.append(Figure(name, load.rate, "files/s", "", data=f"{size / 1e3:.0f} kB, 16 connections"))
        checks = functools.partial(_gets, f"{_API}/graph/follows/1/2")
        quiet = run(settings.port, checks, connections=4, seconds=SECONDS)
        with _Uploading(settings, photo):
            busy = run(settings.port, checks, connections=4, seconds=SECONDS)
    for name, load in (("check-alone", quiet), ("check-beside-uploads", busy)):
        figures += [
            Figure(f"{name}-p50", load.p50_ms, "ms", "", data="4 connections"),
            Figure(f"{name}-p99", load.p99_ms, "ms", "", data="4 connections; uploads: 2 at once, without pause"),
        ]
    return figures


def _decoding(photo: bytes, says: str) -> list[Figure]:
    """Decoding, scaling, encoding and thumbnail in one thread, without HTTP; in CPU time."""
    figures = []
    for name, data, what in (
        ("photos", photo, says),
        ("pictures", _photo(1080, 1350), "photo of 1080 x 1350"),
    ):
        limits, started = MediaLimits(), time.process_time()
        for _ in range(_PICTURES):
            read_image(data, "jpg", pixels_max=limits.pixels_max, side_max=limits.side_max)
        rate = _PICTURES / (time.process_time() - started)
        figures.append(Figure(f"thumbnails-of-{name}", rate, "images/s a core", "", data=what))
    return figures


def _photo(width: int, height: int) -> bytes:
    """Large shapes with noise like a camera's."""
    random, out = np.random.default_rng(1), io.BytesIO()
    shapes = Image.fromarray(random.integers(0, 255, (30, 40, 3), dtype=np.uint8)).resize((width, height))
    grain = random.normal(0, 7, (height, width, 3))
    Image.fromarray((np.asarray(shapes) + grain).clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=88)
    return out.getvalue()


def _film(size: int) -> bytes:
    """An MP4 with one video track and `size` bytes of samples."""

    def box(kind: bytes, *parts: bytes) -> bytes:
        data = b"".join(parts)
        return (8 + len(data)).to_bytes(4, "big") + kind + data

    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, "big") for value in values)

    def film(at: int) -> bytes:
        head = box(b"tkhd", bytes(76), numbers(1280 << 16, 720 << 16))
        sizes, runs = box(b"stsz", numbers(0, size, 1)), box(b"stsc", numbers(0, 1, 1, 1, 1))
        table = box(b"minf", box(b"stbl", sizes, runs, box(b"stco", numbers(0, 1, at))))
        track = box(b"trak", head, box(b"mdia", box(b"hdlr", bytes(8), b"vide", bytes(13)), table))
        return box(b"ftyp", b"isom", bytes(4), b"mp42") + box(b"moov", track) + box(b"mdat")

    head = film(len(film(0)))
    return head[:-8] + (8 + size).to_bytes(4, "big") + b"mdat" + bytes(size)


def _client(settings: Settings) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{settings.port}",
        headers={"Authorization": f"Bearer {KEY}", "X-Kith-User": "1"},
        timeout=60,
    )


def _timed(http: httpx.Client, data: bytes) -> float:
    """Milliseconds of one upload, from its first byte to its answer."""
    started = time.perf_counter()
    http.post(f"{_API}/media", files={"file": ("x", data)}).raise_for_status()
    return (time.perf_counter() - started) * 1000


def _gets(path: str) -> list[bytes]:
    return [request("GET", path, KEY)]


class _Uploading:
    """A context in which two uploads run at any time, without pause."""

    def __init__(self, settings: Settings, photo: bytes) -> None:
        self._settings, self._photo, self._stop = settings, photo, threading.Event()
        self._threads = [threading.Thread(target=self._loop) for _ in range(2)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _loop(self) -> None:
        with _client(self._settings) as http:
            while not self._stop.is_set():
                _timed(http, self._photo)
