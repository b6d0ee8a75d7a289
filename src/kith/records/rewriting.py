"""The compare-and-set loop for records: read, decide, write unless the record changed in between; otherwise retry."""

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
"""How many attempts a change gets, because others may change the record in between."""
PAUSE_MS_MAX = 50
NOTHING_TO_DO = Put(True, [], NO_MARK)
"""The `Put` of an attempt that found nothing to change."""
_Made = TypeVar("_Made")
_fields = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def next_version(clock: HybridClock, stored: Record | None) -> Hlc:
    """A version greater than the stored one, even if another host's clock made that.

    All later versions of this host are greater too.
    """
    if stored is None:
        return clock.next()
    clock.observe(stored.updated_at)
    return max(clock.next(), Hlc(stored.updated_at + 1))


def with_newer_fields(record: Record, stored: Record | None) -> Record:
    """The changed record (an array), with the extra fields that a newer version of Kith appended to the stored one.

    So machines with two versions of Kith can change one record in turn. Not for records that are emptied: nothing of
    those may stay.
    """
    return record if stored is None else msgspec.structs.replace(record, data=newer_fields(record.data, stored.data))


def newer_fields(known: bytes, stored: bytes) -> bytes:
    """As `with_newer_fields`, for the array alone."""
    fields, found = _fields(known), _fields(stored)
    return known if len(found) <= len(fields) else msgspec.msgpack.encode([*fields, *found[len(fields) :]])


def newer_fields_of_each(known: bytes, stored: bytes) -> bytes:
    """As `newer_fields`, for each of several arrays, which are matched by their first field."""
    by_first = {bytes(_fields(one)[0]): one for one in _fields(stored)}
    return msgspec.msgpack.encode(
        [msgspec.Raw(newer_fields(one, by_first.get(bytes(_fields(one)[0]), one))) for one in _fields(known)]
    )


async def rewrite(what: str, id_: int, attempt: Callable[[], Awaitable[tuple[Put, _Made]]]) -> tuple[Put, _Made]:
    """Call `attempt` until its put is stored, and return what it returned then.

    Each attempt must reload the records and put them on the condition that they are unchanged (`AtVersion`). Of
    concurrent attempts one succeeds each time; the others back off randomly, longer each time. Conflict after
    REWRITES_MAX attempts; its message names `what`, its details `id_`.
    """
    for failures in range(1, REWRITES_MAX + 1):
        put, made = await attempt()
        if put.stored:
            return put, made
        await asyncio.sleep(random.random() * pause_ms(failures, 1, PAUSE_MS_MAX) / 1000)
    raise Conflict(f"{what} is being changed by many at once; try again", id=str(id_))
