"""Serves the files of a page: modules, styles, one document. Each is read and compressed once, and has strict headers.

The document's script, `main.js`, is sent joined with all modules that it imports (`joining`); modules are not sent
alone. The browser revalidates a file on each use (ETag), so a new version of Kith shows at once. The files hold nothing
personal: personal data comes from the API only, and needs a token. Limits: modules must be in the folder itself or one
level below, other files in the folder itself.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import kith
from kith.web.joining import joined

DOCUMENT, SCRIPT, MAP = "index.html", "main.js", "main.js.map"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".map": "application/json",
}
_PACKAGE = Path(kith.__file__).parent
APP, CONSOLE = _PACKAGE / "web" / "app", _PACKAGE / "web" / "console"


def client_folder() -> Path:
    """Folder of the JavaScript client's modules: beside the page in a wheel, `clients/js/src` in a checkout."""
    packed = _PACKAGE / "web" / "client"
    return packed if packed.is_dir() else _PACKAGE.parents[1] / "clients" / "js" / "src"


class PageFile(NamedTuple):
    """A file as it is sent."""

    body: bytes
    packed: bytes  # gzip
    content_type: str
    tag: str


class Site:
    """The files of one page, by name (`main.js`)."""

    def __init__(self, folder: Path, beside: Mapping[str, Path], images: tuple[str, ...] = ()) -> None:
        """`beside`: further folders of modules, by the name under which they are imported. `images`: other allowed
        origins of pictures and videos.
        """
        modules = {path.relative_to(folder).as_posix(): path for path in _modules(folder)}
        for name, other in beside.items():
            modules |= {f"{name}/{path.relative_to(other).as_posix()}": path for path in _modules(other)}
        page = joined(SCRIPT, {name: path.read_text() for name, path in modules.items()}, MAP)
        shown = [path for path in folder.iterdir() if path.suffix in _TYPES and path.name not in modules]
        sent = {path.name: path.read_bytes() for path in shown} | {SCRIPT: page.script, MAP: page.source_map}
        self._files = {name: _file(name, body) for name, body in sorted(sent.items())}
        self._safe = _headers(images)

    @property
    def names(self) -> list[str]:
        """Names of all files."""
        return list(self._files)

    def find(self, name: str) -> PageFile | None:
        """A file by its name; None if there is none."""
        return self._files.get(name)

    def headers(self, name: str, base: str) -> list[tuple[str, str]]:
        """The headers of a file of the page at `base`. The document's headers link its script, so that the browser
        fetches the script before it has parsed the document.
        """
        file = self._files[name]
        headers = [*self._safe, ("content-type", file.content_type), ("etag", file.tag)]
        if name == DOCUMENT:
            headers.append(("link", f'<{base}/{SCRIPT}>; rel="modulepreload"'))
        return headers


def _modules(folder: Path) -> list[Path]:
    return [*folder.glob("*.js"), *folder.glob("*/*.js")]


def _file(name: str, body: bytes) -> PageFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return PageFile(body, gzip.compress(body, mtime=0), _TYPES[Path(name).suffix], tag)


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
