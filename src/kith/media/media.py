"""The record of a picture or video, the names of its files, and the check that a user owns media. Pure.

The files are in a BlobStore under names that nobody can guess (`key_of`, `thumbnail_key_of`). A request for a file
carries no credentials, so whoever knows the name has access.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import InvalidContent
from kith.core.ids import ID_MAX
from kith.records.store import Record, RecordKind

MediaType = Literal["image", "video"]
Format = Literal["jpg", "png", "gif", "webp", "mp4", "webm"]
CONTENT_TYPES: dict[Format, str] = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "mp4": "video/mp4",
    "webm": "video/webm",
}
ALT_TEXT_CHARS_MAX = 1_500
SECRET_BYTES = 16
THUMBNAIL = "thumbnail.webp"
KEY = re.compile(r"[0-9a-f]{2}/(\d{1,19})-[0-9a-f]{32}\.(jpg|png|gif|webp|mp4|webm|thumbnail\.webp)", re.ASCII)
"""Matches the keys that `key_of` and `thumbnail_key_of` make. Groups: the id, and the end of the name."""


class Media(msgspec.Struct, frozen=True, array_like=True):
    """One picture or video, as stored: an array in this order. New fields come last and have a default."""

    id: int
    owner: int
    created_at: int  # ms since the epoch
    format: Format
    width: int  # pixels, as shown
    height: int
    size: int  # bytes of the file that is served
    fingerprint: int  # 64 bits; see `images.picture_fingerprint` and `videos.read_video`
    secret: bytes  # SECRET_BYTES random bytes, part of the names of its files
    alt_text: str = ""
    deleted: bool = False  # the record stays, because it names the files to remove

    @property
    def type(self) -> MediaType:
        """Whether it is an image or a video."""
        return "video" if self.format in ("mp4", "webm") else "image"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Media).decode


def media_record(media: Media, version: Hlc) -> Record:
    """The record of a picture or video."""
    return Record(RecordKind.MEDIA, media.id, version, _encode(media))


def read_media(record: Record) -> Media:
    """The picture or video of a record."""
    return _decode(record.data)


def key_of(media: Media) -> str:
    """The key of its file: `<2 hex digits>/<id>-<32 hex digits>.<format>`, spread over 256 folders."""
    return f"{_name(media)}.{media.format}"


def thumbnail_key_of(media: Media) -> str | None:
    """The key of its thumbnail; None for videos, which have none."""
    return f"{_name(media)}.{THUMBNAIL}" if media.type == "image" else None


def keys_of(media: Media) -> list[str]:
    """The keys of all its files."""
    return [key for key in (key_of(media), thumbnail_key_of(media)) if key is not None]


def id_in_key(key: str) -> int | None:
    """The id of the media that a file (complete or half written) belongs to; None if the name is not ours."""
    matched = KEY.fullmatch(key.partition("#")[0])  # a local folder appends `#` and a number to an unfinished file
    return int(matched[1]) if matched is not None and int(matched[1]) <= ID_MAX else None


def owned(author: int, ids: Sequence[int], records: Sequence[Record | None], field: str) -> list[Media]:
    """The media of `ids`, in order. InvalidContent, which names `field`, if one does not exist or is another user's."""
    media_list = []
    for id_, record in zip(ids, records, strict=True):
        media = None if record is None else read_media(record)
        if media is None or media.deleted or media.owner != author:
            raise InvalidContent(
                f"{field} names {id_}, which is no media of this user; upload it with POST /media first",
                field=field,
                id=str(id_),
            )
        media_list.append(media)
    return media_list


def _name(media: Media) -> str:
    secret = media.secret.hex()
    return f"{secret[:2]}/{media.id}-{secret}"
