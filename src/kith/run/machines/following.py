"""Follows a primary: one process of `kith standby` keeps the standby's store and media a moment behind the primary's.

Media files are fetched before the records that name them, and deleted after them; so no record lacks its file. The
follower may be killed at any point: it resumes after the last event in its own log.
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
from kith.engines.embedded import group_checkpoints, segments, store_role
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
from kith.run.machines.primary import Primary, name_of
from kith.run.machines.standby_lag import StandbyLag
from kith.run.opening.folders import media_folder
from kith.run.opening.one_machine import log_bounds
from kith.run.serving import heartbeats, processes
from kith.run.serving.processes import PROMOTED, START_OVER

MEDIA_MISSING = "standby/media-missing"
"""Note in the store of a standby that still lacks media files of its first snapshot."""
_WAIT_MS = 250
"""How long the primary holds a poll open for an event. An idle standby may report this much lag."""
_RETRY_S, _RETRY_S_MAX, _FILES_RETRY_S_MAX = 0.1, 1.0, 30.0
_PLACES_EVERY_S = 1.0
"""Seconds between two polls for the positions of the primary's consumers. After a promotion, consumers may repeat this
much work.
"""
_ROLE_CHECK_S = 0.05
"""Seconds between a waiting follower's checks whether it was promoted."""
_log = structlog.get_logger("kith.standby")


class StandbyFollower:
    """Replicates a primary's log into the standby's store, step by step. `store` is opened with `follows`."""

    def __init__(self, settings: Settings, store: Environment, primary: Primary) -> None:
        self._store, self._primary = store, primary
        self._media = None if settings.media_url else media_folder(settings)
        self._replayed_to: int | None = None  # the last event up to which our log is known to equal the primary's
        self._placed_s = -_PLACES_EVERY_S  # when consumers' positions were last fetched
        self._bells = Bells(store.folder)
        self._retention = Retention(log_bounds(settings), store.log, store.notes_db)

    def step(self, wait_ms: int = _WAIT_MS) -> bool:
        """Apply the primary's next events, waiting up to `wait_ms` for one.

        Returns whether the standby had all of the primary's events when the step began.
        Errors: TokenTooOld; Conflict, if the store has events of its own, or is no longer a standby; Unavailable.
        """
        after = segments.last_event(self._store)
        asked_s = time.monotonic()
        with_places = asked_s - self._placed_s >= _PLACES_EVERY_S
        history = self._store.history().name
        raw = self._primary.log(after, self._replayed_to, wait_ms, with_places=with_places, history=history)
        if raw is None:
            return True
        segment = segments.unpack(raw, f"what {self._primary.url} sent")
        changed = list(self._media_of(segment, after))
        self._fetch(changed)
        is_caught_up = segments.newest(segment)[0] >= segment.end
        notes: dict[str, bytes | None] = {}
        if is_caught_up and with_places:  # all that the primary's consumers wrote is here then
            # without fan-out, because its timelines are not replicated
            notes = group_checkpoints.changed_notes(self._store, segment.notes, excluded=(fanout.NAME,))
        self._replayed_to = segments.replay(self._store, segment, retention=self._retention, beside=notes)
        if is_caught_up and with_places:
            self._placed_s = asked_s
        if self._replayed_to > after:
            self._bells.ring()
        self._drop(changed)
        return is_caught_up

    def catch_up(self, last: int) -> None:
        """Apply all events up to `last`. Errors: those of `step`."""
        while segments.last_event(self._store) < last:
            self.step(0)

    def fetch_missing(self) -> int:
        """Fetch the missing files of all media records; how many. Errors: Unavailable, StoreMismatch."""
        fetched = self._fetch(read_media(record) for record in every_record(self._store, RecordKind.MEDIA))
        self._store.put_note(MEDIA_MISSING, None)
        return fetched

    def _media_of(self, segment: Segment, after: int) -> Iterator[Media]:
        """The media records that a segment changes after an event."""
        for sequence, event in segments.numbered(segment):
            if sequence > after and (record := changed_record(change_of(event), RecordKind.MEDIA)):
                yield read_media(record)

    def _fetch(self, changed: Iterable[Media]) -> int:
        """Fetch the missing files, unless they are in a bucket; how many."""
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
    """Follow until this machine is no longer a standby, or must start over; returns the exit status to end with.

    `key`: the machine key of this store (see `opening.keys.machine_key`).
    """
    folder, bytes_max = Path(settings.data), settings.store_bytes_max
    # opened with full durability, whatever the settings say: what the standby confirms to the primary must last
    with Environment(folder, bytes_max=bytes_max, create=False, follows=True) as store:
        closed = store_role.read_closed_note(store)
        if closed is None:
            return PROMOTED
        with (
            Primary(closed.primary, key, name=name_of(store.folder)) as primary,
            Primary(closed.primary, key) as media_primary,
        ):
            if store.get_note(MEDIA_MISSING) is not None:
                fetching = threading.Thread(
                    target=_fetch_all, args=(StandbyFollower(settings, store, media_primary),), daemon=True
                )
                fetching.start()
            return _FollowLoop(StandbyFollower(settings, store, primary), store).run()


def _fetch_all(follower: StandbyFollower) -> None:
    """Fetch the snapshot's media files while the follower runs, retrying until done."""
    pause_s = _RETRY_S
    while True:
        try:
            _log.info("the standby has all files of media", fetched=follower.fetch_missing())
            return
        except Conflict:  # this machine is no longer a standby
            return
        except KithError as error:
            _log.warning("files of media are fetched later", error=error.message)
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _FILES_RETRY_S_MAX)


class _FollowLoop:
    """The loop of a follower: retries failed steps and reports the problem."""

    def __init__(self, follower: StandbyFollower, store: Environment) -> None:
        self._follower, self._store = follower, store
        self._lag = StandbyLag(store.folder, begin=True)
        self._reported = ""

    def run(self) -> int:
        """Follow until the end; the exit status (see `follow`)."""
        pause_s = _RETRY_S
        while self._store.is_closed():
            _stay_with_supervisor()
            asked_ns = time.monotonic_ns()
            try:
                if self._follower.step():
                    self._lag.note_caught_up(asked_ns)
                pause_s, self._reported = _RETRY_S, ""
            except TokenTooOld as error:
                _log.error("the primary's log does not reach back to this standby: it starts over", error=error.message)
                return START_OVER
            except KithError as error:
                self._report(error)
                self._pause(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S_MAX)
        return PROMOTED

    def _pause(self, seconds: float) -> None:
        """Wait this many seconds, or until this machine is no longer a standby."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and self._store.is_closed():
            time.sleep(_ROLE_CHECK_S)

    def _report(self, error: KithError) -> None:
        if not self._store.is_closed():  # promoted meanwhile: the error does not matter
            return
        self._lag.note_problem(error.message)
        if error.message != self._reported:
            _log.warning("the standby does not follow", error=error.message)
            self._reported = error.message


def _stay_with_supervisor() -> None:
    supervisor = os.environ.get(processes.SUPERVISOR_VARIABLE)
    if supervisor is not None and os.getppid() != int(supervisor):
        os.kill(os.getpid(), signal.SIGTERM)
    heartbeats.beat()
