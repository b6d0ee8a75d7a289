"""The files of a page: modules, styles, one document. Read once, compressed once, sent under strict headers.

The browser asks each time whether a file changed (ETag), so a new version of Kith is shown at once. Nothing in them is
anybody's: what people may see comes from the API alone, to who has a token.
Limit: files lie in the folder itself or one below; what is asked for and is not there is None.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import kith

DOCUMENT = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PACKAGE = Path(kith.__file__).parent
APP, CONSOLE = _PACKAGE / "web" / "app", _PACKAGE / "web" / "console"


def client_folder() -> Path:
    """The modules of the JavaScript client: in a wheel they lie beside the page, in a checkout where they are made."""
    packed = _PACKAGE / "web" / "client"
    return packed if packed.is_dir() else _PACKAGE.parents[1] / "clients" / "js" / "src"


class PageFile(NamedTuple):
    """A file as it is sent."""

    body: bytes
    packed: bytes  # gzip
    content_type: str
    tag: str


class Site:
    """The files of one page, by name (`views/home.js`)."""

    def __init__(self, folder: Path, beside: Mapping[str, Path], images: tuple[str, ...] = ()) -> None:
        """`beside`: further folders, by the name under which they are shown. `images`: other origins that pictures and
        videos may come from.
        """
        names = {path.relative_to(folder).as_posix(): path for path in _shown(folder)}
        for name, other in beside.items():
            names |= {f"{name}/{path.relative_to(other).as_posix()}": path for path in _shown(other)}
        self._files = {name: _read(path) for name, path in sorted(names.items())}
        self._safe = _headers(images)

    @property
    def names(self) -> list[str]:
        """Every file."""
        return list(self._files)

    def find(self, name: str) -> PageFile | None:
        """A file by its name."""
        return self._files.get(name)

    def headers(self, name: str, base: str) -> list[tuple[str, str]]:
        """The headers of a file of the page at `base`. With the document go the names of all modules, so that they are
        fetched at once and not one after the other.
        """
        file = self._files[name]
        headers = [*self._safe, ("content-type", file.content_type), ("etag", file.tag)]
        if name == DOCUMENT:
            modules = [one for one in self._files if one.endswith(".js")]
            headers.append(("link", ", ".join(f'<{base}/{one}>; rel="modulepreload"' for one in modules)))
        return headers


def _shown(folder: Path) -> list[Path]:
    return [path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.suffix in _TYPES]


def _read(path: Path) -> PageFile:
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return PageFile(body, gzip.compress(body, mtime=0), _TYPES[path.suffix], tag)


def _headers(images: tuple[str, ...]) -> list[tuple[str, str]]:
    shown = " ".join(("'self'", "blob:", *images))
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src {shown}; "
        f"media-src {shown}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-cache"),
        ("vary", "accept-encoding"),
    ]
