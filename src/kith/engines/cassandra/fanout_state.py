"""The FanoutState in Cassandra. A consumer has one partition, so one statement reads it all and each change is atomic.

    changes   process -> its number of changes, which is also the write timestamp, so the count only grows. A process
              has two counts: under a negative key for deliveries, under a positive one for all other changes
    name      of the timelines
    DELIVERY  post -> author, failures, checkpoint
    WITHHELD  author -> rate, which is also the write timestamp, so the highest rate stands

A process reloads rows only if `changes` differs from what it read last. If only counts of deliveries differ, it reloads
only deliveries: these come and go all the time, while there may be very many withheld authors. The log itself stores
progress and failures.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kith.core.gathering import gather
from kith.engines.cassandra.connecting import Row, Session
from kith.engines.cassandra.node_time import NodeTime
from kith.engines.cassandra.schema import QUEUE_GRACE_S, Table, short_lived
from kith.home.fanout.state import FAILURES_MAX, Delivery, FanoutSnapshot, Withheld
from kith.log.store import LogStore

FANOUT_STATE = Table(
    "fanout_state",
    ("consumer text",),
    ("kind tinyint", "id bigint"),
    (
        "changes map<bigint, bigint> static",
        "name bigint static",
        "author bigint",
        "failures int",
        "after blob",
        "rate bigint",
    ),
    options=short_lived(QUEUE_GRACE_S),
)
DELIVERY, WITHHELD = 1, 2
ROWS_A_CHANGE = 100
CHANGES_KEPT_S = 86_400
"""How long Cassandra keeps the change count of a process (TTL)."""
RELOAD_AFTER_S = 3_600.0
"""Everything is reloaded after this time, which must be less than CHANGES_KEPT_S."""
_CHANGES = "SELECT changes FROM fanout_state WHERE consumer = ? LIMIT 1"
_ROWS = "SELECT name, kind, id, author, failures, after, rate FROM fanout_state WHERE consumer = ?"
_DELIVERIES = "SELECT kind, id, author, failures, after FROM fanout_state WHERE consumer = ? AND kind = ?"
_CHANGED = "UPDATE fanout_state USING TIMESTAMP ? AND TTL ? SET changes[?] = ? WHERE consumer = ?"
_DELIVER = (
    "UPDATE fanout_state USING TIMESTAMP ? SET author = ?, failures = ?, after = ?"
    " WHERE consumer = ? AND kind = ? AND id = ?"
)
_WITHHOLD = "UPDATE fanout_state USING TIMESTAMP ? SET rate = ? WHERE consumer = ? AND kind = ? AND id = ?"
_END = "DELETE FROM fanout_state USING TIMESTAMP ? WHERE consumer = ? AND kind = ? AND id = ?"
_END_ALL = "DELETE FROM fanout_state USING TIMESTAMP ? WHERE consumer = ? AND kind = ?"
_NAME = "UPDATE fanout_state USING TIMESTAMP ? SET name = ? WHERE consumer = ?"


class _CachedState(NamedTuple):
    """The cached state. Its rows were read after `changes`, so they may be newer, never older."""

    changes: dict[int, int]
    name: int | None
    deliveries: Sequence[Delivery]
    withheld: Withheld
    read_s: float


class CassandraFanoutState:
    """See `home.fanout.state.FanoutState`. `group`: the consumer; its progress and failures are read from `log`."""

    immediate = False

    def __init__(
        self, session: Session, log: LogStore, group: str, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._session, self._log, self._group, self._clock_s = session, log, group, clock_s
        self._node_time = NodeTime(session, clock_s)
        self._process, self._change_count = secrets.randbits(62), 0
        self._cached: _CachedState | None = None

    async def snapshot(self) -> FanoutSnapshot:
        progress = await self._log.progress(self._group)  # first: what is handled meanwhile is then only read twice
        state, failures = await gather(False, self._read(), self._log.failures(self._group, FAILURES_MAX + 1))
        events = [failure.event for failure in failures]
        return FanoutSnapshot(progress, state.name, state.deliveries, state.withheld, events)

    async def withhold(self, rates: Mapping[int, int]) -> None:
        # rates never fall, so a cached rate need not be written again
        cached = None if self._cached is None else self._cached.withheld
        rows = [
            (_WITHHOLD, (rate, rate, self._group, WITHHELD, author))
            for author, rate in rates.items()
            if cached is None or cached.rate_of(author) < rate
        ]
        for start in range(0, len(rows), ROWS_A_CHANGE):
            await self._change(*rows[start : start + ROWS_A_CHANGE])

    async def deliver(self, delivery: Delivery) -> None:
        at_us, row_key = await self._node_time.now_us(), (self._group, DELIVERY, delivery.post)
        statement = _DELIVER, (at_us, delivery.author, delivery.failures, delivery.after, *row_key)
        await self._change(statement, of_delivery=True)

    async def end_delivery(self, post: int) -> None:
        statement = _END, (await self._node_time.now_us(), self._group, DELIVERY, post)
        await self._change(statement, of_delivery=True)

    async def reset(self, name: int) -> None:
        at_us = await self._node_time.now_us()
        await self._change((_END_ALL, (at_us, self._group, DELIVERY)), (_NAME, (at_us, name, self._group)))

    async def _change(self, *statements: tuple[str, Sequence[Any]], of_delivery: bool = False) -> None:
        """Write rows and this process's change count in one atomic batch."""
        self._change_count += 1
        name = ~self._process if of_delivery else self._process
        change_count = self._change_count, CHANGES_KEPT_S, name, self._change_count, self._group
        await self._session.write_atomically([*statements, (_CHANGED, change_count)])

    async def _read(self) -> _CachedState:
        changes, now_s, cached = await self._read_changes(), self._clock_s(), self._cached
        if cached is None or now_s - cached.read_s > RELOAD_AFTER_S:
            return await self._read_all(changes, now_s)
        if changes == cached.changes:
            return cached
        rows = await self._session.rows(_DELIVERIES, self._group, DELIVERY)
        later = await self._read_changes()  # a delivery notes withheld followers before it ends: check for such notes
        if _other_changes(later) != _other_changes(cached.changes):
            return await self._read_all(later, now_s)
        self._cached = cached._replace(changes=changes, deliveries=_deliveries(rows))
        return self._cached

    async def _read_changes(self) -> dict[int, int]:
        rows = await self._session.rows(_CHANGES, self._group)
        return (rows[0][0] if rows else None) or {}

    async def _read_all(self, changes: dict[int, int], now_s: float) -> _CachedState:
        rows = await self._session.rows(_ROWS, self._group)
        name = rows[0][0] if rows else None
        deliveries = _deliveries([row[1:-1] for row in rows])
        self._cached = _CachedState(changes, name, deliveries, _withheld(rows), now_s)
        return self._cached


def _other_changes(changes: Mapping[int, int]) -> dict[int, int]:
    """The change counts other than those of deliveries."""
    return {process: count for process, count in changes.items() if process >= 0}


def _deliveries(rows: Sequence[Row]) -> list[Delivery]:
    deliveries = [
        Delivery(post, author, after, failures) for kind, post, author, failures, after in rows if kind == DELIVERY
    ]
    return sorted(deliveries, key=lambda delivery: (delivery.failures, delivery.post))


def _withheld(rows: Sequence[Row]) -> Withheld:
    """The withheld authors, ascending as in the rows."""
    rates = [(author, rate) for _, kind, author, _, _, _, rate in rows if kind == WITHHELD]
    both = np.array(rates, np.int64).reshape(-1, 2)
    return Withheld(both[:, 0], both[:, 1])
