"""What a primary sends its standbys: a snapshot of the store, then the log in segments. See `standby.source.Source`."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator

import msgspec

from kith.core.errors import Conflict, Overloaded, TokenTooOld
from kith.engines.embedded import group_checkpoints, segments, store_role
from kith.engines.embedded.confirmations import ConfirmedEvent
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.store_copy import copy_of
from kith.standby.source import Epoch

SNAPSHOT_END = b"kith-end"
"""Ends a snapshot, followed by the SHA-256 of all bytes before it. A truncated snapshot lacks it."""
SEGMENT_BYTES = 1 << 18
"""About how many bytes of log rows a segment has."""
WAITING_MAX = 16
"""Requests of standbys that wait for events in one process, at most; beyond that, Overloaded."""
_CHUNK_BYTES = 1 << 18
_POLL_S = 1.0
"""Seconds after which waiting requests check the log even without a ring of the bell."""


class Shipping:
    """The `standby.source.Source` of one process, which must close it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._confirmed = ConfirmedEvent(environment.folder, environment.history().name)
        self._waiting, self._copying = 0, False
        self._rang = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop listening for commits."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        self._confirmed.close()

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        if self._copying:
            raise Overloaded("another standby is being given a snapshot here; try again when it has it")
        self._copying = True
        digest = hashlib.sha256()
        try:
            with copy_of(self._environment) as reading:
                while chunk := await asyncio.to_thread(os.read, reading, _CHUNK_BYTES):
                    digest.update(chunk)
                    yield chunk
            yield SNAPSHOT_END + digest.digest()
        finally:
            self._copying = False

    async def log(
        self, after: int, has: int | None, wait_s: float, *, with_places: bool = False, history: int | None = None
    ) -> bytes | None:
        if has is not None and history in (None, self._environment.history().name):
            self._confirmed.note(has)
            if not (with_places or await self._has_more(after, wait_s)):
                return None
        try:
            group_notes = group_checkpoints.group_notes(self._environment) if with_places else {}
            segment = segments.next_segment(self._environment, after, SEGMENT_BYTES)
            return segments.pack(msgspec.structs.replace(segment, notes=segment.notes | group_notes))
        except Conflict as error:
            raise TokenTooOld(error.message) from None

    async def _has_more(self, after: int, wait_s: float) -> bool:
        """Wait up to `wait_s` for events after `after`. Returns whether there are any."""
        if segments.last_event(self._environment) > after:
            return True
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"{self._waiting} standbys wait here already")
        if self._listening is None or self._listening.done():  # done: it failed
            self._listening = asyncio.create_task(self._listen())
        self._waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                while segments.last_event(self._environment) <= after:
                    await self._rang.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _listen(self) -> None:
        """Wake the waiting requests whenever events are committed."""
        with self._environment.doorbell.bell() as bell:
            while True:
                await bell.rung(_POLL_S)
                rang, self._rang = self._rang, asyncio.Event()
                rang.set()

    async def epoch(self) -> Epoch:
        return store_role.epoch_of(self._environment)

    async def fence(self, newer: Epoch, primary: str) -> int:
        return await asyncio.to_thread(store_role.fence, self._environment, newer, primary)
