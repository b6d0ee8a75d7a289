"""Calls about pictures and videos. As in `graphs`, nothing is sent here; no file is opened either."""

from __future__ import annotations

import os

from kith.client.answers import Id
from kith.client.asking import BASE, checked_id, nothing, reader
from kith.client.objects import Media
from kith.client.wire import Call, Form

_media = reader(Media)


def upload_media(file: bytes | str | os.PathLike[str], *, alt_text: str = "") -> Call[Media]:
    """Upload a picture or video of the acting user: its bytes, or the path of a file, which is read while sending.

    Formats: JPEG, PNG, GIF, WebP, MP4, WebM; the service recognizes them by their bytes. `alt_text`: a description for
    people who cannot see it. The upload is retried only if the service certainly did not start it. OSError if the file
    cannot be read.
    """
    return Call("POST", f"{BASE}/media", _media, form=Form(file, {"altText": alt_text}), repeatable=False)


def media(media: Id) -> Call[Media]:
    """A picture or video of the acting user. Others see it in posts and profiles only."""
    return Call("GET", _path(media), _media)


def edit_media(media: Id, *, alt_text: str) -> Call[Media]:
    """Change the description of a picture or video of the acting user."""
    return Call("PATCH", _path(media), _media, body={"altText": alt_text})


def delete_media(media: Id) -> Call[None]:
    """Delete a picture or video of the acting user, for good. Posts with it stay, without it."""
    return Call("DELETE", _path(media), nothing, deletes=True)


def _path(media: Id) -> str:
    return f"{BASE}/media/{checked_id(media, 'media')}"
