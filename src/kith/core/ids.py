"""Ids: 64 bits, from 0 to 2**63-1, so they fit a signed column in any database.

In JSON ids are strings, because JavaScript loses precision above 2**53; requests may send strings or numbers. The app
chooses the ids of users. All other ids are snowflakes: 41 bits of milliseconds since EPOCH_MS, 10 of node, 12 of
sequence. So they sort by time. They last until 2092.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NewType

from kith.core.errors import BadId

NodeId = NewType("NodeId", int)
ID_MAX = 2**63 - 1
EPOCH_MS = 1_672_531_200_000  # 2023-01-01 UTC
NODES_MAX = 1 << 10
_DIGITS_MAX = 19
_NODE_BITS, _SEQUENCE_BITS = 10, 12
TIME_SHIFT = _NODE_BITS + _SEQUENCE_BITS
"""A snowflake shifted right by this is milliseconds since EPOCH_MS."""
_SEQUENCE_MASK = (1 << _SEQUENCE_BITS) - 1


def parse_id(raw: Any, field: str = "id") -> NodeId:
    """Read `raw` (decimal string, bytes or int) as a NodeId. An id has one spelling: `007` is refused.

    BadId names `field` and the allowed range.
    """
    if type(raw) is str and len(raw) <= _DIGITS_MAX and raw.isdigit() and raw.isascii():
        raw = int(raw) if raw[0] != "0" or raw == "0" else None
    elif isinstance(raw, bytes):
        return parse_id(raw.decode("ascii", "replace"), field)
    if type(raw) is int and 0 <= raw <= ID_MAX:
        id_: NodeId = raw  # type: ignore[assignment]
        return id_
    allowed = f"a whole number from 0 to {ID_MAX} without leading zeros, as a string or a number"
    raise BadId(f"{field} must be {allowed}", field=field)


class Snowflakes:
    """Makes ids that grow with time. Thread-safe. `now_ms` is injected, so that tests control the time.

    `node` must belong to this process alone; `check` raises if it may no longer. Ids strictly grow. If the clock stands
    still or goes back, or the 4,096 ids of a millisecond are used up, ids run ahead of the clock instead of waiting.
    `ran_ahead` is called with the millisecond that they reached, before the id is used.
    """

    def __init__(
        self,
        node: int,
        now_ms: Callable[[], int],
        check: Callable[[], None] = lambda: None,
        ran_ahead: Callable[[int], None] = lambda _: None,
    ) -> None:
        if not 0 <= node < NODES_MAX:
            raise ValueError(f"node must be from 0 to {NODES_MAX - 1}")
        self._node, self._now_ms, self._check, self._ran_ahead = node, now_ms, check, ran_ahead
        self._last = -1  # ms since EPOCH_MS << 12 | sequence
        self._lock = threading.Lock()

    def restore(self, ms: int) -> None:
        """Make no ids of this millisecond or earlier: the previous process with our node number may have made them."""
        with self._lock:
            self._last = max(self._last, (ms - EPOCH_MS) << _SEQUENCE_BITS | _SEQUENCE_MASK)

    def next(self) -> NodeId:
        """An id greater than all ids made before. Errors: those of `check`."""
        (made,) = self.next_many(1)
        return made

    def next_many(self, count: int) -> list[NodeId]:
        """`count` ids, ascending; see `next`."""
        self._check()
        with self._lock:
            now = self._now_ms() - EPOCH_MS
            first = max(self._last + 1, now << _SEQUENCE_BITS)
            self._last = first + count - 1
            if self._last >> _SEQUENCE_BITS > now:
                self._ran_ahead((self._last >> _SEQUENCE_BITS) + EPOCH_MS)
        node, bits = self._node << _SEQUENCE_BITS, _NODE_BITS + _SEQUENCE_BITS
        return [NodeId(at >> _SEQUENCE_BITS << bits | node | at & _SEQUENCE_MASK) for at in range(first, first + count)]


def made_at_ms(snowflake: int) -> int:
    """When a snowflake was made, in milliseconds since the Unix epoch."""
    return (snowflake >> TIME_SHIFT) + EPOCH_MS
