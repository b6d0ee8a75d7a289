"""A ranked order, carried by the reader's cursor: what was ranked and not shown yet, and where older posts begin.

So ranked paging is stable without a session on our side: no post comes twice and none is lost, while posts arrive and
scores move, whichever process answers, after any restart. Limit: SLATE_MAX posts, 8 bytes each in the cursor. They are
filled up to a multiple of PAD: how many are left, of which the reader may not see some, shows no finer than that.

Near-duplicates of a post stand right behind it as `~id`. They go when it is shown; where the hard rules keep it back
(it was deleted, its author is muted, the reader may not see it), the next of them takes its place.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from kith.core.errors import BadCursor
from kith.core.paging import Mark

SLATE_MAX = 500
"""Candidates of one ranking (article 001: the light pass looks at about 500)."""
PAD = 64
"""Packed slates are as long as a multiple of so many entries; none is shorter."""
_HEAD = struct.Struct(">B?Hqq")
_FORM, _ID_BYTES = 2, 8


class Slate(msgspec.Struct, frozen=True):
    """`ids`: best first, `~id` for a near-duplicate of the one before. `floor`: older posts were not looked at; None:
    there are none.
    """

    ids: list[int]
    floor: Mark | None

    def pack(self) -> bytes:
        """The slate as a cursor carries it."""
        count = len(self.ids)
        head = _HEAD.pack(_FORM, self.floor is not None, count, *(self.floor or (0, 0)))
        filler = bytes(_ID_BYTES * (max(1, -(-count // PAD)) * PAD - count))
        return head + np.array(self.ids, ">i8").tobytes() + filler


def unpack(raw: bytes) -> Slate:
    """The slate of a cursor; BadCursor for a form that this version does not know."""
    size = len(raw) - _HEAD.size
    if size <= 0 or raw[0] != _FORM or size % (PAD * _ID_BYTES):
        raise _foreign()
    _, more, count, position, id_ = _HEAD.unpack_from(raw)
    if count * _ID_BYTES > size:
        raise _foreign()
    ids = np.frombuffer(raw, ">i8", count, _HEAD.size).astype(np.int64)
    return Slate(ids.tolist(), Mark(position, id_) if more else None)


def _foreign() -> BadCursor:
    return BadCursor("this cursor is of another version; start again without it")


def best(ids: Sequence[int], count: int) -> int:
    """How many entries the best `count` of a slate are, the near-duplicates of the last one included."""
    end = min(count, len(ids))
    while end < len(ids) and ids[end] < 0:
        end += 1
    return end


def left(ids: Sequence[int], waiting: Collection[int], shown: Collection[int]) -> list[int]:
    """What remains of a slate: the posts that wait and their near-duplicates, and those of what was not shown."""
    found: list[int] = []
    follow, vacant = True, False  # whether near-duplicates remain, and whether the first of them moves up
    for id_ in ids:
        if id_ >= 0:
            waits = id_ in waiting
            follow, vacant = id_ not in shown, not waits
            if waits:
                found.append(id_)
        elif follow:
            found.append(~id_ if vacant else id_)
            vacant = False
    return found
