"""Uploads, describes and deletes pictures and videos, and deletes orphaned files, which no record names.

Files are written before their record and deleted after it, so no record points to a missing file. A crash may leave a
file without a record, which `sweep` deletes. Checking and decoding run in a few threads, so they do not block the event
loop. A flood of uploads waits for these threads or is refused; other requests are not slowed down.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

import filetype
import msgspec

from kith.core.errors import BodyTooLarge, InvalidContent, MediaNotFound, Overloaded
from kith.core.ids import NodeId, Snowflakes, made_at_ms
from kith.core.tokens import WriteMark
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.media.blobs import Blob, BlobStore
from kith.media.images import read_image
from kith.media.media import (
    ALT_TEXT_CHARS_MAX,
    CONTENT_TYPES,
    SECRET_BYTES,
    THUMBNAIL,
    Format,
    Media,
    id_in_key,
    key_of,
    keys_of,
    media_record,
    owned,
    read_media,
)
from kith.media.videos import read_video
from kith.people.accounts import check_active
from kith.people.privacy import SYSTEM, Viewer
from kith.records.fields import check_text
from kith.records.rewriting import next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Put, RecordKind, RecordStore

ORPHAN_AGE_MIN_MS = 3_600_000
"""Age in ms from which a file without a record is an orphan. A newer file may still get its record."""
_SNIFFED_BYTES = 8_192
_FORMATS: dict[str, Format] = {
    **{content_type: form for form, content_type in CONTENT_TYPES.items()},
    "image/apng": "png",
    "video/x-m4v": "mp4",
}


class MediaLimits(NamedTuple):
    """The limits of one upload; and how many `threads`, and uploads at a time (`uploads_max`), a process has."""

    image_bytes_max: int = 20 << 20
    video_bytes_max: int = 100 << 20
    pixels_max: int = 50_000_000
    side_max: int = 2_000
    threads: int = 2
    uploads_max: int = 8


class CheckedUpload(NamedTuple):
    """The facts of an upload, and the files to store for it, as (end of the key, content type, bytes)."""

    format: Format
    width: int
    height: int
    size: int
    fingerprint: int
    files: list[tuple[str, str, bytes | BinaryIO]]


class MediaWritten(NamedTuple):
    """A picture or video after a write, and the place of the write for read-your-writes."""

    media: Media
    mark: WriteMark


class SweepResult(NamedTuple):
    """The result of a sweep: the files that it checked, how many of them are orphans, and the bytes of these."""

    files: int
    orphans: int
    orphan_bytes: int


class MediaLibrary:
    """Stores, describes, deletes and finds pictures and videos."""

    def __init__(
        self, store: RecordStore, graph: Graph, snowflakes: Snowflakes, blobs: BlobStore, limits: MediaLimits
    ) -> None:
        self._store, self._graph, self._snowflakes, self.blobs, self.limits = store, graph, snowflakes, blobs, limits
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="kith-media")
        self._uploads = Counter[NodeId]()

    def close(self) -> None:
        """Stop the threads. Each finishes the file that it is decoding."""
        self._threads.shutdown(cancel_futures=True)

    @contextlib.contextmanager
    def upload_slot(self, actor: NodeId) -> Iterator[None]:
        """Hold one of the `uploads_max` slots, from an upload's first byte to its answer.

        Overloaded if all slots are taken, or `actor` holds half of them.
        """
        own, every = self._uploads[actor], self._uploads.total()
        if every >= self.limits.uploads_max or own >= max(1, self.limits.uploads_max // 2):
            raise Overloaded(f"{every} uploads are under way here, {own} of this user; try again in a moment")
        self._uploads[actor] += 1
        try:
            yield
        finally:
            self._uploads[actor] -= 1
            if not self._uploads[actor]:
                del self._uploads[actor]

    # --- writing ---------------------------------------------------------------------------------------

    async def upload(self, actor: NodeId, file: BinaryIO, size: int, alt_text: str) -> MediaWritten:
        """Check an uploaded file and store its safe version. Parts of `file` may be overwritten.

        Errors: InvalidContent; BodyTooLarge; Forbidden if the actor is deactivated. They leave nothing behind.
        """
        check_alt_text(alt_text)
        await check_active(self._graph.store, actor)
        loop = asyncio.get_running_loop()
        checked = await loop.run_in_executor(self._threads, check_upload, file, size, self.limits)
        id_, version = self._snowflakes.next(), self._graph.clock.next()
        media = Media(
            id_, actor, made_at_ms(id_), checked.format, checked.width, checked.height, checked.size,
            checked.fingerprint, secrets.token_bytes(SECRET_BYTES), alt_text,
        )  # fmt: skip
        stem = key_of(media).removesuffix(media.format)
        try:
            for ending, content_type, data in checked.files:
                await self.blobs.put(stem + ending, data, content_type)
        except BaseException:  # also if the request is cancelled
            await self.blobs.delete(keys_of(media))
            raise
        # If this fails, the record may have been written nevertheless, so the files stay; `sweep` deletes orphans.
        put = await self._store.put([media_record(media, version)], only_if=[AtVersion(RecordKind.MEDIA, id_, 0)])
        if not put.stored:  # the id was used before: the machine's clock was set back since
            await self.blobs.delete(keys_of(media))
            raise Overloaded("this upload met another; send it again")
        return MediaWritten(media, put.mark)

    async def describe(self, actor: NodeId, id_: NodeId, alt_text: str) -> MediaWritten:
        """Change the text that describes a picture or video.

        Errors: MediaNotFound for all but its owner; InvalidContent; Forbidden if the actor is deactivated.
        """
        check_alt_text(alt_text)
        await check_active(self._graph.store, actor)
        return await self._rewrite(actor, id_, lambda media: msgspec.structs.replace(media, alt_text=alt_text))

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Delete a picture or video for good. After an error, repeat it. MediaNotFound for all but its owner."""
        deleted = await self._rewrite(
            actor, id_, lambda media: msgspec.structs.replace(media, alt_text="", deleted=True), deleted_too=True
        )
        await self.blobs.delete(keys_of(deleted.media))
        return deleted.mark

    # --- reading ---------------------------------------------------------------------------------------

    async def get(self, viewer: Viewer, id_: int) -> Media:
        """The record, for its owner and the app's back office. MediaNotFound for others, who see it in posts only."""
        media = (await self.get_many([id_])).get(id_)
        if media is None or viewer not in (SYSTEM, media.owner) or not await self._with_owners([media]):
            raise _no_media(id_)
        return media

    async def get_many(self, ids: Sequence[int]) -> dict[int, Media]:
        """The media of `ids` that exist, by id, in one batch. The caller checks the visibility of their posts."""
        if not ids:
            return {}
        records = await self._store.get_many(RecordKind.MEDIA, list(dict.fromkeys(ids)))
        media_read = (read_media(record) for record in records if record is not None)
        return {media.id: media for media in media_read if not media.deleted}

    async def locate(self, key: str) -> Path | str:
        """Where a file is (see `BlobStore.locate`). MediaNotFound unless a record names it and its owner exists.

        So deleted media, and those of a removed account, are gone at once, even before `sweep` deletes their files.
        """
        if key not in await self._referenced_keys([key]):
            raise no_file()
        place = await self.blobs.locate(key)
        if place is None:
            raise no_file()
        return place

    # --- files that no record names --------------------------------------------------------------------

    async def sweep(self, now_ms: int, *, remove: bool) -> SweepResult:
        """Count orphans: old files without a record, or whose record is deleted or of a removed account.

        `remove`: delete them, and empty the records of removed accounts. Then it raises first if the store takes no
        writes, because another store has replaced it and names these files now. Files whose names are not ours are left
        alone.
        """
        if remove:
            await self._graph.store.put_note("sweep", b"%d" % now_ms)  # raises if the store takes no writes
        files = orphans = orphan_bytes = 0
        async for listed in self.blobs.list():
            blobs = [blob for blob in listed if id_in_key(blob.key) is not None]
            names = await self._referenced_keys([blob.key for blob in blobs])
            orphaned = [blob for blob in blobs if blob.key not in names and _is_old(blob, now_ms)]
            if remove:
                await self._delete_of_removed_owners([blob.key for blob in orphaned])
                await self.blobs.delete([blob.key for blob in orphaned])
            files, orphans = files + len(blobs), orphans + len(orphaned)
            orphan_bytes += sum(blob.size for blob in orphaned)
        return SweepResult(files, orphans, orphan_bytes)

    async def _delete_of_removed_owners(self, keys: Sequence[str]) -> None:
        """Delete those media of these files whose owners were removed."""
        named_media = await self._media_of_keys(keys)
        living = await self._with_owners(named_media)
        for media in named_media:
            if media not in living:
                await self.delete(NodeId(media.owner), NodeId(media.id))

    async def _referenced_keys(self, keys: Sequence[str]) -> set[str]:
        """The keys of all files of the media that `keys` belong to, if the media and their owners exist."""
        return {key for media in await self._with_owners(await self._media_of_keys(keys)) for key in keys_of(media)}

    async def _media_of_keys(self, keys: Sequence[str]) -> list[Media]:
        """The existing media that these files belong to."""
        return list((await self.get_many([id_ for key in keys if (id_ := id_in_key(key)) is not None])).values())

    async def _with_owners(self, media_list: Sequence[Media]) -> list[Media]:
        """The media whose owners were not removed."""
        nodes = await self._graph.store.nodes([NodeId(media.owner) for media in media_list])
        return [media for media, node in zip(media_list, nodes, strict=True) if node.state != State.REMOVED]

    async def _rewrite(
        self, actor: NodeId, id_: NodeId, change: Callable[[Media], Media], *, deleted_too: bool = False
    ) -> MediaWritten:
        """Replace a record by the result of `change`; retry if another write came between."""

        async def replace() -> tuple[Put, Media]:
            (record,) = await self._store.get_many(RecordKind.MEDIA, [id_])
            if record is None:
                raise _no_media(id_)
            media = read_media(record)
            is_gone = not deleted_too and (media.deleted or not await self._with_owners([media]))
            if media.owner != actor or is_gone:
                raise _no_media(id_)
            new = change(media)
            changed = media_record(new, next_version(self._graph.clock, record))
            put = await self._store.put(
                [changed if new.deleted else with_newer_fields(changed, record)],
                only_if=[AtVersion(RecordKind.MEDIA, id_, record.updated_at)],
            )
            return put, new

        put, new = await rewrite("this media", id_, replace)
        return MediaWritten(new, put.mark)

    async def check_image(self, owner: NodeId, id_: int, field: str) -> None:
        """InvalidContent, naming `field`, unless `id_` is an image that `owner` uploaded."""
        (media,) = owned(owner, [id_], await self._store.get_many(RecordKind.MEDIA, [id_]), field)
        if media.type != "image":
            raise InvalidContent(f"{field} names a video; it must be an image", field=field, id=str(id_))


def check_alt_text(text: str) -> None:
    """InvalidContent if the text is too long."""
    check_text(text, needed=False, chars_max=ALT_TEXT_CHARS_MAX, field="altText")


def sniff(head: bytes) -> Format:
    """The format of a file by its first bytes, not by its name; InvalidContent if it is not supported."""
    mime = filetype.guess_mime(head)
    form = _FORMATS.get(mime or "")
    if form is None:
        raise InvalidContent(
            f"this file is {mime or 'of no kind we know'}; images may be JPEG, PNG, GIF or WebP, videos MP4 or WebM",
            contentType=mime,
        )
    return form


def check_upload(file: BinaryIO, size: int, limits: MediaLimits) -> CheckedUpload:
    """Check an uploaded file and build the files to store. Slow: run it in a thread.

    Errors: InvalidContent; BodyTooLarge if it is larger than an image or video may be.
    """
    file.seek(0)
    form = sniff(file.read(_SNIFFED_BYTES))
    content_type = CONTENT_TYPES[form]
    image = content_type.startswith("image/")
    bytes_max = limits.image_bytes_max if image else limits.video_bytes_max
    if size > bytes_max:
        raise BodyTooLarge(f"this {form} has {size} bytes; send at most {bytes_max}", max=bytes_max)
    file.seek(0)
    if image:
        picture = read_image(file.read(), form, pixels_max=limits.pixels_max, side_max=limits.side_max)
        return CheckedUpload(
            form, picture.width, picture.height, len(picture.data), picture.fingerprint,
            [(form, content_type, picture.data), (THUMBNAIL, CONTENT_TYPES["webp"], picture.thumbnail)],
        )  # fmt: skip
    video = read_video(file, size, form, pixels_max=limits.pixels_max)
    file.seek(0)
    return CheckedUpload(form, video.width, video.height, size, video.fingerprint, [(form, content_type, file)])


def _is_old(blob: Blob, now_ms: int) -> bool:
    return blob.modified_at_ms < now_ms - ORPHAN_AGE_MIN_MS


def no_file() -> MediaNotFound:
    """The error for a file that does not exist."""
    return MediaNotFound("there is no such file; take addresses from posts and profiles as they are")


def _no_media(id_: int) -> MediaNotFound:
    return MediaNotFound("there is no such media, or it is hidden from you", id=str(id_))
