"""Restores a backup into a data folder: a whole, then increments up to a point; a new history begins there.

The store file is renamed into place last, so a folder that has one is restored completely. An interrupted restore is
repeated from the start. Tokens up to the point stay valid. Later tokens are refused, because new events will reuse
their numbers.

Consumers resume at their places in the last increment. If only a part of that increment is restored, places beyond the
point become the point: what consumers wrote right after it for events before it, such as a notice, is not made again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kith.boards import consumer as boards
from kith.core.errors import BadRequest, BadToken, Conflict, StoreMismatch
from kith.core.events import LogPosition
from kith.core.tokens import WriteTokens
from kith.engines.blobs.archives import Archive, FolderArchive
from kith.engines.embedded import fanout_state, group_checkpoints, segments, store_role
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_rows import logged_ms
from kith.engines.embedded.folder_locks import alone, in_use
from kith.engines.embedded.history import History, Restore, StorePositions
from kith.engines.embedded.journal import JOURNAL_FILE
from kith.engines.embedded.segments import Segment
from kith.engines.embedded.store_file import RESTORING, STORE_FILE, sync_folder
from kith.run.backups.backup_maker import mark_of
from kith.run.backups.chain import NEWEST, RestorePlan, RestorePoint, restore_plan
from kith.run.backups.media_files import copy_out, names_of
from kith.run.backups.parts import MEDIA, STORE, Part, Parts, file_of, read_parts, read_verified
from kith.run.config import Settings
from kith.run.opening.folders import media_folder
from kith.watch.tokens import WatchTokens

_SIGNING = "secret/signing"
_REPAIRING = (boards.NAME,)
"""Consumers that keep edges right. They repeat events rather than leave some out, and repeating changes nothing."""


class Restored(NamedTuple):
    """What was restored: the last event, and media files. `lost`: media files missing from the backup, or damaged.

    `ends_ms`: when the backup ends, if that is before the time that was asked for; else 0.
    """

    event: int
    logged_ms: int  # when that event was logged; 0 where there is none
    files: int
    lost: Sequence[str]
    ends_ms: int = 0


def restore(
    settings: Settings, archive: Archive, moment: str | None = None, progress: Callable[[int], None] = lambda _: None
) -> Restored:
    """Restore a backup into the data folder. `moment`: a time or a token, see `restore_point_of`. `progress`: called
    with the number of media files so far.

    Errors: BadRequest, if there is no backup, or no such point in it; Conflict, if a server uses the folder, or it
    holds a store; StoreMismatch, if a part is missing or damaged.
    """
    parts = read_parts(archive)
    if not parts.whole and not parts.damaged:
        return _restore_older(settings, archive, moment, progress)
    if not parts.whole:
        raise StoreMismatch(f"no part of the backup in {archive.where} can be read: {min(parts.damaged.values())}")
    with _new_store(settings) as folder:
        goal = restore_point_of(archive, parts, moment, folder)
        plan = restore_plan(parts.whole, goal, parts.damaged)
        _fetch(archive, plan.whole, folder)
        with _opened(folder, archive.where) as store:
            event, ms = _apply_increments(archive, store, plan, goal)
        names = names_of(archive, [plan.whole, *plan.increments])
        lost = copy_out(archive, names, media_folder(settings), progress)
    ends_ms = max(part.reached_ms for part in parts.whole)
    is_beyond = goal.ms is not None and goal.ms > ends_ms
    return Restored(event, ms, len(names) - len(lost), lost, ends_ms if is_beyond else 0)


def restore_point_of(archive: Archive, parts: Parts, moment: str | None, folder: Path) -> RestorePoint:
    """The point that `moment` names: None for the newest, a time (ISO 8601; UTC where no zone is named), or a token.

    A token is that of a write, or of `GET /watch`. Several tokens joined by dots, as clients keep them for concurrent
    writes, name the first point that has all of these writes. `folder`: an empty one, in which to look up the secret
    that signs tokens.
    """
    if moment is None:
        return NEWEST
    with contextlib.suppress(ValueError):
        time = datetime.fromisoformat(moment)
        return RestorePoint(ms=int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    secret = _signing_secret(archive, parts.whole, folder)
    positions = [_position_of(secret, token) for token in moment.split(".")]
    refused: BadRequest | None = None
    for line in dict.fromkeys(part.line for part in reversed(parts.whole)):
        newest = next(part for part in reversed(parts.whole) if part.line == line)
        store = StorePositions(History(tuple(Restore(*entry) for entry in newest.history)))
        events = [event for position in positions if (event := store.sequence(position)) is not None]
        if len(events) == len(positions):
            goal = RestorePoint(event=max(events), line=line)
            try:
                restore_plan(parts.whole, goal, parts.damaged)
            except BadRequest as error:
                refused = refused or error
            else:
                return goal
    raise refused or BadRequest("that token stands for a write that this backup does not have")


def _position_of(secret: bytes | None, token: str) -> LogPosition:
    """The log position of a token. `secret`: signs the store's tokens; None where it has never signed one."""
    if secret is not None:
        position = WatchTokens(secret).read(token)
        if position is not None:
            return position
        with contextlib.suppress(BadToken):
            return WriteTokens(secret).read(token).at
    raise BadRequest(
        f"{token!r} is neither a time, such as 2026-03-01T09:30, nor a token of the store that was backed up"
    )


def _signing_secret(archive: Archive, parts: Sequence[Part], folder: Path) -> bytes | None:
    """The secret that signs the store's tokens; every increment and every whole holds it."""
    for part in reversed(parts):
        for _, segment in _segments(archive, part):
            return segment.notes.get(_SIGNING)
    _fetch(archive, parts[-1], folder)
    with Environment(folder, create=False) as store:
        return store.get_note(_SIGNING)


def _apply_increments(archive: Archive, store: Environment, plan: RestorePlan, goal: RestorePoint) -> tuple[int, int]:
    """Apply the increments up to the point, and begin a history there; returns the last event and its time in ms.

    Errors: StoreMismatch, if the store does not match the parts' marks.
    """
    _check(store, plan.whole, archive)
    for part in plan.increments:
        if _apply_increment(archive, store, part, goal):
            break
        _check(store, part, archive)
    last, ms = _begin_history(store)
    if goal.event is not None and last != goal.event:
        raise BadRequest(f"that point is not in the backup; the nearest before it is event {last}")
    return last, ms


def _apply_increment(archive: Archive, store: Environment, part: Part, goal: RestorePoint) -> bool:
    """Apply an increment up to the point; returns whether the point lies in it."""
    places: dict[str, bytes] = {}
    is_reached = False
    for name, segment in _segments(archive, part):
        places |= segment.notes
        if segments.last_event(store) > segment.end:
            continue  # the copy of the store has these events already
        until = _until(segment, goal)
        try:
            last = segments.replay(store, segment, until)
        except Conflict as error:
            raise StoreMismatch(f"{archive.where}/{name} does not follow the part before it") from error
        if until is not None and until <= last:
            is_reached = True
            break
    is_whole = segments.last_event(store) >= part.until
    group_checkpoints.advance(store, places, excluded=() if is_whole else _REPAIRING)
    return is_reached


def _begin_history(store: Environment) -> tuple[int, int]:
    """Begin a history after the last event; returns that event and its time in ms."""
    last = segments.last_event(store)
    ms = logged_ms(segments.event_at(store, last))
    store.begin_history()
    store.put_note(fanout_state.NAME_NOTE, b"0")  # existing timelines may belong to a later state
    store.sync()  # the store file moves without its journal
    return last, ms


def _until(segment: Segment, goal: RestorePoint) -> int | None:
    """The last event of a segment that the point includes; None: it includes all."""
    if goal.ms is not None:
        ms = goal.ms
        return next((number - 1 for number, event in segments.numbered(segment) if logged_ms(event) > ms), None)
    return goal.event


def _check(store: Environment, part: Part, archive: Archive) -> None:
    """Raise StoreMismatch, if the store's event at the end of a part does not have the part's mark."""
    if mark_of(segments.event_at(store, part.until)) != part.mark:
        raise StoreMismatch(f"what {part.id} in {archive.where} holds is not what was backed up at event {part.until}")


def _segments(archive: Archive, part: Part) -> Iterator[tuple[str, Segment]]:
    """The log segments of an increment, in order, each with the name of its file."""
    for key, file in sorted(part.files.items()):
        if key not in (STORE, MEDIA):
            name = file_of(part.id, key)
            yield name, segments.unpack(b"".join(read_verified(archive, name, file)), f"{archive.where}/{name}")


def _fetch(archive: Archive, whole: Part, folder: Path) -> None:
    """Write a whole's copy of the store into a folder, replacing the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    copy = read_verified(archive, file_of(whole.id, STORE), whole.files[STORE])
    FolderArchive(folder).put(STORE_FILE, copy)


@contextlib.contextmanager
def _new_store(settings: Settings) -> Iterator[Path]:
    """Lock the data folder, and yield a folder to build a store in; at the end it becomes the data folder's store."""
    folder = Path(settings.data)
    with alone(folder) as is_alone:
        if not is_alone:
            raise Conflict(in_use(folder))
        if (folder / STORE_FILE).exists():
            raise Conflict(f"{folder} already holds a store; move it away, or name another folder with --data")
        building = folder / RESTORING
        try:
            yield building
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        (folder / JOURNAL_FILE).unlink(missing_ok=True)  # the journal of a store that was moved away
        sync_folder(folder)
        (building / STORE_FILE).replace(folder / STORE_FILE)
        shutil.rmtree(building)
        (folder / STORE_FILE).chmod(0o600)
        sync_folder(folder)


@contextlib.contextmanager
def _opened(folder: Path, where: str) -> Iterator[Environment]:
    """Open a copied store, perhaps a standby's, as a primary. Errors name the archive `where`, not the folder."""
    try:
        store_role.detach_copy(folder)
        with Environment(folder, create=False) as store:
            yield store
    except StoreMismatch as error:
        raise StoreMismatch(error.message.replace(str(folder), where), **error.details) from error


def _restore_older(
    settings: Settings, archive: Archive, moment: str | None, progress: Callable[[int], None]
) -> Restored:
    """Restore a backup in the old format, from before parts: a folder with `store.mdb` and `media/`."""
    if not isinstance(archive, FolderArchive) or not (Path(archive.where) / STORE_FILE).is_file():
        raise BadRequest(f"{archive.where} holds no backup")
    if moment is not None:
        raise BadRequest(f"{archive.where} holds one moment only; restore it without --at")
    if (Path(archive.where) / JOURNAL_FILE).exists():  # its last writes, without which the store is half a store
        raise BadRequest(
            f"{archive.where} is a data folder and no backup: make one with `kith backup PLACE --data "
            f"{archive.where}`, or stop its server and copy the whole folder"
        )
    source, files = Path(archive.where) / MEDIA, 0
    with _new_store(settings) as folder:
        shutil.rmtree(folder, ignore_errors=True)
        FolderArchive(folder).put(STORE_FILE, archive.read(STORE_FILE))
        with _opened(folder, archive.where) as store:
            event, ms = _begin_history(store)
        target = FolderArchive(media_folder(settings), private=False)
        for file in source.rglob("*"):
            if file.is_file() and "#" not in file.name:
                name = file.relative_to(source).as_posix()
                target.put(name, archive.read(f"{MEDIA}/{name}"))
                files += 1
                progress(files)
    return Restored(event, ms, files, [])
