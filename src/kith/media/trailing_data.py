"""Finds where the bytes of an image end, and refuses files in which something else follows.

A decoder stops at the end of the image and ignores what follows. So a file can be an image and at the same time an
archive or a web page. Such a file is refused here, and so is one that was cut off. What cameras append to a JPEG (more
views, a short film, notes) is accepted, but never stored.
"""

from __future__ import annotations

import re

from kith.core.errors import InvalidContent
from kith.media.media import Format

PARTS_MAX = 200_000
"""Segments, chunks or blocks of a file. A GIF of 20 MB has 80,000; a file with more is treated as an attack."""
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length
_SCAN, _END = 0xDA, 0xD9
_PNG_HEAD, _RIFF_HEAD = 8, 8


def check_trailing_data(data: bytes, form: Format) -> int:
    """The number of scans of a JPEG (1 for other formats).

    InvalidContent if the file is cut off, or if something that no camera appends follows the image.
    """
    scans = 1
    try:
        match form:
            case "jpg":
                end, scans = _jpeg(data)
            case "png":
                end = _png(data)
            case "gif":
                end = _gif(data)
            case _:
                end = _RIFF_HEAD + int.from_bytes(data[4:8], "little")
    except IndexError:
        end = len(data) + 1
    if end > len(data):
        raise InvalidContent("this image is cut off; send the whole file", format=form)
    behind = data[end:]
    if behind.strip(b"\0") and not (form == "jpg" and _is_camera_data(behind)):
        raise InvalidContent(
            f"{len(behind)} bytes follow the end of this image, which belong to something else; send the image alone",
            format=form,
        )
    return scans


def _is_camera_data(behind: bytes) -> bool:
    """Whether a camera appended these bytes: another view (MPF), a short film (motion photo), Samsung's notes."""
    return behind.startswith(b"\xff\xd8\xff") or behind[4:8] == b"ftyp" or behind.endswith(b"SEFT")


def _jpeg(data: bytes) -> tuple[int, int]:
    """Where a JPEG ends, and its number of scans."""
    offset, scans = 2, 0
    for _ in range(PARTS_MAX):
        while data[offset] == 0xFF == data[offset + 1]:  # padding
            offset += 1
        marker = data[offset + 1]
        if data[offset] != 0xFF:
            raise InvalidContent("this JPEG is damaged; save it again", format="jpg")
        if marker == _END:
            return offset + 2, scans
        offset += 2 if marker in _MARKERS_WITHOUT_LENGTH else 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
        if marker == _SCAN:
            scans += 1
            following = _MARKER.search(data, offset)
            if following is None:
                raise IndexError
            offset = following.start()
    raise _too_many()


def _png(data: bytes) -> int:
    offset = _PNG_HEAD
    for _ in range(PARTS_MAX):
        size, kind = int.from_bytes(data[offset : offset + 4], "big"), data[offset + 4 : offset + 8]
        offset += 12 + size
        if kind == b"IEND" or offset > len(data):
            return offset
    raise _too_many()


def _gif(data: bytes) -> int:
    offset = 13 + _palette(data[10])
    in_blocks = False  # sub-blocks follow one another until an empty one
    for _ in range(PARTS_MAX):
        if in_blocks:
            in_blocks = data[offset] != 0
            offset += 1 + data[offset]
        elif data[offset] == 0x3B:
            return offset + 1
        elif data[offset] == 0x21:  # extension: its label, then sub-blocks
            offset, in_blocks = offset + 2, True
        elif data[offset] == 0x2C:  # image: position, palette, code size, then sub-blocks
            offset, in_blocks = offset + 11 + _palette(data[offset + 9]), True
        else:
            raise InvalidContent("this GIF is damaged; save it again", format="gif")
    raise _too_many()


def _palette(flags: int) -> int:
    """The size in bytes of the colour table that these flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _too_many() -> InvalidContent:
    return InvalidContent(f"this image has more than {PARTS_MAX} parts; save it again", max=PARTS_MAX)
