"""A ranked order, carried by the reader's cursor: what was ranked and not shown yet, and where older posts begin.

So ranked paging is stable without a session on our side: no post comes twice and none is lost, while posts arrive and
scores move, whichever process answers, after any restart. Limit: SLATE_MAX posts, 8 bytes each in the cursor.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from kith.core.errors import BadCursor
from kith.core.paging import Mark

SLATE_MAX = 500
"""Candidates of one ranking (article 001: the light pass looks at about 500)."""
_HEAD = struct.Struct(">B?qq")
_FORM = 1


class Slate(msgspec.Struct, frozen=True):
    """`ids`: best first. `floor`: older posts than this were not looked at; None: there are none."""

    ids: list[int]
    floor: Mark | None

    def pack(self) -> bytes:
        """The slate as a cursor carries it."""
        head = _HEAD.pack(_FORM, self.floor is not None, *(self.floor or (0, 0)))
        return head + np.array(self.ids, ">i8").tobytes()


def unpack(raw: bytes) -> Slate:
    """The slate of a cursor; BadCursor for a form that this version does not know."""
    if len(raw) < _HEAD.size or raw[0] != _FORM:
        raise BadCursor("this cursor is of another version; start again without it")
    _, more, position, id_ = _HEAD.unpack_from(raw)
    ids = np.frombuffer(raw, ">i8", offset=_HEAD.size).astype(np.int64)
    return Slate(ids.tolist(), Mark(position, id_) if more else None)
