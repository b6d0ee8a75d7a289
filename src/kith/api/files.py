"""/media: the files of pictures and videos, for whoever knows their addresses. No credentials: browsers send none
with an image.

What is there never changes, so it may be kept for ever. No browser runs anything in it, whatever it holds.
Files of a bucket do not pass through here: who asks is sent there.
Limit: one range a request; more are answered with the whole file, as HTTP allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from litestar import Request, Response, Router, get
from litestar.di import Provide
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.openapi.spec.enums import OpenAPIFormat
from litestar.params import PathParameter

from kith.api.answers import ErrorAnswer
from kith.api.backend import Backend
from kith.api.media import FILES_PATH
from kith.core.errors import RangeNotThere
from kith.media.library import no_file
from kith.media.media import CONTENT_TYPES, KEY, THUMBNAIL

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_TYPES: dict[str, str] = dict(CONTENT_TYPES.items()) | {THUMBNAIL: CONTENT_TYPES["webp"]}
_SAFE = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": "public, max-age=31536000, immutable",
    "accept-ranges": "bytes",
}
_LINKED = "private, max-age=1800"  # half of the time that an address of a bucket holds


class Wanted(NamedTuple):
    """The part of a file that a request asks for: from `start` (below 0: before the end) to `end`."""

    start: int
    end: int | None = None

    def within(self, size: int) -> tuple[int, int]:
        """The same of a file of `size` bytes; empty where it has none of them."""
        start = max(0, size + self.start) if self.start < 0 else self.start
        return start, size if self.end is None else min(self.end, size)


class _File(Response[None]):
    """Bytes of a file, which granian reads and sends."""

    def __init__(self, path: Path, start: int, end: int, status: int, headers: dict[str, str]) -> None:
        super().__init__(None, status_code=status, headers=headers)
        self._message = {"type": "http.response.pathsend", "path": str(path), "start": start, "end": end}

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """See `bridge`."""
        head = [(name.encode("latin-1"), str(value).encode("latin-1")) for name, value in self.headers.items()]

        async def send_file(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": self.status_code, "headers": head})
            await send(self._message)

        return send_file


def _says(description: str, shape: type | None = None) -> ResponseSpec:
    return ResponseSpec(shape, generate_examples=False, description=description)


_RESPONSES = {
    206: _says("The part that was asked for."),
    304: _says("It is what you have."),
    307: _says("It lies in a bucket, there."),
    400: _says("The request cannot be served as written.", ErrorAnswer),
    404: _says("There is no such file.", ErrorAnswer),
    416: _says("The file does not reach so far.", ErrorAnswer),
    503: _says("Not now. See Retry-After.", ErrorAnswer),
}


@dataclass
class FileOperation(Operation):
    """How the documentation shows a file."""

    def __post_init__(self) -> None:
        binary = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY))
        for status, response in (self.responses or {}).items():
            if status in ("200", "206") and isinstance(response, OpenAPIResponse):
                response.content = dict.fromkeys(CONTENT_TYPES.values(), binary)


@get(
    "/{folder:str}/{file:str}",
    summary="A file of a picture or video",
    name="media_file",
    security=[],
    operation_class=FileOperation,
    responses=_RESPONSES,
)
async def media_file(
    backend: Backend,
    request: Request[Any, Any, Any],
    folder: Annotated[str, PathParameter(description="First part of the address.")],
    file: Annotated[str, PathParameter(description="Second part of the address.")],
) -> Response[Any]:
    """Addresses come with posts and profiles and cannot be guessed. Takes `Range` and `If-None-Match`. Where the
    files lie in a bucket, 307 leads there for an hour.
    """
    key, tag = f"{folder}/{file}", f'"{file}"'
    named = KEY.fullmatch(key)
    if named is None:
        raise no_file()
    place = await backend.media.locate(key)
    headers = {**_SAFE, "etag": tag}
    if _has(request.headers.get("if-none-match"), tag):
        return Response(None, status_code=304, headers=headers)
    if isinstance(place, str):
        return Response(None, status_code=307, headers={"location": place, "cache-control": _LINKED})
    try:
        size = place.stat().st_size
    except FileNotFoundError:  # deleted just now
        raise no_file() from None
    wanted = wanted_of(request.headers.get("range"), request.headers.get("if-range") in (None, tag))
    start, end = (0, size) if wanted is None else wanted.within(size)
    if wanted is not None and start >= end:
        raise RangeNotThere(f"this file has {size} bytes; ask for some of them", size=size)
    headers |= {
        "content-disposition": f'inline; filename="{file.partition("-")[0]}.{named[2]}"',
        "content-length": str(end - start),
        "content-type": _TYPES[named[2]],
    }
    if wanted is None:
        return _File(place, start, end, 200, headers)
    return _File(place, start, end, 206, {**headers, "content-range": f"bytes {start}-{end - 1}/{size}"})


def _has(known: str | None, tag: str) -> bool:
    """Whether a client that knows these versions (If-None-Match) has this one; ours never change."""
    tags = [one.strip().removeprefix("W/") for one in (known or "").split(",")]
    return "*" in tags or tag in tags


def wanted_of(asked: str | None, unchanged: bool) -> Wanted | None:
    """The part that a Range header names; None for the whole: no header, not `unchanged`, or not one we answer."""
    found = _RANGE.fullmatch(asked or "")
    if found is None or not unchanged or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        return Wanted(-int(last)) if int(last) else Wanted(1 << 62)  # the last 0 bytes are not there
    if last and int(last) < int(first):
        return None
    return Wanted(int(first), int(last) + 1 if last else None)


def router(backend: Backend) -> Router:
    """The route over a wired backend."""
    return Router(
        FILES_PATH,
        route_handlers=[media_file],
        dependencies={"backend": Provide(lambda: backend, sync_to_thread=False)},
    )
