"""/media: uploading pictures and videos, their text, and deleting them. Their files are served by `files`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat
from litestar.params import PathParameter

from kith.api.answers import Call
from kith.api.forms import uploaded
from kith.api.graphs import token_header
from kith.core.ids import parse_id
from kith.media.media import ALT_TEXT_CHARS_MAX, Media, MediaType, key_of, thumbnail_key_of

UPLOAD_PATH = "/api/v1/media"
FILES_PATH = "/media"
"""Where this server shows the files."""
MediaId = Annotated[str, PathParameter(description="Id of a picture or video, as its upload answered.")]


class MediaAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A picture or video. Whoever knows the addresses sees it; videos have no thumbnail."""

    id: str
    type: MediaType
    url: str
    thumbnail_url: str | None
    width: int
    height: int
    alt_text: str


class MediaChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The text that stands for it."""

    alt_text: str


@dataclass
class UploadOperation(Operation):
    """How the documentation shows the form."""

    def __post_init__(self) -> None:
        form = Schema(
            type=OpenAPIType.OBJECT,
            required=["file"],
            properties={
                "file": Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY),
                "altText": Schema(type=OpenAPIType.STRING, max_length=ALT_TEXT_CHARS_MAX),
            },
        )
        self.request_body = RequestBody(content={"multipart/form-data": OpenAPIMediaType(schema=form)}, required=True)


@post(
    "/media",
    summary="Upload a picture or video",
    status_code=201,
    name="upload_media",
    operation_class=UploadOperation,
    request_max_body_size=None,
)
async def upload_media(call: Call, request: Request[Any, Any, Any]) -> Response[MediaAnswer]:
    """JPEG, PNG, GIF, WebP, MP4 or WebM, told by its bytes. Images are decoded and written anew, without EXIF and
    place; videos lose their notes. Pictures larger than `media_side_max` are scaled down.
    """
    media, actor = call.backend.media, call.acting
    bytes_max = max(media.limits.image_bytes_max, media.limits.video_bytes_max)
    with media.under_way(actor):
        async with uploaded(request.headers.get("content-type", ""), request.stream(), bytes_max) as sent:
            made, mark = await media.upload(actor, sent.file, sent.size, sent.alt_text)
    answer = media_answer(made, call.backend.media_base_url)
    return Response(answer, status_code=201, headers=token_header(call.backend.token(mark)))


@get("/media/{media_id:str}", summary="A picture or video of mine", name="get_media")
async def get_media(call: Call, media_id: MediaId) -> MediaAnswer:
    """For its owner; others see it in posts and profiles."""
    return media_answer(await call.backend.media.get(call.caller.user, parse_id(media_id)), call.backend.media_base_url)


@patch("/media/{media_id:str}", summary="Change the text of a picture or video", name="edit_media")
async def edit_media(call: Call, media_id: MediaId, data: MediaChange) -> Response[MediaAnswer]:
    """Its owner only."""
    changed, mark = await call.backend.media.describe(call.acting, parse_id(media_id), data.alt_text)
    answer = media_answer(changed, call.backend.media_base_url)
    return Response(answer, headers=token_header(call.backend.token(mark)))


@delete("/media/{media_id:str}", summary="Delete a picture or video", status_code=204, name="delete_media")
async def delete_media(call: Call, media_id: MediaId) -> Response[None]:
    """For good, its files included; posts show the rest of what they have. Its owner only. Repeating it is fine."""
    mark = await call.backend.media.delete(call.acting, parse_id(media_id))
    return Response(None, status_code=204, headers=token_header(call.backend.token(mark)))


def media_answer(media: Media, base_url: str) -> MediaAnswer:
    """A picture or video as clients get it. `base_url`: where its files are shown."""
    thumbnail = thumbnail_key_of(media)
    return MediaAnswer(
        str(media.id),
        media.type,
        f"{base_url}/{key_of(media)}",
        None if thumbnail is None else f"{base_url}/{thumbnail}",
        media.width,
        media.height,
        media.alt_text,
    )


def avatar_url(avatar: int | None, known: Mapping[int, Media], base_url: str) -> str | None:
    """Where the picture of a profile is shown: its thumbnail; None where there is none (any more)."""
    media = None if avatar is None else known.get(avatar)
    return None if media is None else media_answer(media, base_url).thumbnail_url


ROUTES = [upload_media, get_media, edit_media, delete_media]
