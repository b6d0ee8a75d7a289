"""Calls about pictures and videos. As in `graphs`, nothing is sent, and no file is opened."""

from __future__ import annotations

import os

from kith.client.answers import Id
from kith.client.asking import BASE, checked_id, nothing, reader
from kith.client.objects import Media
from kith.client.wire import Call, Form

_media = reader(Media)


def upload_media(file: bytes | str | os.PathLike[str], *, alt_text: str = "") -> Call[Media]:
    """Upload a picture or video of the acting user: its bytes, or the path of a file, which is read as it is sent.

    JPEG, PNG, GIF, WebP, MP4 or WebM, told by its bytes. `alt_text`: the text that stands for it. Sent again only
    where it was certainly not taken. OSError where the file cannot be read.
    """
    return Call("POST", f"{BASE}/media", _media, form=Form(file, {"altText": alt_text}), repeatable=False)


def media(media: Id) -> Call[Media]:
    """A picture or video of the acting user; others see it in posts and profiles."""
    return Call("GET", _path(media), _media)


def edit_media(media: Id, *, alt_text: str) -> Call[Media]:
    """Change the text that stands for a picture or video of the acting user."""
    return Call("PATCH", _path(media), _media, body={"altText": alt_text})


def delete_media(media: Id) -> Call[None]:
    """Delete a picture or video of the acting user, for good; posts show the rest of what they have."""
    return Call("DELETE", _path(media), nothing, deletes=True)


def _path(media: Id) -> str:
    return f"{BASE}/media/{checked_id(media, 'media')}"
