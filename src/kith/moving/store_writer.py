"""Writes data of one store into another as it is: with its versions, states and expiry, without checking conditions.

All writes are idempotent. Edges and records may come in any order, because the greater version wins. Changes of nodes,
and the forgetting of rows, must come in the order of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from kith.core.errors import StoreUnavailable
from kith.core.gathering import gather
from kith.graph.edge import Edge, EdgeWrite
from kith.graph.store import EdgeStore
from kith.log.store import LogStore
from kith.media.blobs import BlobStore
from kith.media.media import CONTENT_TYPES, keys_of, read_media
from kith.moving.contents import ClaimRow, Contents, NodeRow
from kith.notifications.inbox import InboxRow, InboxStore
from kith.records.store import Claim, Record, RecordKind, RecordStore, Write

T = TypeVar("T")
_ANSWER_TIMEOUT_S = 30.0
_FILE_TYPES = {f".{ending}": content_type for ending, content_type in CONTENT_TYPES.items()}


class StoreSide(NamedTuple):
    """One of the two stores of a move. `blobs`: its media files; None: both sides share them."""

    edges: EdgeStore
    records: RecordStore
    log: LogStore
    inboxes: InboxStore
    contents: Contents
    blobs: BlobStore | None = None


class StoreWriter:
    """Writes to `target`; media files are read from `source`. `now_ms`: the clock by which claims expire."""

    def __init__(self, source: StoreSide, target: StoreSide, now_ms: Callable[[], int]) -> None:
        self._source, self._target, self._now_ms = source, target, now_ms

    async def edges(self, edges: Sequence[Edge]) -> None:
        """Write edges of any graphs."""
        await self._target.edges.apply([EdgeWrite(edge, as_is=True) for edge in edges])

    async def nodes(self, rows: Sequence[NodeRow]) -> None:
        """Write the state, privacy and labels of nodes. Consumers are not notified."""
        change = self._target.edges.change_node
        calls = [change(id_, state=node.state, private=node.private, labels=node.labels) for id_, node in rows]
        await gather(self._target.edges.immediate, *calls)

    async def records(self, records: Sequence[Record]) -> None:
        """Write records of any kinds. Media files are written before the records that name them."""
        await self.files(record for record in records if record.kind is RecordKind.MEDIA)
        await self._target.records.put_many([Write([record]) for record in records])

    async def files(self, records: Iterable[Record]) -> None:
        """Copy the missing files that records of media name; delete the files of deleted media."""
        source, target = self._source.blobs, self._target.blobs
        if source is None or target is None:
            return
        for media in map(read_media, records):
            if media.deleted:
                await target.delete(keys_of(media))
                continue
            for key in keys_of(media):
                located = await source.locate(key)
                if located is None or await _has(target, key):
                    continue
                file = await asyncio.to_thread(_open_file, located)
                if file is not None:
                    with file:
                        await target.put(key, file, _FILE_TYPES[key[key.rindex(".") :]])

    async def claims(self, claims: Sequence[ClaimRow]) -> None:
        """Write the claims that have not expired."""
        now_ms = self._now_ms()
        valid = [Claim(key, value, now_ms, until_ms - now_ms) for key, until_ms, value in claims if until_ms > now_ms]
        await self._target.records.put_many([Write([], claim) for claim in valid])

    async def inbox_rows(self, rows: Sequence[InboxRow]) -> None:
        """Write rows of inboxes."""
        if rows:
            await self._target.inboxes.add(rows)

    async def notes(self) -> int:
        """Make the target's notes equal to the source's; returns how many differed. No one may write to the source."""
        source_notes, target_notes = await self._source.contents.notes(), await self._target.contents.notes()
        differing = [
            key for key in source_notes.keys() | target_notes.keys() if source_notes.get(key) != target_notes.get(key)
        ]
        for key in differing:
            await self._target.edges.put_note(key, source_notes.get(key))
        return len(differing)


def _open_file(located: Path | str) -> BinaryIO | None:
    """Open a file at the path or URL that an engine gave; None if it is gone. StoreUnavailable."""
    try:
        if isinstance(located, Path):
            return located.open("rb")
        with contextlib.ExitStack() as failing:
            file = failing.enter_context(tempfile.TemporaryFile())
            with urllib.request.urlopen(located, timeout=_ANSWER_TIMEOUT_S) as response:  # noqa: S310 - of our own store
                shutil.copyfileobj(response, file)
                if response.length:  # announced bytes that did not come
                    raise http.client.IncompleteRead(b"", response.length)
            file.seek(0)
            failing.pop_all()
            return file
    except FileNotFoundError:
        return None
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return None
        raise StoreUnavailable(f"the store of files answered {error.code}; try again") from None
    except (OSError, http.client.HTTPException) as error:
        raise StoreUnavailable(f"the store of files did not answer ({type(error).__name__}); try again") from None


async def _has(blobs: BlobStore, key: str) -> bool:
    """Whether a file is known to exist. False for an engine of URLs, which cannot tell: it is sent the file again."""
    located = await blobs.locate(key)
    return located is not None and not isinstance(located, str)
