"""Makes an uploaded video safe to show: walks its container and overwrites all metadata that a player does not need.

Nothing is decoded or transcoded. The walk proves that the file is one complete MP4 or WebM with a video track and
nothing else, and finds its size. Metadata that a player needs is kept. All other metadata could tell where, when and by
whom the video was taken: tags, titles, attachments, boxes of camera makers, tracks of telemetry or text with their
samples, unused space. So could what lies between the samples of an MP4: dashcams hide their positions there. All of it
is overwritten in place, so that no offset changes. Limits: data inside the pictures and sounds themselves stays, and so
do times in the headers of MP4, and what lies between the samples of an MP4 in fragments.

ISO/IEC 14496-12 (boxes) and RFC 8794, RFC 9559 (elements).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from kith.core.errors import InvalidContent
from kith.media.media import Format
from kith.media.samples import ENTRY_BYTES, Ranges, SampleTables, chunk_ranges, gaps

PARTS_MAX = 500_000
"""Boxes or elements of a file. A file with more is treated as an attack."""
ENTRIES_MAX = 4_000_000
"""Entries in the tables of samples of a file: five hours of 60 pictures and 47 parts of sound a second take 2,000,000.
"""
_ZEROS = bytes(1 << 16)
_READ_BYTES = 1 << 20

_TOP_LEVEL_BOXES = frozenset(
    b"ftyp moov mdat moof free skip wide udta meta uuid sidx ssix styp mfra emsg prft pdin".split()
)
_METADATA_BOXES = frozenset(b"free skip wide udta meta uuid emsg prft".split())
_NEEDED_BOXES: dict[int | bytes, frozenset[bytes]] = {
    b"moov": frozenset(b"mvhd trak mvex".split()),
    b"trak": frozenset(b"tkhd edts tref mdia".split()),
    b"mdia": frozenset(b"mdhd hdlr minf".split()),
    b"minf": frozenset(b"vmhd smhd nmhd gmhd dinf stbl hdlr".split()),
    b"stbl": frozenset(b"stsd stts ctts cslg stss stsh stsz stz2 stsc stco co64 sdtp sbgp sgpd subs saiz saio".split()),
    b"moof": frozenset(b"mfhd traf".split()),
    b"traf": frozenset(b"tfhd tfdt trun sdtp sbgp sgpd subs saiz saio senc".split()),
}
"""The boxes that a player needs, by the box that holds them."""
_SHOWN_HANDLERS = frozenset((b"vide", b"soun"))
_HANDLER_NAME = 24  # offset in the body of `hdlr`

_EBML, _SEGMENT, _CLUSTER, _TRACKS = 0x1A45DFA3, 0x18538067, 0x1F43B675, 0x1654AE6B
_TRACK, _TRACK_TYPE, _VIDEO, _WIDTH, _HEIGHT = 0xAE, 0x83, 0xE0, 0xB0, 0xBA
_VOID, _CHECKSUM, _TAGS, _ATTACHMENTS, _CHAPTERS = 0xEC, 0xBF, 0x1254C367, 0x1941A469, 0x1043A770
_BLANKED = frozenset((_VOID, _CHECKSUM, _TAGS, _ATTACHMENTS, _CHAPTERS))
_INFO = 0x1549A966
_IN_SEGMENT = _BLANKED | {_CLUSTER, _TRACKS, _INFO, 0x114D9B74, 0x1C53BB6B}
_IN_INFO = frozenset((0x2AD7B1, 0x4489))  # the scale of times, the duration
_APP_NAMES = frozenset((0x4D80, 0x5741))  # the names of the apps that made it: mandatory, so they are emptied
_IN_TRACK = frozenset((
    0xD7, 0x73C5, _TRACK_TYPE, 0xB9, 0x88, 0x55AA, 0x9C, 0x6DE7, 0x6DF8, 0x23E383, 0x234E7A, 0x23314F, 0x55EE, 0x41E4,
    0x22B59C, 0x22B59D, 0x86, 0x63A2, 0x56AA, 0x56BB, _VIDEO, 0xE1, 0xE2, 0x6D80,
))  # fmt: skip
_IN_CLUSTER = frozenset((0xE7, 0xA3, 0xA0, 0xAB, 0xA7, 0xAF, 0x5854))
_SHOWN_TRACKS = frozenset((1, 2))  # video, audio
_ELEMENT_HEAD = 12  # bytes of the longest element header: 4 of the kind, 8 of the size


class Video(NamedTuple):
    """A video as shown. Width and height are in pixels."""

    width: int
    height: int
    fingerprint: int  # 64-bit hash of its bytes: equal for equal files only


class _Part(NamedTuple):
    """A box (MP4) or element (WebM): its kind, and the offsets of its start, its body and its end."""

    kind: int | bytes
    start: int
    body: int
    end: int


class _Blank(NamedTuple):
    """A part to overwrite: first with `header`, which marks it as unused, then with zeros up to `end`."""

    start: int
    header: bytes
    end: int


def read_video(file: BinaryIO, size: int, form: Format, *, pixels_max: int) -> Video:
    """Check the video in `file` and overwrite its metadata in place. InvalidContent if it is no video, or damaged."""
    reader = _Reader(file, size)
    width, height, blanks = _mp4(reader) if form == "mp4" else _webm(reader)
    if not 0 < width * height <= pixels_max:
        raise InvalidContent(
            f"this video has {width} x {height} pixels; it needs a picture of at most {pixels_max}", max=pixels_max
        )
    for blank in blanks:
        _overwrite(file, blank)
    file.seek(0)
    hashed = hashlib.blake2b(digest_size=8)
    while chunk := file.read(_READ_BYTES):
        hashed.update(chunk)
    return Video(width, height, int.from_bytes(hashed.digest(), "big"))


class _Reader:
    """Reads a file by offset, and counts its parts, so that the time for a file is bounded."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size, self._parts, self._entries = file, size, 0, 0

    def bytes(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset`; InvalidContent if the file is shorter."""
        self._file.seek(offset)
        data = self._file.read(count)
        if len(data) < count:
            raise truncation_error()
        return data

    def number(self, offset: int, count: int) -> int:
        """A big-endian number."""
        return int.from_bytes(self.bytes(offset, count), "big")

    def count_entries(self, number: int) -> None:
        """Count entries of tables of samples; InvalidContent beyond ENTRIES_MAX."""
        self._entries += number
        if self._entries > ENTRIES_MAX:
            raise InvalidContent(f"this video has more than {ENTRIES_MAX} samples; send a shorter one", max=ENTRIES_MAX)

    def count(self) -> None:
        """Count one part; InvalidContent beyond PARTS_MAX."""
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise InvalidContent(f"this video has more than {PARTS_MAX} parts; save it again", max=PARTS_MAX)


def truncation_error() -> InvalidContent:
    """The error for a file that ends too early."""
    return InvalidContent("this video is cut off or damaged; send the whole file")


def _overwrite(file: BinaryIO, blank: _Blank) -> None:
    file.seek(blank.start)
    file.write(blank.header)
    remaining = blank.end - blank.start - len(blank.header)
    while remaining:
        remaining -= file.write(_ZEROS[:remaining])


# --- MP4 -----------------------------------------------------------------------------------------------------


def _boxes(reader: _Reader, start: int, end: int) -> Iterator[_Part]:
    """The boxes that fill the range from `start` to `end`; InvalidContent if they do not fit."""
    while start < end:
        reader.count()
        head, body = reader.bytes(start, 8), start + 8
        size, kind = int.from_bytes(head[:4], "big"), head[4:]
        if size == 1:
            size, body = reader.number(start + 8, 8), start + 16
        elif size == 0 and kind == b"mdat":  # to the end of the file
            size = end - start
        if size < body - start or start + size > end:
            raise truncation_error()
        yield _Part(kind, start, body, start + size)
        start += size


def _mp4(reader: _Reader) -> tuple[int, int, list[_Blank]]:
    width = height = 0
    blanks, samples = list[_Blank](), list[Ranges]()
    top = list(_boxes(reader, 0, reader.size))
    kinds = {box.kind for box in top}
    fragmented = b"moof" in kinds
    for box in top:
        if box.kind not in _TOP_LEVEL_BOXES:
            raise InvalidContent(f"this MP4 holds {box.kind!r}, which is no part of a video")
        if box.kind in _METADATA_BOXES:
            blanks.append(_blank_box(reader, box))
        elif box.kind == b"moof":
            blanks += _unneeded(reader, box)
        elif box.kind == b"moov":
            parts = list(_boxes(reader, box.body, box.end))
            blanks += [_blank_box(reader, part) for part in parts if part.kind not in _NEEDED_BOXES[b"moov"]]
            for track in (part for part in parts if part.kind == b"trak"):
                within = list(_boxes(reader, track.body, track.end))
                kind = _handler(reader, within)
                if kind not in _SHOWN_HANDLERS:
                    blanks.append(_hidden_track(reader, track, fragmented=fragmented))
                    continue
                blanks += _unneeded(reader, track)
                samples += [] if fragmented else [_samples(reader, within)]
                if kind == b"vide" and not width:
                    width, height = _shown_size(reader, within)
    if not (b"moov" in kinds and kinds & {b"mdat", b"moof"}):
        raise truncation_error()
    if not fragmented:
        blanks += _unreferenced(reader, samples, top)
    return width, height, blanks


def _unreferenced(reader: _Reader, samples: list[Ranges], top: list[_Part]) -> Iterator[_Blank]:
    """What no sample covers."""
    for start, end in gaps(samples, [(box.body, box.end) for box in top if box.kind == b"mdat"]):
        reader.count()
        yield _Blank(start, b"", end)


def _unneeded(reader: _Reader, box: _Part) -> Iterator[_Blank]:
    """The boxes inside this one, at any depth, that no player needs; and handler names, which tell the maker."""
    for part in _boxes(reader, box.body, box.end):
        if part.kind not in _NEEDED_BOXES[box.kind]:
            yield _blank_box(reader, part)
        elif part.kind == b"hdlr":
            yield _Blank(min(part.body + _HANDLER_NAME, part.end), b"", part.end)
        elif part.kind in _NEEDED_BOXES:
            yield from _unneeded(reader, part)


def _hidden_track(reader: _Reader, track: _Part, *, fragmented: bool) -> _Blank:
    if fragmented:
        raise InvalidContent("this MP4 comes in fragments and has a track of text or telemetry; save it without that")
    return _blank_box(reader, track)


def _blank_box(reader: _Reader, box: _Part) -> _Blank:
    size = reader.bytes(box.start, box.body - box.start)
    return _Blank(box.start, size[:4] + b"free" + size[8:], box.end)


def _find(reader: _Reader, parts: list[_Part], *path: bytes) -> _Part:
    """The box at a path of kinds."""
    for box in parts:
        if box.kind == path[0]:
            return box if len(path) == 1 else _find(reader, list(_boxes(reader, box.body, box.end)), *path[1:])
    raise truncation_error()


def _handler(reader: _Reader, track: list[_Part]) -> bytes:
    """The kind of a track: video, sound or another."""
    return reader.bytes(_find(reader, track, b"mdia", b"hdlr").body + 8, 4)


def _samples(reader: _Reader, track: list[_Part]) -> Ranges:
    """Where the samples of a track are."""
    table = _find(reader, track, b"mdia", b"minf", b"stbl")
    boxes = {box.kind: box for box in _boxes(reader, table.body, table.end)}
    chunks = boxes.get(b"co64") or boxes.get(b"stco")
    if not (b"stsz" in boxes and b"stsc" in boxes and chunks):
        raise truncation_error()
    same = reader.number(boxes[b"stsz"].body + 4, 4)
    sizes = b"" if same else _table(reader, boxes[b"stsz"], 8)
    wide = chunks.kind == b"co64"
    tables = SampleTables(_table(reader, chunks, 4), wide, _table(reader, boxes[b"stsc"], 4), same, sizes)
    ranges = chunk_ranges(tables, reader.size)
    if ranges is None:
        raise truncation_error()
    return ranges


def _table(reader: _Reader, box: _Part, at: int) -> bytes:
    """The table in a box: its number of entries stands `at` bytes into the body, the entries follow."""
    entries, start = reader.number(box.body + at, 4), box.body + at + 4
    reader.count_entries(entries)
    size = entries * ENTRY_BYTES[box.kind]
    if start + size > box.end:
        raise truncation_error()
    return reader.bytes(start, size)


def _shown_size(reader: _Reader, track: list[_Part]) -> tuple[int, int]:
    """Width and height as shown: swapped if the track is rotated by 90 degrees."""
    head = _find(reader, track, b"tkhd").body
    matrix = head + (52 if reader.number(head, 1) == 1 else 40)
    width, height = reader.number(matrix + 36, 4) >> 16, reader.number(matrix + 40, 4) >> 16
    turned = reader.number(matrix, 4) == reader.number(matrix + 16, 4) == 0
    return (height, width) if turned else (width, height)


# --- WebM ----------------------------------------------------------------------------------------------------


def _element(reader: _Reader, offset: int, limit: int) -> _Part:
    """The element at an offset; its `end` is -1 if its size is unknown. InvalidContent if it ends beyond `limit`."""
    reader.count()
    head = reader.bytes(offset, min(_ELEMENT_HEAD, reader.size - offset))
    id_bytes = 9 - head[0].bit_length() if head else 0
    if not 1 <= id_bytes <= 4 or len(head) <= id_bytes:
        raise truncation_error()
    size_bytes = 9 - head[id_bytes].bit_length()
    if size_bytes > 8 or len(head) < id_bytes + size_bytes:
        raise truncation_error()
    kind, unknown = int.from_bytes(head[:id_bytes], "big"), (1 << 7 * size_bytes) - 1
    size, body = int.from_bytes(head[id_bytes : id_bytes + size_bytes], "big") & unknown, offset + id_bytes + size_bytes
    if size == unknown:
        return _Part(kind, offset, body, -1)
    if body + size > limit:
        raise truncation_error()
    return _Part(kind, offset, body, body + size)


def _elements(reader: _Reader, start: int, end: int) -> Iterator[_Part]:
    """The elements that fill the range from `start` to `end`; InvalidContent if they do not fit."""
    while start < end:
        part = _element(reader, start, end)
        if part.end < 0:
            raise truncation_error()
        yield part
        start = part.end


def _webm(reader: _Reader) -> tuple[int, int, list[_Blank]]:
    head = _element(reader, 0, reader.size)
    segment = _element(reader, head.end, reader.size) if head.end > 0 else head
    if segment.kind != _SEGMENT or segment.end not in (-1, reader.size):
        raise InvalidContent("this WebM is damaged, or something else was hung onto it; save it again")
    width = height = 0
    blanks, offset, in_cluster, clusters = list[_Blank](), segment.body, False, 0
    while offset < reader.size:
        part = _element(reader, offset, reader.size)
        if part.kind not in _IN_SEGMENT and not (in_cluster and part.kind in _IN_CLUSTER):
            raise InvalidContent(f"this WebM holds an element {part.kind!r}, which is no part of a video")
        if part.end < 0 and part.kind != _CLUSTER:
            raise truncation_error()
        if part.kind == _CLUSTER:  # if its size is unknown (a live recording), the walk goes through its elements
            clusters += 1
        elif part.kind == _TRACKS:
            width, height = _tracks(reader, part)
            blanks += _unneeded_of_tracks(reader, part)
        elif part.kind == _INFO:
            blanks += _unneeded_of_info(reader, part)
        elif part.kind in _BLANKED:
            blanks.append(_blank_element(part))
        in_cluster = part.end < 0 if part.kind == _CLUSTER else in_cluster and part.kind in _IN_CLUSTER | _BLANKED
        offset = part.body if part.end < 0 else part.end
    if not clusters:
        raise truncation_error()
    return width, height, blanks


def _blank_element(part: _Part) -> _Blank:
    """Overwrite an element with a Void of the same length."""
    length = part.end - part.start
    if length >= 9:
        return _Blank(part.start, bytes([_VOID]) + (1 << 56 | length - 9).to_bytes(8, "big"), part.end)
    return _Blank(part.start, bytes([_VOID, 0x80 | length - 2]), part.end)


def _unneeded_of_info(reader: _Reader, info: _Part) -> Iterator[_Blank]:
    """Blanks for titles, file names, dates, and the names of the apps that made the video."""
    for part in _elements(reader, info.body, info.end):
        if part.kind in _APP_NAMES:
            yield _Blank(part.body, b"", part.end)
        elif part.kind not in _IN_INFO:
            yield _blank_element(part)


def _unneeded_of_tracks(reader: _Reader, tracks: _Part) -> Iterator[_Blank]:
    """Blanks for names of tracks, and everything else that no player needs."""
    for track in _elements(reader, tracks.body, tracks.end):
        if track.kind == _TRACK:
            parts = _elements(reader, track.body, track.end)
            yield from (_blank_element(part) for part in parts if part.kind not in _IN_TRACK)
        else:
            yield _blank_element(track)


def _tracks(reader: _Reader, tracks: _Part) -> tuple[int, int]:
    """The size of the first video track; InvalidContent if there is a track that is neither video nor audio."""
    video_size = (0, 0)
    for track in _elements(reader, tracks.body, tracks.end):
        if track.kind != _TRACK:
            continue
        kind, size = 0, (0, 0)
        for part in _elements(reader, track.body, track.end):
            if part.kind == _TRACK_TYPE:
                kind = _value(reader, part)
            elif part.kind == _VIDEO:
                sides = {
                    side.kind: _value(reader, side)
                    for side in _elements(reader, part.body, part.end)
                    if side.kind in (_WIDTH, _HEIGHT)
                }
                size = sides.get(_WIDTH, 0), sides.get(_HEIGHT, 0)
        if kind not in _SHOWN_TRACKS:
            raise InvalidContent(
                f"this WebM has a track of type {kind}, neither video nor audio, which may tell where it was taken; "
                "save it without"
            )
        if kind == 1 and video_size == (0, 0):
            video_size = size
    return video_size


def _value(reader: _Reader, part: _Part) -> int:
    """The number that an element holds."""
    if not 0 < part.end - part.body <= 8:
        raise truncation_error()
    return reader.number(part.body, part.end - part.body)
