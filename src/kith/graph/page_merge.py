"""One page of several lists, as if they were one list in the order of (position, id). Pure.

Each list gives a page for the same window. The merged page ends where the first of these pages ends: beyond that, other
lists may have entries that were not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.paging import Mark, Page, Window
from kith.graph.walk import LIST_END


def merge_pages(pages: Sequence[Page], window: Window) -> Page:
    """The page for `window` of all lists together. `pages`: each list's page for it, with the same limit.

    A list's page may be short and still have more (`graph.walk`). The merged page then ends where that page ends.
    """
    backward = window.before is not None
    marks = sorted({mark for page in pages for mark in page.items}, reverse=not backward)
    ends = [page.newest if backward else page.oldest for page in pages if _more(page, backward)]
    known = [end for end in ends if end is not None]
    end = (min(known) if backward else max(known)) if known else None
    if end is not None:
        marks = [mark for mark in marks if (mark <= end if backward else mark >= end)]
    more = bool(ends)
    if len(marks) > window.limit:
        marks, more = marks[: window.limit], True
        end = marks[-1]
    if window.before is not None:
        return _page(marks[::-1], window.before > LIST_END, more, end)
    return _page(marks, more, window.after is not None, end)


def _more(page: Page, backward: bool) -> bool:
    """Whether a list has more on the side that the window leads to."""
    return page.more_before if backward else page.more_after


def _page(items: list[Mark], more_after: bool, more_before: bool, end: Mark | None) -> Page:
    """A page that covers its items, and the list up to `end` if that lies beyond them."""
    known = [*items, *([] if end is None else [end])]
    if not known:
        return Page([], False, False)
    return Page(items, more_after, more_before, (max(known), min(known)))
