"""Pages and cursors.

A cursor marks a place between two items; it is not an offset. So a page costs the same at any depth, and an item that
stays in the list is seen exactly once while others come and go. A cursor is sealed and bound to its query: the list,
the states and the reader. A page has 1 to 1,000 items.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kith.core.errors import BadCursor, BadRequest
from kith.core.signing import Signer

LIMIT_DEFAULT = 20
LIMIT_MAX = 1000
_CURSOR, _UNTIL = struct.Struct(">Bqq"), struct.Struct(">q")  # `_UNTIL` follows only if `next` was given one
_FORWARD, _BACKWARD = 0, 1


class Mark(NamedTuple):
    """An item of a list ordered by (position, id), or the place just past it."""

    position: int
    id: int


class Window(NamedTuple):
    """The requested part of a list. Lists and pages are newest first.

    `after`: items older than this mark. `before`: the items newer than this mark that are nearest to it. Neither: from
    the newest item on. `since` (inclusive) and `until` (exclusive): only items with positions in between, as if the
    list had no others. `looks_back`: whether `more_before` must be right for a page with `after`; if false, it may be
    anything.
    """

    limit: int
    after: Mark | None = None
    before: Mark | None = None
    since: int | None = None
    until: int | None = None
    looks_back: bool = True

    def spans(self, mark: Mark) -> bool:
        """Whether the position of `mark` lies within `since` and `until`."""
        return (self.since is None or mark.position >= self.since) and (
            self.until is None or mark.position < self.until
        )


class Page(msgspec.Struct, frozen=True, gc=False):
    """Items of a list, newest first, and whether there are more on either side.

    A page of a filtered list may have fewer items than the limit, or none, and still have more. `covers` then says
    which part of the list the page stands for, as (newest, oldest). Without it that part ends at the first and last
    item.
    """

    items: list[Mark]
    more_after: bool
    more_before: bool
    covers: tuple[Mark, Mark] | None = None

    @property
    def newest(self) -> Mark | None:
        """The newest end of the page. Newer items lie before it."""
        return self.covers[0] if self.covers else self.items[0] if self.items else None

    @property
    def oldest(self) -> Mark | None:
        """The oldest end of the page. Older items lie after it."""
        return self.covers[1] if self.covers else self.items[-1] if self.items else None


def cut(marks: Sequence[Mark], window: Window) -> Page:
    """The part of a whole list (newest first) that `window` asks for."""
    marks = [mark for mark in marks if window.spans(mark)]
    if window.before is not None:
        newer = [mark for mark in marks if mark > window.before]
        items = newer[-window.limit :]
        return Page(items, len(newer) < len(marks), len(newer) > len(items))
    older = [mark for mark in marks if window.after is None or mark < window.after]
    return Page(older[: window.limit], len(older) > window.limit, len(older) < len(marks))


def check_limit(limit: int) -> int:
    """Return `limit` if it is from 1 to LIMIT_MAX; BadRequest otherwise."""
    if not 1 <= limit <= LIMIT_MAX:
        raise BadRequest(f"limit must be from 1 to {LIMIT_MAX}", limit=limit)
    return limit


class Cursors:
    """Makes and reads the cursors of all lists."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, "cursor")

    def window(self, text: str | None, query: str, limit: int) -> Window:
        """The window of the cursor `text`; from the newest item if there is none. BadCursor if it belongs to another
        query.
        """
        check_limit(limit)
        if not text:
            return Window(limit)
        payload = self.open(text, query)
        if len(payload) not in (_CURSOR.size, _CURSOR.size + _UNTIL.size):
            raise _of_another_list()
        direction, position, id_ = _CURSOR.unpack_from(payload)
        mark = Mark(position, id_)
        if len(payload) > _CURSOR.size:
            return Window(limit, after=mark, until=_UNTIL.unpack_from(payload, _CURSOR.size)[0])
        return Window(limit, after=mark) if direction == _FORWARD else Window(limit, before=mark)

    def seal(self, query: str, payload: bytes) -> str:
        """A cursor that carries `payload`. Only `open` with the same query can read it."""
        return self._signer.seal(payload, _query_digest(query))

    def open(self, text: str, query: str) -> bytes:
        """The payload of a cursor. BadCursor unless it was issued for `query`."""
        payload = self._signer.open(text, _query_digest(query))
        if payload is None:
            raise _of_another_list()
        return payload

    def next(self, query: str, mark: Mark, until: int | None = None) -> str:
        """The cursor for items after (older than) `mark`. `until`: the bound of its window."""
        return self.seal(query, _CURSOR.pack(_FORWARD, *mark) + (b"" if until is None else _UNTIL.pack(until)))

    def previous(self, query: str, mark: Mark) -> str:
        """The cursor for items before (newer than) `mark`."""
        return self.seal(query, _CURSOR.pack(_BACKWARD, *mark))


def _of_another_list() -> BadCursor:
    return BadCursor("this cursor was altered or belongs to another list or reader; start again without it")


def _query_digest(query: str) -> bytes:
    return hashlib.blake2b(query.encode(), digest_size=16).digest()
