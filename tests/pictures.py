"""Makes pictures and videos for tests: harmless and hostile ones."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

PLACE = b"48.8584N-002.2945E-Paris"
"""The place where a picture was taken. It must never be served."""
PNG_HEAD = b"\x89PNG\r\n\x1a\n"
MATRIX = struct.pack(">9I", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
SAMPLES = bytes(range(200)) * 2
"""The samples of `mp4()`."""
TURNED = struct.pack(">9I", 0, 1 << 16, 0, 0xFFFF0000, 0, 0, 0, 0, 1 << 30)


def drawing(width: int = 120, height: int = 80, seed: int = 1) -> Image.Image:
    """A picture with large shapes. The same seed gives the same shapes at any size."""
    spots = np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(spots).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image | None = None, form: str = "JPEG", **options: Any) -> bytes:
    """An image as a file."""
    out = io.BytesIO()
    (image or drawing()).save(out, form, **options)
    return out.getvalue()


def decoded(data: bytes) -> Image.Image:
    """A file as an image."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def photo(width: int = 120, height: int = 80, orientation: int = 1) -> bytes:
    """A JPEG as a phone makes it: EXIF with an orientation and a place, and a comment."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = PLACE.decode()
    exif.get_ifd(0x8825)[0x001D] = PLACE.decode()
    return encoded(drawing(width, height), exif=exif, comment=PLACE, quality=90)


def animation(frames: int = 3, width: int = 60, height: int = 40, form: str = "GIF", **options: Any) -> bytes:
    """An animation of different frames."""
    first, *rest = (drawing(width, height, seed) for seed in range(frames))
    return encoded(first, form, save_all=True, append_images=rest, duration=70, **options)


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width: int = 30_000, height: int = 30_000) -> bytes:
    """A PNG of a few hundred bytes that announces a huge image."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return PNG_HEAD + header + chunk(b"IDAT", zlib.compress(b"\0" * 1_000)) + chunk(b"IEND", b"")


# --- MP4 -----------------------------------------------------------------------------------------------------


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box of an MP4."""
    data = b"".join(parts)
    return struct.pack(">I", 8 + len(data)) + kind + data


def track(
    handler: bytes = b"vide",
    width: int = 320,
    height: int = 180,
    matrix: bytes = MATRIX,
    *more: bytes,
    table: bytes = b"",
) -> bytes:
    """A track. `table`: its sample table; none of its samples are there unless it says so."""
    head = box(b"tkhd", bytes(40), matrix, struct.pack(">II", width << 16, height << 16))
    media = box(
        b"mdia",
        box(b"mdhd", bytes(24)),
        box(b"hdlr", bytes(8), handler, bytes(13)),
        box(b"minf", table or samples(0, [])),
    )
    return box(b"trak", head, media, *more)


def mp4(*tracks: bytes, brand: bytes = b"isom", notes: bytes = b"", behind: bytes = b"") -> bytes:
    """An MP4 with a place in `moov`, and 400 bytes of samples at its end. `tracks`: of one that these are samples of,
    unless others are named.
    """
    about = box(b"udta", box(b"\xa9xyz", PLACE))

    def film(at: int) -> bytes:
        return b"".join((
            box(b"ftyp", brand, bytes(4), b"isommp42"),
            box(b"moov", box(b"mvhd", bytes(100)), *(tracks or (track(table=samples(at, [400])),)), about, notes),
            box(b"mdat", SAMPLES),
            behind,
        ))  # fmt: skip

    return film(film(0).index(SAMPLES))


def samples(at: int, sizes: list[int]) -> bytes:
    """The sample table of a track with all samples in one chunk."""
    return box(
        b"stbl",
        box(b"stsz", struct.pack(f">3I{len(sizes)}I", 0, 0, len(sizes), *sizes)),
        box(b"stsc", struct.pack(">5I", 0, 1, 1, len(sizes), 1)),
        box(b"stco", struct.pack(">3I", 0, 1, at)),
    )


# --- WebM ----------------------------------------------------------------------------------------------------

UNKNOWN = b"\x01" + b"\xff" * 7
TAGS, CUES, CLUSTER, SEGMENT = 0x1254C367, 0x1C53BB6B, 0x1F43B675, 0x18538067


def element(kind: int, *parts: bytes, size: bytes | None = None) -> bytes:
    """An element of a WebM."""
    data = b"".join(parts)
    length = (1 << 28 | len(data)).to_bytes(4, "big") if size is None else size
    return kind.to_bytes((kind.bit_length() + 7) // 8, "big") + length + data


def webm(
    *more: bytes, live: bool = False, doc_type: bytes = b"webm", tracks: bytes | None = None, behind: bytes = b""
) -> bytes:
    """A WebM with a place in its tags. `live`: with unknown sizes, as browsers record it."""
    video = element(0xE0, element(0xB0, b"\x01\x40"), element(0xBA, b"\xb4"))
    known = element(0x1654AE6B, element(0xAE, element(0xD7, b"\1"), element(0x83, b"\1"), video))
    block = element(0xA3, b"\x81\0\0\x80" + b"frame" * 20)
    size = UNKNOWN if live else None
    clusters = element(CLUSTER, element(0xE7, b"\0"), block, block, size=size) + element(
        CLUSTER, element(0xE7, b"\1"), block, size=size
    )
    tags = element(TAGS, element(0x7373, element(0x67C8, PLACE)))
    head = element(0x1A45DFA3, element(0x4286, b"\1"), element(0x4282, doc_type, size=bytes([0x80 | len(doc_type)])))
    body = element(0x1549A966, b""), known if tracks is None else tracks, tags, clusters, *more
    return head + element(SEGMENT, *body, size=size) + behind
