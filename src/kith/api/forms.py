"""Reads the multipart form of an upload: one file and one text, streamed, never held in memory whole.

Text fields are limited while they are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, NamedTuple, cast

import multipart

from kith.core.errors import BadRequest, BodyTooLarge, InvalidContent, StoreFull
from kith.media.media import ALT_TEXT_CHARS_MAX

FORM_BYTES = 64 << 10
"""Limit of everything in a form but the file: the text and the headers of its parts, in bytes."""
_IN_MEMORY_BYTES = 1 << 20  # a larger file is spooled to a temporary file
_TEXT_BYTES_MAX = 4 * ALT_TEXT_CHARS_MAX
_FILE, _TEXT = "file", "altText"


class Upload(NamedTuple):
    """The parsed form. `file` may be read and changed; it is deleted when the request ends."""

    file: BinaryIO
    size: int  # bytes
    alt_text: str


@contextlib.asynccontextmanager
async def read_upload_form(content_type: str, body: AsyncIterator[bytes], bytes_max: int) -> AsyncIterator[Upload]:
    """The upload in a multipart/form-data body. Errors: BadRequest; BodyTooLarge as soon as the file exceeds
    `bytes_max`; StoreFull if the folder for temporary files is full.
    """
    kind, options = multipart.parse_options_header(content_type)
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise BadRequest("send the file as multipart/form-data, with the fields `file` and, if you like, `altText`")
    with SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
        reader = _Form(cast(BinaryIO, file), bytes_max)
        try:
            with multipart.PushMultipartParser(
                options["boundary"],
                max_segment_count=2,
                header_charset="latin-1",  # accepts file names in any encoding
            ) as parser:
                async for chunk in body:
                    for part in parser.parse(chunk):
                        reader.take(part)
        except multipart.MultipartError as error:
            raise BadRequest(f"the form cannot be read: {error}") from None
        except OSError:
            raise StoreFull("no room for an upload in the folder of temporary files; make room there") from None
        yield reader.done()


class _Form:
    """Collects the parts of a form."""

    def __init__(self, file: BinaryIO, bytes_max: int) -> None:
        self._file, self._bytes_max = file, bytes_max
        self._size, self._text = 0, bytearray()
        self._part_names: list[str | None] = []

    def take(self, part: multipart.MultipartSegment | bytes | bytearray | None) -> None:
        """Take the next piece from the parser: the head of a part, some of its content, or None at its end."""
        if isinstance(part, multipart.MultipartSegment):
            if part.name not in (_FILE, _TEXT) or part.name in self._part_names:
                raise BadRequest(f"this form takes `file` and `altText`, once each, and not {part.name!r}")
            self._part_names.append(part.name)
        elif part and self._part_names[-1] == _FILE:
            self._size += len(part)
            if self._size > self._bytes_max:
                raise BodyTooLarge(f"the file has more than {self._bytes_max} bytes", max=self._bytes_max)
            self._file.write(part)
        elif part:
            self._text += part
            if len(self._text) > _TEXT_BYTES_MAX:
                raise InvalidContent(f"altText takes at most {ALT_TEXT_CHARS_MAX} characters", max=ALT_TEXT_CHARS_MAX)

    def done(self) -> Upload:
        """The complete form. BadRequest if it has no file."""
        if _FILE not in self._part_names:
            raise BadRequest("the form has no field `file`")
        try:
            text = self._text.decode()
        except UnicodeDecodeError:
            raise InvalidContent("altText is not valid UTF-8", field=_TEXT) from None
        return Upload(self._file, self._size, text)
