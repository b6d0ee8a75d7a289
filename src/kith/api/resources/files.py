"""/media: serves the files of pictures and videos to everyone who knows their address. It takes no credentials, because
browsers send none with an image.

A file never changes, so clients may cache it for ever. The headers keep browsers from running any script in a file.
Files in a bucket are not proxied: the client is redirected there. Limit: one range per request; a request for several
gets the whole file, as HTTP allows.
"""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from msgspec import Meta

from kith.api.answers import FileAnswer, RawAnswer
from kith.api.call import Call
from kith.api.operations import get
from kith.core.errors import RangeNotSatisfiable
from kith.media.library import MediaLibrary, no_file
from kith.media.media import CONTENT_TYPES, KEY, THUMBNAIL

FILES_PATH = "/media"
"""The path under which this server serves the files."""
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_TYPES: dict[str, str] = dict(CONTENT_TYPES.items()) | {THUMBNAIL: CONTENT_TYPES["webp"]}
_SAFE = [
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "sandbox; default-src 'none'"),
    ("cross-origin-resource-policy", "cross-origin"),
    ("cache-control", "public, max-age=31536000, immutable"),
    ("accept-ranges", "bytes"),
]
_LINKED = ("cache-control", "private, max-age=1800")  # half the time for which an address in a bucket is valid
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_BINARY = {content_type: _BYTES for content_type in CONTENT_TYPES.values()}  # noqa: C420 - nobody changes it
_DOCUMENT = {
    "responses": {
        "200": {"description": "The file.", "content": _BINARY},
        "206": {"description": "The part that was asked for.", "content": _BINARY},
        "304": {"description": "The client's copy is current."},
        "307": {"description": "The file is in a bucket, at this address."},
    }
}


class ByteRange(NamedTuple):
    """The byte range of a request: from `start` (negative: counted from the end) to `end`, exclusive."""

    start: int
    end: int | None = None

    def within(self, size: int) -> tuple[int, int]:
        """Start and end of this range in a file of `size` bytes. The range is empty if it starts past the end of the
        file.
        """
        start = max(0, size + self.start) if self.start < 0 else self.start
        return start, size if self.end is None else min(self.end, size)


class FilesResource:
    """The files of pictures and videos."""

    def __init__(self, media: MediaLibrary) -> None:
        self._media = media

    @get(
        FILES_PATH + "/{folder}/{file}",
        "A file of a picture or video",
        absolute=True,
        callers="anyone",
        errors=(400, 404, 416, 503),
        openapi=_DOCUMENT,
    )
    async def media_file(
        self,
        call: Call,
        folder: Annotated[str, Meta(description="First part of the file's address.")],
        file: Annotated[str, Meta(description="Second part of the file's address.")],
    ) -> FileAnswer | RawAnswer:
        """Addresses come with posts and profiles and cannot be guessed. Supports `Range` and `If-None-Match`. If the
        files are stored in a bucket, the answer is 307 with an address there that is valid for an hour.
        """
        key, tag = f"{folder}/{file}", f'"{file}"'
        matched = KEY.fullmatch(key)
        if matched is None:
            raise no_file()
        place = await self._media.locate(key)
        headers = [*_SAFE, ("etag", tag)]
        if has_version(call.header("if-none-match"), tag):
            return RawAnswer(b"", headers, 304)
        if isinstance(place, str):
            return RawAnswer(b"", [("location", place), _LINKED], 307)
        try:
            size = place.stat().st_size
        except FileNotFoundError:  # deleted just now
            raise no_file() from None
        byte_range = wanted_of(call.header("range"), call.header("if-range") in (None, tag))
        start, end = (0, size) if byte_range is None else byte_range.within(size)
        if byte_range is not None and start >= end:
            raise RangeNotSatisfiable(f"this file has {size} bytes; ask for some of them", size=size)
        headers += [
            ("content-disposition", f'inline; filename="{file.partition("-")[0]}.{matched[2]}"'),
            ("content-type", _TYPES[matched[2]]),
        ]
        if byte_range is None:
            return FileAnswer(place, start, end, 200, headers, no_file())
        headers.append(("content-range", f"bytes {start}-{end - 1}/{size}"))
        return FileAnswer(place, start, end, 206, headers, no_file())


def has_version(header: str | None, tag: str) -> bool:
    """Whether an If-None-Match header lists this version of the file."""
    tags = [part.strip().removeprefix("W/") for part in (header or "").split(",")]
    return "*" in tags or tag in tags


def wanted_of(header: str | None, unchanged: bool) -> ByteRange | None:
    """The byte range that a Range header asks for. None for the whole file: there is no header, `unchanged` is false,
    or the header is one that we do not support.
    """
    matched = _RANGE.fullmatch(header or "")
    if matched is None or not unchanged or not any(matched.groups()):
        return None
    first, last = matched.groups()
    if not first:
        return ByteRange(-int(last)) if int(last) else ByteRange(1 << 62)  # the last 0 bytes are not there
    if last and int(last) < int(first):
        return None
    return ByteRange(int(first), int(last) + 1 if last else None)
