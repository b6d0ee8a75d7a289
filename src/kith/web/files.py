"""A folder of pages, scripts and styles, read once: they are few and small, and do not change while a process runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""By ending; a file with another one is not shown."""
SAFE = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-cache"),
)
"""Headers of each: nothing inline runs, nothing comes from elsewhere, no other page frames it, and whoever has it asks
whether it is still the same."""


class WebFile(NamedTuple):
    """One file, as it is answered."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    tag: str  # its ETag


def folder(name: str) -> Mapping[str, WebFile]:
    """The files of a folder beside this one, by name."""
    files = sorted((Path(__file__).parent / name).iterdir())
    return {file.name: _read(file) for file in files if file.suffix in CONTENT_TYPES}


def _read(file: Path) -> WebFile:
    body = file.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return WebFile(body, (*SAFE, ("content-type", CONTENT_TYPES[file.suffix]), ("etag", tag)), tag)
