"""Messages that a provider did not take, stored per device until it does. So a provider that is away delays no other.

One note per device: `push-owed/<device>`, `PendingPush` as JSON, changed by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from kith.core.backoff import pause_ms
from kith.core.errors import Conflict, Overloaded
from kith.graph.store import Notes

PREFIX = "push-owed/"
FAULTS = "push-fault/"
"""Prefix of the notes that say why a provider refuses us, `push-fault/<kind>`. Deleted once it takes a message."""
PENDING_DEVICES_MAX = 10_000
"""Devices that are owed something. Beyond, the consumer waits, and the log holds the rest."""
NOTICES_MAX = 50
"""Notices that one device is owed, the newest. Older ones are in the inbox only."""
PAUSE_MS, PAUSE_MS_MAX = 2_000, 600_000
"""First and longest pause between tries."""
_REWRITES_MAX = 16
"""Tries to change one note before Conflict."""


class PendingPush(msgspec.Struct, frozen=True, array_like=True):
    """What a device is owed: notices, oldest first.

    `tries`: tries in a row that sent none. `next_try_ms`: when to retry, since the epoch.
    """

    user: int
    notices: tuple[int, ...]
    tries: int = 0
    next_try_ms: int = 0


class PendingPushNote(NamedTuple):
    """What a device is owed, with its note as read (`raw`)."""

    device: int
    raw: bytes
    pending: PendingPush


_encode, _decode = msgspec.json.encode, msgspec.json.Decoder(PendingPush).decode


def _merged_note(raw: bytes, owed: PendingPush) -> bytes:
    """The note that replaces `raw`. Fields that a newer Kith added to `raw` stay."""
    fields = msgspec.to_builtins(owed)
    return _encode([*fields, *msgspec.json.decode(raw)[len(fields) :]])


class PendingPushStore:
    """Reads and writes these notes. `chance`: random, 0 to 1, spreads the retries."""

    def __init__(self, notes: Notes, chance: Callable[[], float]) -> None:
        self._notes, self._chance = notes, chance
        self.known: set[int] = set()
        """Devices that are owed something, as of the last `all()` and what this process did since."""

    async def all(self) -> list[PendingPushNote]:
        """What all devices are owed."""
        notes = await self._notes.notes(PREFIX)
        pending_notes = [PendingPushNote(int(key[len(PREFIX) :]), raw, _decode(raw)) for key, raw in notes.items()]
        self.known = {note.device for note in pending_notes}
        return pending_notes

    async def add(self, device: int, user: int, notices: Sequence[int], now_ms: int, wait_ms: int) -> int:
        """Add notices to what a device is owed, to be tried after `wait_ms` at the earliest; returns how many older
        ones were dropped.

        Errors: Overloaded above PENDING_DEVICES_MAX; Conflict.
        """
        if device not in self.known and len(self.known) >= PENDING_DEVICES_MAX:
            raise Overloaded(f"{PENDING_DEVICES_MAX} devices are owed notifications; those of others wait")
        key = f"{PREFIX}{device}"
        for _ in range(_REWRITES_MAX):
            raw = await self._notes.get_note(key)
            old = PendingPush(user, (), 1, now_ms + self._pause_ms(1, wait_ms)) if raw is None else _decode(raw)
            listed = sorted({*old.notices, *notices})
            next_try_ms = max(old.next_try_ms, now_ms + wait_ms) if wait_ms else old.next_try_ms
            owed = msgspec.structs.replace(old, notices=tuple(listed[-NOTICES_MAX:]), next_try_ms=next_try_ms)
            changed = _encode(owed) if raw is None else _merged_note(raw, owed)
            if await self._notes.put_note(key, changed, only_if=raw):
                self.known.add(device)
                return len(listed) - len(owed.notices)
        raise Conflict("what this device is owed is being changed by many at once", device=str(device))

    async def settle(self, note: PendingPushNote, remaining: Sequence[int], now_ms: int, wait_ms: int = 0) -> None:
        """Remove the notices that were tried, except `remaining`; notices added meanwhile stay. Errors: Conflict."""
        key, tried = f"{PREFIX}{note.device}", {*note.pending.notices} - {*remaining}
        for _ in range(_REWRITES_MAX):
            raw = await self._notes.get_note(key)
            if raw is None:
                return
            current = _decode(raw)
            notices = tuple(id_ for id_ in current.notices if id_ not in tried)
            tries = (1 if tried else note.pending.tries + 1) if remaining else 0
            owed = PendingPush(
                current.user, notices, tries, now_ms + self._pause_ms(tries, wait_ms) if remaining else 0
            )
            changed = _merged_note(raw, owed) if notices else None
            if await self._notes.put_note(key, changed, only_if=raw):
                if changed is None:
                    self.known.discard(note.device)
                return
        raise Conflict("what this device is owed is being changed by many at once", device=str(note.device))

    async def fault(self, kind: str, why: str | None) -> None:
        """Note why a provider refuses us; None: it does not any more."""
        await self._notes.put_note(FAULTS + kind, None if why is None else why.encode())

    def _pause_ms(self, tries: int, wait_ms: int) -> int:
        return max(pause_ms(tries, PAUSE_MS, PAUSE_MS_MAX, self._chance()), wait_ms)
