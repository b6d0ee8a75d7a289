"""Reads a page of a list between bounds, with a few seeks, however long the list is and wherever the page lies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import filterfalse
from typing import TypeAlias

from kith.core.paging import Page, Window
from kith.engines.embedded import runs
from kith.engines.embedded.keys import AFTER_ALL, just_after, just_before, list_row, read_marks

_FIRST_STEP, _STEP_MAX = 32, 1_024
"""Entries read at once, at first and at most, where some are hidden."""
_Read: TypeAlias = Callable[[runs.RunCursor, bytes, bytes, int], list[bytes]]


def newest_page(tail: bytes | None, limit: int) -> Page | None:
    """The newest page of a run, read from its tail alone, as most pages are. None if the page needs more blocks."""
    rows = runs.newest_in(tail, limit)
    if rows is None:
        return None
    marks = read_marks(rows)
    marks.reverse()
    return Page(marks, tail is not None and runs.length_of(tail) > limit, False)


def page_of(
    cursor: runs.RunCursor, prefix: bytes, window: Window, hidden: Callable[[bytes], bool] | None = None
) -> Page:
    """The page of a run that `window` asks for.

    The newest page is one lookup. Any other read seeks to a place between the bounds, and steps from there. `hidden`:
    tells which entries to leave out. Inside, `floor` < row < `ceiling` are the bounds as bytes, and `start` is a place
    between them.
    """
    limit, after, before, since, until, _ = window
    if after is None and before is None and since is None and until is None and hidden is None:
        rows = runs.below(cursor, prefix, None, limit + 1)
        return Page(read_marks(b"".join(rows[:limit])), len(rows) > limit, False)
    floor = b"" if window.since is None else just_before(list_row(window.since, 0))
    ceiling = AFTER_ALL if window.until is None else list_row(window.until, 0)

    def newer(than: bytes, limit: int) -> list[bytes]:
        return read_visible(runs.above, max(than, floor), limit, ceiling.__gt__)

    def older(than: bytes, limit: int) -> list[bytes]:
        return read_visible(runs.below, min(than, ceiling), limit, floor.__lt__)

    def read_visible(read: _Read, place: bytes, limit: int, is_within: Callable[[bytes], bool]) -> list[bytes]:
        if hidden is None:
            return list(filter(is_within, read(cursor, prefix, place, limit)))
        visible, size = list[bytes](), max(limit, _FIRST_STEP)
        while True:
            rows = read(cursor, prefix, place, size)
            within = list(filter(is_within, rows))
            visible += filterfalse(hidden, within)
            if len(visible) >= limit or len(within) < size:
                return visible[:limit]
            place, size = rows[-1], min(2 * size, _STEP_MAX)

    if window.before is not None:
        start = list_row(*window.before)
        rows = newer(start, window.limit + 1)
        has_newer, rows = len(rows) > window.limit, rows[: window.limit][::-1]
        has_older = bool(older(rows[-1] if rows else just_after(start), 1))
    else:
        start = ceiling if window.after is None else list_row(*window.after)
        rows = older(start, window.limit + 1)
        has_older, rows = len(rows) > window.limit, rows[: window.limit]
        has_newer = window.after is not None and bool(newer(rows[0] if rows else just_before(start), 1))
    return Page(read_marks(b"".join(rows)), has_older, has_newer)
