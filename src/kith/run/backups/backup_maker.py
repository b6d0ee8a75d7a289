"""Makes one part of a backup: an increment of the log, or a copy of the whole store, while servers run.

Every file is read back and verified after it was written. The manifest of a part is written last. So an interrupted
part does not count, and the next part starts where the last complete one ended. Two parts that are made at once both
count: parts may overlap.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from kith.core.clock import wall_ms
from kith.core.errors import Conflict, StoreMismatch
from kith.engines.blobs.archives import Archive
from kith.engines.embedded import group_checkpoints, segments, store_role
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_rows import logged_ms
from kith.engines.embedded.store_copy import copy_of
from kith.engines.embedded.store_file import STORE_FILE
from kith.run.backups.chain import last_part, restore_plan
from kith.run.backups.media_files import StoredFiles, copy_in, list_of, names_of
from kith.run.backups.parts import (
    MEDIA,
    STORE,
    VERSION,
    Part,
    Parts,
    StoredFile,
    encode_manifest,
    file_of,
    manifest_of,
    next_id,
    put_verified,
    read_latest,
)
from kith.run.opening.folders import refuse_unfinished

BYTES_A_SEGMENT = 2 << 20
"""Bytes of the log in one file, and in memory: some 200,000 edges."""
_CHUNK_BYTES = 1 << 20
SECRET = "backups"  # noqa: S105 - the name of a secret, whose digest identifies the store


class BackupResult(NamedTuple):
    """The parts that were made; none if nothing was new. `because`: why a whole was made instead of an increment."""

    parts: Sequence[Part]
    files: int  # of media, copied now
    because: str


class _Log(NamedTuple):
    """The log in an increment: its files, and the last event's number, mark, and the times of its events."""

    files: Mapping[str, StoredFile]
    until: int
    mark: str
    first_ms: int
    last_ms: int


class BackupMaker:
    """Backs up one store into one archive. `media`: the folder of its media files; None where they are in a bucket.

    `progress`: called with the number of media files copied so far; if it raises, the backup ends and does not count.
    """

    def __init__(
        self,
        store: Environment,
        archive: Archive,
        media: Path | None,
        progress: Callable[[int], None] = lambda _: None,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.archive = archive
        self.until: int | None = None
        """The event after which the next increment starts; None while it is not known."""
        self._store, self._media = store, media
        self._progress, self._now_ms = progress, now_ms
        self._name = hashlib.sha256(store.secret(SECRET)).hexdigest()[:32]
        self._part_cache: dict[str, Part] = {}
        self._files_by_part: dict[str, StoredFiles] = {}  # media files by the id of their part
        self._copied = 0

    def make(self, *, whole: bool, continues: bool = False) -> BackupResult:
        """Make an increment of new events, and if `whole`, or where the log has a gap, a copy of the store too.

        Manifests that were read from the archive are cached for the next call.

        `continues`: the archive must have a part already. One that lost all of them may be a disk that is not mounted.

        Errors: Conflict, where another store, or a later history of this one, is backed up there; NotPrimary and
        StoreMoved, where another machine has taken over this store; StoreMismatch, where a bulk load or a rebuild is
        unfinished, or an archive that must have a part has none; StoreFull, StoreUnavailable.
        """
        closed = store_role.read_closed_note(self._store)
        if closed is not None and closed.why != "standby":
            raise closed.refusal()
        refuse_unfinished(self._store)
        before = read_latest(self.archive, self._part_cache)
        if continues and not before.whole and not before.damaged:
            where = self.archive.where
            raise StoreMismatch(
                f"{where} holds no backup any more: if its disk is not mounted, mount it; "
                f"to begin anew there, run `kith backup {where}` once"
            )
        _refuse_others(self.archive, before, self._name)
        _refuse_older(self.archive, before, self._history())
        self._copied = 0
        last, new_parts, because = last_part(before.whole), list[Part](), ""
        if last is not None:
            try:
                self._check_continues(before, last)
                new_parts += self._increment(before, last)
            except (Conflict, StoreMismatch) as error:
                because = error.message
        elif before.damaged:
            because = min(before.damaged.values())
        if last is None or because or whole:
            line = last.line if last is not None and not because else secrets.token_hex(8)
            last_ms = new_parts[-1].last_ms if new_parts else last.last_ms if last is not None and not because else 0
            new_parts.append(self._whole(Parts([*before.whole, *new_parts], before.damaged), line, last_ms))
        newest = last_part([*before.whole, *new_parts])
        self.until = None if newest is None else newest.until
        return BackupResult(new_parts, self._copied, because)

    def _check_continues(self, before: Parts, last: Part) -> None:
        """Raise Conflict if the log does not continue the last part; StoreMismatch if that part cannot be restored."""
        restore_plan(before.whole, damaged=before.damaged)
        if self._history() != list(last.history):
            raise Conflict("the store was restored since the last backup, and its log went on another way")
        if mark_of(segments.event_at(self._store, last.until)) != last.mark:
            raise Conflict(_gap_message(last.until))

    def _increment(self, before: Parts, last: Part) -> list[Part]:
        """A part with the events after `last`; empty, where nothing is new."""
        began_ms, identity, id_ = self._now_ms(), self._identity(), next_id(before, "increment")
        stored = self._names(before.whole)
        is_new = segments.last_event(self._store) != last.until or identity != last.identity
        log = self._log_after(last, id_) if is_new else None
        new = self._new_files(stored)  # after the log, so the files that it names are included
        if log is None:
            if not new:
                return []
            log = self._log_after(last, id_)
            new = {**new, **self._new_files({**stored, **new})}
        files = dict(log.files)
        if new:
            files[MEDIA] = put_verified(self.archive, file_of(id_, MEDIA), [list_of(new)])
        part = Part(
            VERSION, id_, "increment", last.line, self._name, self._history(), last.until, log.until, log.until,
            log.mark, identity, began_ms, log.first_ms, log.last_ms, files,
        )  # fmt: skip
        return [self._put(part)]

    def _log_after(self, last: Part, id_: str) -> _Log:
        """Store the segments of the log after a part, up to the log's current end.

        The first segment has the places of consumers. They are read before the log, which then has what consumers wrote
        up to their places.
        """
        files: dict[str, StoredFile] = {}
        places = group_checkpoints.group_notes(self._store)
        first_ms, mark, last_ms, position, end = 0, last.mark, last.last_ms, last.until, -1
        while end < 0 or position < end:
            segment = self._segment_after(position)
            if not files:
                segment = msgspec.structs.replace(segment, notes=segment.notes | places)
            end = segment.end if end < 0 else end
            name = f"log-{len(files) + 1:06}"
            files[name] = put_verified(self.archive, file_of(id_, name), [segments.pack(segment)])
            first_ms = first_ms or logged_ms(next(segments.numbered(segment), (0, b""))[1])
            newest, event = segments.newest(segment)
            if newest > position:
                position, mark, last_ms = newest, mark_of(event), max(last_ms, logged_ms(event))
        return _Log(files, position, mark, first_ms, last_ms)

    def _new_files(self, stored: StoredFiles) -> StoredFiles:
        """Copy the media files that the backup lacks."""
        media = copy_in(self._media, self.archive, stored, self._count) if self._media else {}
        return {name: file for name, file in media.items() if name not in stored}

    def _whole(self, before: Parts, line: str, last_ms: int) -> Part:
        """A part with a copy of the store. `last_ms`: the latest event time in its line so far."""
        began_ms, identity, id_ = self._now_ms(), self._identity(), next_id(before, "whole")
        until = segments.last_event(self._store)
        mark = mark_of(segments.event_at(self._store, until))
        with copy_of(self._store) as reading:
            chunks = iter(partial(os.read, reading, _CHUNK_BYTES), b"")
            files = {STORE: put_verified(self.archive, file_of(id_, STORE), chunks)}
        last_event = segments.last_event(self._store)  # the copy ends somewhere between `until` and this
        last_ms = max(last_ms, segments.latest_ms(self._store, last_event))
        if self._media:  # after the store, so the files that it names are included
            stored: StoredFiles = {}
            with contextlib.suppress(StoreMismatch):  # an unreadable list: each file in the archive is compared instead
                stored = self._names(before.whole)
            media = copy_in(self._media, self.archive, stored, self._count)
            files[MEDIA] = put_verified(self.archive, file_of(id_, MEDIA), [list_of(media)])
        part = Part(
            VERSION, id_, "whole", line, self._name, self._history(), 0, until, last_event,
            mark, identity, began_ms, 0, last_ms, files,
        )  # fmt: skip
        return self._put(part)

    def _put(self, part: Part) -> Part:
        """Write the manifest of a part; from now on the part counts."""
        put_verified(self.archive, manifest_of(part.id), [encode_manifest(part)])
        return part

    def _segment_after(self, after: int) -> segments.Segment:
        try:
            return segments.next_segment(self._store, after, BYTES_A_SEGMENT)
        except Conflict as error:
            raise Conflict(_gap_message(after)) from error

    def _identity(self) -> str:
        graphs, notes = segments.identity(self._store)
        return hashlib.sha256(msgspec.msgpack.encode([sorted(graphs.items()), sorted(notes.items())])).hexdigest()

    def _history(self) -> list[tuple[int, int]]:
        return [(restore.name, restore.shared) for restore in self._store.history().restores]

    def _names(self, before: Sequence[Part]) -> StoredFiles:
        """The media files of the newest whole and of the parts after it. Each list is read once."""
        if not self._media:
            return {}
        start = max((number for number, part in enumerate(before) if part.kind == "whole"), default=0)
        self._files_by_part = {
            part.id: self._files_by_part[part.id] if part.id in self._files_by_part else names_of(self.archive, [part])
            for part in before[start:]
        }
        return {name: file for names in self._files_by_part.values() for name, file in names.items()}

    def _count(self, files: int) -> None:
        self._copied = files
        self._progress(files)


def _refuse_others(archive: Archive, parts: Parts, store: str) -> None:
    if any(part.store != store for part in parts.whole):
        raise Conflict(f"{archive.where} holds the backup of another store; name another place")
    if not parts.whole and next((True for file in archive.files("") if file.name == STORE_FILE), False):
        raise Conflict(f"{archive.where} already holds a store, or a backup of an older Kith; name an empty place")


def _refuse_older(archive: Archive, parts: Parts, history: Sequence[tuple[int, int]]) -> None:
    """Raise Conflict if the backup holds a history that continues ours: our part would be older but count as newest."""
    for part in parts.whole:
        if len(part.history) > len(history) and list(part.history[: len(history)]) == list(history):
            raise Conflict(
                f"{archive.where} holds backups of a machine that went on from this store, as after a promotion or a "
                "restore; back this one up to another place"
            )


def mark_of(event: bytes) -> str:
    """The mark of an event, its SHA-256; empty for no event."""
    return hashlib.sha256(event).hexdigest() if event else ""


def _gap_message(after: int) -> str:
    return (
        f"the log does not go on after event {after} of the last backup: a bulk import lies there, or events were "
        "forgotten (see `log_events_max`), or another copy of the store was put in its place"
    )
