"""/media: uploads, describes and deletes pictures and videos. `files` serves their files."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kith.api.call import Call
from kith.api.forms import read_upload_form
from kith.api.operations import delete, get, patch, post
from kith.api.presenter import MediaAnswer, Presenter
from kith.core.ids import NodeId
from kith.media.library import MediaLibrary
from kith.media.media import ALT_TEXT_CHARS_MAX

MediaId = Annotated[NodeId, Meta(description="Id of a picture or video, from the answer to its upload.")]
_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "altText": {"type": "string", "maxLength": ALT_TEXT_CHARS_MAX},
    },
}
_UPLOAD = {"requestBody": {"content": {"multipart/form-data": {"schema": _FORM}}, "required": True}}


class MediaChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The alt text of a picture or video."""

    alt_text: str


class MediaResource:
    """The pictures and videos that users uploaded."""

    def __init__(self, media: MediaLibrary, present: Presenter) -> None:
        self._media, self._present = media, present

    @post(
        "/media",
        "Upload a picture or video",
        status=201,
        callers="acting",
        quota="media",
        upload=True,
        openapi=_UPLOAD,
    )
    async def upload_media(self, call: Call) -> MediaAnswer:
        """JPEG, PNG, GIF, WebP, MP4 or WebM; the type is detected from the bytes. Images are decoded and re-encoded,
        which removes EXIF and location. Videos lose their metadata. Pictures larger than `media_side_max` are scaled
        down.
        """
        limits, chunks = self._media.limits, call.chunks()
        bytes_max = max(limits.image_bytes_max, limits.video_bytes_max)
        with self._media.upload_slot(call.acting_user):
            async with read_upload_form(call.header("content-type") or "", chunks, bytes_max) as upload:
                media, mark = await self._media.upload(call.acting_user, upload.file, upload.size, upload.alt_text)
        call.note_write(mark)
        return self._present.media(media)

    @get("/media/{media_id}", "A picture or video of mine")
    async def get_media(self, call: Call, media_id: MediaId) -> MediaAnswer:
        """For its owner. Other users see it through posts and profiles."""
        return self._present.media(await self._media.get(call.viewer, media_id))

    @patch("/media/{media_id}", "Change the text of a picture or video", callers="acting")
    async def edit_media(self, call: Call, media_id: MediaId, body: MediaChange) -> MediaAnswer:
        """Its owner only."""
        changed, mark = await self._media.describe(call.acting_user, media_id, body.alt_text)
        call.note_write(mark)
        return self._present.media(changed)

    @delete("/media/{media_id}", "Delete a picture or video", status=204, callers="acting")
    async def delete_media(self, call: Call, media_id: MediaId) -> None:
        """Permanent, files included. A post keeps its other media. Only the owner may delete it. Repeating it changes
        nothing.
        """
        call.note_write(await self._media.delete(call.acting_user, media_id))
