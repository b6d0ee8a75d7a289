"""The compare-and-set loop for records: read, decide, write unless somebody else wrote in between; otherwise retry."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from kith.core.backoff import pause_ms
from kith.core.clock import Hlc, HybridClock
from kith.core.errors import Conflict
from kith.core.tokens import NO_MARK
from kith.records.store import Put, Record

REWRITES_MAX = 16
"""How often a change is tried, because somebody else may change the same record in between."""
PAUSE_MS_MAX = 50
NOTHING_TO_DO = Put(True, [], NO_MARK)
"""The `Put` of an attempt that found nothing to change."""
_Made = TypeVar("_Made")
_fields = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def next_version(clock: HybridClock, stored: Record | None) -> Hlc:
    """A version that is greater than the stored one, even if another host's clock made that.

    All that this host writes from now on is newer too.
    """
    if stored is None:
        return clock.next()
    clock.observe(stored.updated_at)
    return max(clock.next(), Hlc(stored.updated_at + 1))


def with_newer_fields(record: Record, stored: Record | None) -> Record:
    """A record that is changed, an array, with the fields that a newer Kith has put behind those that this one knows.

    So machines of two versions can change one record in turn. Not for what is emptied: nothing of it may stay.
    """
    return record if stored is None else msgspec.structs.replace(record, data=newer_fields(record.data, stored.data))


def newer_fields(known: bytes, stored: bytes) -> bytes:
    """Like `with_newer_fields`, of an array by itself."""
    fields, found = _fields(known), _fields(stored)
    return known if len(found) <= len(fields) else msgspec.msgpack.encode([*fields, *found[len(fields) :]])


def newer_fields_of_each(known: bytes, stored: bytes) -> bytes:
    """Like `newer_fields`, of each of several arrays. They are told apart by their first field."""
    by_first = {bytes(_fields(one)[0]): one for one in _fields(stored)}
    return msgspec.msgpack.encode(
        [msgspec.Raw(newer_fields(one, by_first.get(bytes(_fields(one)[0]), one))) for one in _fields(known)]
    )


async def rewrite(what: str, id_: int, attempt: Callable[[], Awaitable[tuple[Put, _Made]]]) -> tuple[Put, _Made]:
    """Call `attempt` until its put is stored, and return what it returned then.

    Each attempt reads the records anew, and puts them on the condition that they are unchanged (`AtVersion`). Of many
    at once one succeeds each time, so the others wait, at random, longer each time. Conflict after REWRITES_MAX
    attempts; its message names `what`, its details `id_`.
    """
    for failures in range(1, REWRITES_MAX + 1):
        put, made = await attempt()
        if put.stored:
            return put, made
        await asyncio.sleep(random.random() * pause_ms(failures, 1, PAUSE_MS_MAX) / 1000)
    raise Conflict(f"{what} is being changed by many at once; try again", id=str(id_))
