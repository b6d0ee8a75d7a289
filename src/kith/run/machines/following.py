"""A standby: its store and media are kept a moment behind the primary's, by one process of `kith standby`.

Files of media come before the records that name them, and go after them; so no record lacks its file. Killed at any
point, it goes on from the last event that its log has.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog

from kith.core.errors import Conflict, KithError, TokenTooOld
from kith.engines.embedded import places, segments, store_role
from kith.engines.embedded.bells import Bells
from kith.engines.embedded.changes import changed_record
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_rows import change_of
from kith.engines.embedded.record_store import every_record
from kith.engines.embedded.retention import Retention
from kith.engines.embedded.segments import Segment
from kith.home.fanout import consumer as fanout
from kith.media.media import Media, keys_of, read_media
from kith.records.store import RecordKind
from kith.run.config import Settings
from kith.run.machines.behind import Level
from kith.run.machines.primary import Primary, name_of
from kith.run.opening.folders import media_folder
from kith.run.opening.one_machine import keep
from kith.run.serving import heartbeats, processes
from kith.run.serving.processes import PROMOTED, START_OVER

MEDIA_MISSING = "standby/media-missing"
"""The note of a standby that has not all files yet of the snapshot that it began with."""
_WAIT_MS = 250
"""How long the primary waits for an event; a standby may seem this far behind while nothing happens."""
_RETRY_S, _RETRY_S_MAX, _FILES_RETRY_S_MAX = 0.1, 1.0, 30.0
_PLACES_EVERY_S = 1.0
"""How often it asks how far the primary's consumers are. After a promotion they may repeat this much."""
_LOOKED_S = 0.05
"""How often a waiting follower checks whether it was promoted."""
_log = structlog.get_logger("kith.standby")


class StandbyFollower:
    """Brings a standby up to its primary, again and again. `store` is opened to follow."""

    def __init__(self, settings: Settings, store: Environment, primary: Primary) -> None:
        self._store, self._primary = store, primary
        self._media = None if settings.media_url else media_folder(settings)
        self._has: int | None = None  # how far our log is known to be that of the primary
        self._placed_s = -_PLACES_EVERY_S  # when it was told how far consumers are
        self._bells = Bells(store.folder)
        self._retention = Retention(keep(settings), store.log, store.notes_db)

    def step(self, wait_ms: int = _WAIT_MS) -> bool:
        """Apply what the primary has by now, or gets soon. Returns whether the standby was level with it when this
        began.

        Errors: TokenTooOld; Conflict, if the store has events of its own, or is no standby any more; Unavailable.
        """
        after = segments.last_event(self._store)
        asked_s = time.monotonic()
        with_places = asked_s - self._placed_s >= _PLACES_EVERY_S
        history = self._store.history().name
        raw = self._primary.log(after, self._has, wait_ms, with_places=with_places, history=history)
        if raw is None:
            return True
        segment = segments.unpack(raw, f"what {self._primary.url} sent")
        changed = list(self._media_of(segment, after))
        self._fetch(changed)
        level = segments.newest(segment)[0] >= segment.end
        beside: dict[str, bytes | None] = {}
        if level and with_places:  # all that consumers of the primary did is here then
            beside = places.changed(self._store, segment.notes, but=(fanout.NAME,))  # whose timelines stay there
        self._has = segments.do(self._store, segment, retention=self._retention, beside=beside)
        if level and with_places:
            self._placed_s = asked_s
        if self._has > after:
            self._bells.ring()
        self._drop(changed)
        return level

    def catch_up(self, last: int) -> None:
        """Do all up to an event. Errors: as of `step`."""
        while segments.last_event(self._store) < last:
            self.step(0)

    def fetch_missing(self) -> int:
        """Fetch the files of all records of media that are not here; how many. Errors: Unavailable, StoreMismatch."""
        fetched = self._fetch(read_media(record) for record in every_record(self._store, RecordKind.MEDIA))
        self._store.put_note(MEDIA_MISSING, None)
        return fetched

    def _media_of(self, segment: Segment, after: int) -> Iterator[Media]:
        """What a segment says of pictures and videos beyond an event."""
        for sequence, event in segments.numbered(segment):
            if sequence > after and (record := changed_record(change_of(event), RecordKind.MEDIA)):
                yield read_media(record)

    def _fetch(self, changed: Iterable[Media]) -> int:
        """Fetch the files that are not here, unless they lie in a bucket; how many."""
        folder, fetched = self._media, 0
        if folder is not None:
            for key in (key for media in changed if not media.deleted for key in keys_of(media)):
                if not (folder / key).exists():
                    fetched += self._primary.media_file(key, folder)
        return fetched

    def _drop(self, changed: list[Media]) -> None:
        for media in changed:
            if media.deleted and self._media is not None:
                for key in keys_of(media):
                    (self._media / key).unlink(missing_ok=True)


def follow(settings: Settings, key: str) -> int:
    """Follow until this is no standby any more, or must start over; the status to end with. `key`: of a machine."""
    folder, bytes_max = Path(settings.data), settings.store_bytes_max
    # syncs whatever `durability` says, as what it tells the primary that it has must last
    with Environment(folder, bytes_max=bytes_max, create=False, follows=True) as store:
        why = store_role.why_closed(store)
        if why is None:
            return PROMOTED
        with Primary(why.primary, key, name=name_of(store.folder)) as primary, Primary(why.primary, key) as beside:
            if store.get_note(MEDIA_MISSING) is not None:
                fetching = threading.Thread(
                    target=_fetch_all, args=(StandbyFollower(settings, store, beside),), daemon=True
                )
                fetching.start()
            return _Following(StandbyFollower(settings, store, primary), store).run()


def _fetch_all(follower: StandbyFollower) -> None:
    """Fetch the files of the snapshot beside following, however often it takes."""
    pause_s = _RETRY_S
    while True:
        try:
            _log.info("the standby has all files of media", fetched=follower.fetch_missing())
            return
        except Conflict:  # it is no standby any more
            return
        except KithError as error:
            _log.warning("files of media are fetched later", error=error.message)
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _FILES_RETRY_S_MAX)


class _Following:
    """The loop of a follower: it retries what fails, and says what is wrong."""

    def __init__(self, follower: StandbyFollower, store: Environment) -> None:
        self._follower, self._store = follower, store
        self._level = Level(store.folder, begin=True)
        self._said = ""

    def run(self) -> int:
        """Follow; how to end (see `follow`)."""
        pause_s = _RETRY_S
        while self._store.is_closed():
            _stay_with_supervisor()
            asked_ns = time.monotonic_ns()
            try:
                if self._follower.step():
                    self._level.was_level(asked_ns)
                pause_s, self._said = _RETRY_S, ""
            except TokenTooOld as error:
                _log.error("the primary's log does not reach back to this standby: it starts over", error=error.message)
                return START_OVER
            except KithError as error:
                self._say(error)
                self._pause(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S_MAX)
        return PROMOTED

    def _pause(self, seconds: float) -> None:
        """Wait, or until this is no standby any more."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and self._store.is_closed():
            time.sleep(_LOOKED_S)

    def _say(self, error: KithError) -> None:
        if not self._store.is_closed():  # it is the primary, and takes nothing from another
            return
        self._level.is_wrong(error.message)
        if error.message != self._said:
            _log.warning("the standby does not follow", error=error.message)
            self._said = error.message


def _stay_with_supervisor() -> None:
    supervisor = os.environ.get(processes.SUPERVISOR_VARIABLE)
    if supervisor is not None and os.getppid() != int(supervisor):
        os.kill(os.getpid(), signal.SIGTERM)
    heartbeats.beat()
