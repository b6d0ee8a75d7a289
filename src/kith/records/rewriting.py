"""Changing records under their versions: read, decide, write unless somebody else wrote in between, and try again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kith.core.clock import Hlc, HybridClock
from kith.core.errors import Conflict
from kith.core.tokens import WriteMark
from kith.records.store import Put, Record

REWRITES_MAX = 16
"""How often a change is tried again because somebody else changed the same record in between."""
NOTHING_TO_DO = Put(True, [], WriteMark(0, 0))
"""What an attempt answers that finds everything as it should be."""
_Made = TypeVar("_Made")


def next_version(clock: HybridClock, stored: Record | None) -> Hlc:
    """A version that replaces the stored one, whichever host's clock made it."""
    return clock.next() if stored is None else max(clock.next(), Hlc(stored.updated_at + 1))


async def rewrite(what: str, id_: int, attempt: Callable[[], Awaitable[tuple[Put, _Made]]]) -> tuple[Put, _Made]:
    """Call `attempt` until its `put` is stored; what it answered then.

    `attempt` reads the records anew, and puts them under the condition that they are as it read them (`AtVersion`).
    Conflict after REWRITES_MAX attempts; `what` and `id_` name the record in its message.
    """
    for _ in range(REWRITES_MAX):
        put, made = await attempt()
        if put.stored:
            return put, made
    raise Conflict(f"{what} is being changed by many at once; try again", id=str(id_))
