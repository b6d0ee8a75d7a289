"""A flag that says "too many chunks wait". The process that counts them raises it; after FLAG_MS it expires.

While it is up, the last tier is skipped: its followers find the mention on opening the inbox. It expires because the
process that raised it may die.
"""

from __future__ import annotations

from kith.graph.store import Notes

TASKS_MAX = 50_000
"""Chunks that may wait before the last tier is skipped."""
FLAG_MS = 30_000
"""How long the flag is up after it was raised last."""
FLAG = "mentions/pressure"
"""The note of the flag: until when it is up, in ms since the epoch, as decimal digits."""


async def watch_pressure(notes: Notes, waiting: int, now_ms: int, tasks_max: int = TASKS_MAX) -> bool:
    """Raise the flag if too many chunks wait. Returns whether it is up."""
    until = await notes.get_note(FLAG)
    if waiting > tasks_max:
        if until is None or int(until) - now_ms < FLAG_MS // 2:
            await notes.put_note(FLAG, str(now_ms + FLAG_MS).encode())
        return True
    return is_raised(until, now_ms)


def is_raised(until: bytes | None, now_ms: int) -> bool:
    """Whether the flag is up, given its note."""
    return until is not None and now_ms < int(until) <= now_ms + FLAG_MS
