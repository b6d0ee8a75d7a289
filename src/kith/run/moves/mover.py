"""What both ways of a move share: steps with checkpoints, retried while an engine is down, with progress shown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import structlog

from kith.core.clock import wall_ms
from kith.core.errors import StoreMoved, Unavailable
from kith.core.events import NOWHERE, LogPosition
from kith.core.stopping import stop
from kith.log.lease_holder import LogLeaseHolder
from kith.moving.log_replay import LogReplay
from kith.moving.store_writer import StoreSide, StoreWriter
from kith.moving.table_copy import TableCopy
from kith.notifications import walks
from kith.notifications.tiers import Tier
from kith.run.moves import progress
from kith.run.moves.progress import MoveProgress
from kith.run.opening.stores import OpenStores, WriteDecisions

GIVE_UP_AFTER_S = 600.0
"""Seconds that an engine may be down before a move stops; the same command resumes it."""
LEASE = "move"
_RETRY_S, _RETRY_S_MAX = 0.5, 5.0
_DIVIDE_EVERY_S = 60.0
T = TypeVar("T")
_log = structlog.get_logger("kith.move")


class ShowProgress(Protocol):
    """Shows the progress of a move."""

    def __call__(self, things: str, number: int, /) -> None:
        """Show that `number` of `things` are done so far."""
        ...


class Mover:
    """Moves the store `source`; `noted` is the progress, kept in `folder`.

    `one`, `other`: the side that is read, and the side that is written. `followed`: events applied by this process.
    """

    def __init__(
        self,
        source: OpenStores,
        source_side: StoreSide,
        target_side: StoreSide,
        folder: Path,
        noted: MoveProgress,
        tell: ShowProgress,
    ) -> None:
        self.source, self.one, self.other = source, source_side, target_side
        self.folder, self.noted, self.tell = folder, noted, tell
        self.writing = StoreWriter(source_side, target_side, wall_ms)
        self._log_lease = LogLeaseHolder(source.log, LEASE, wall_ms)
        self.followed = 0

    def note(self) -> None:
        """Checkpoint the progress."""
        progress.write(self.folder, self.noted)

    async def lease_log(self) -> None:
        """Renew the lease of the source's log, from the current position."""
        await self._log_lease.keep(LogPosition(self.noted.at))

    async def release_log(self) -> None:
        """Release the lease of the source's log."""
        await self._log_lease.release()

    async def follow(self) -> None:
        """Apply all events that the source's log holds by now. Errors: those of `LogReplay.step`."""
        noted = self.noted
        replay = LogReplay(self.one, self.other, self.writing, LogPosition(noted.at))
        replay.mentions_to_copy = set(noted.spread)
        end = await retry_while_unavailable(self.source.log.end)
        while True:
            try:
                events = await retry_while_unavailable(replay.step)
            finally:
                noted.at, noted.spread = replay.at, sorted(replay.mentions_to_copy)
                noted.newest = max(noted.newest, replay.newest)
            if (events or not noted.points) and self._has_copied():
                noted.note_match(await retry_while_unavailable(self.other.log.end))
            if events:
                self.followed += events
                self.tell("events of the log done", self.followed)
                self.note()
            await self.lease_log()
            if self.source.log.covers(replay.at, end):
                return

    def _has_copied(self) -> bool:
        """Whether all events that the copy may have seen are applied; from there on, the two logs hold the same."""
        position, copied = LogPosition(self.noted.at), LogPosition(self.noted.copied)
        return copied != NOWHERE and self.source.log.covers(position, copied)

    async def copy(self, table: str, label: str, *, wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """Copy a whole table, without checkpoints."""
        copying, rows = TableCopy(self.one, self.writing, table, wanted=wanted), 0
        while not copying.is_done:
            rows += await retry_while_unavailable(copying.step)
            self.tell(label, rows)

    async def copy_inboxes(self) -> None:
        """Copy again the inbox rows of mentions that were spread to followers since the rows were copied."""
        walking = await walks.Walks(self.source.store).of(Tier)
        mentions = {*self.noted.spread, *(walk.notice for walk in walking)}
        if mentions:
            await self.copy("inboxes", "rows of inboxes looked at", wanted=lambda row: row.notice in mentions)

    async def copy_credentials(self, source: OpenStores, target: OpenStores) -> None:
        """Give the target the server keys and signing secrets of the source. A key that the source lacks is removed: it
        may have been revoked since an earlier copy.
        """
        keys, target_keys = [set(await stores.credentials.server_keys()) for stores in (source, target)]
        for key in keys - target_keys:
            await target.credentials.add_server_key(key)
        for key in target_keys - keys:
            await target.credentials.remove_server_key(key)
        target_secrets = await target.contents.secrets()
        for name, secret in (await source.contents.secrets()).items():
            if target_secrets.get(name) != secret:
                await target.contents.put_secret(name, secret)


async def retry_while_unavailable(action: Callable[[], Awaitable[T]]) -> T:
    """Retry an idempotent action while it raises Unavailable; after GIVE_UP_AFTER_S, raise its error."""
    until_s, pause_s = time.monotonic() + GIVE_UP_AFTER_S, _RETRY_S
    while True:
        try:
            return await action()
        except Unavailable as error:
            if isinstance(error, StoreMoved) or time.monotonic() > until_s:
                raise
            _log.warning("a step of the move failed; it is retried", error=error.message)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _RETRY_S_MAX)


@contextlib.asynccontextmanager
async def sharing_decisions(deciding: WriteDecisions) -> AsyncIterator[None]:
    """Decide the cluster's writes in this process, so that no worker need run; and split long lists."""

    async def divide() -> None:
        while True:
            await asyncio.sleep(_DIVIDE_EVERY_S)
            try:
                await deciding.divide_long()
            except Unavailable as error:
                _log.warning("long lists are divided later", error=error.message)

    async with deciding.own():
        dividing = asyncio.create_task(divide())
        try:
            yield
        finally:
            await stop(dividing)
