"""Ids are 64-bit: 0 to 2**63-1, so they fit a signed column everywhere.

In JSON they are strings, because JavaScript loses integers above 2**53; requests may send either.
"""

from __future__ import annotations

from typing import Any, NewType

from kith.core.errors import BadId

NodeId = NewType("NodeId", int)
ID_MAX = 2**63 - 1
_DIGITS_MAX = 19


def parse_id(raw: Any, field: str = "id") -> NodeId:
    """`raw` (decimal string, bytes or int) as a NodeId; BadId names `field` and the range."""
    if isinstance(raw, bytes):
        raw = raw.decode("ascii", "replace")
    if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) <= _DIGITS_MAX:
        raw = int(raw)
    if type(raw) is int and 0 <= raw <= ID_MAX:
        return NodeId(raw)
    raise BadId(f"{field} must be a whole number from 0 to {ID_MAX}, as a string or a number", field=field)
