"""Inboxes in Cassandra: rows by week and bucket of users.

    inbox_periods   week -> generation, and the number of buckets that its users are spread over
    inbox_rows      generation, bucket -> user, notice (newest first); no values

To expire a week, its row in `inbox_periods` is deleted. No read finds the rows of its generation any more, and
Cassandra drops whole files of them when their TTL ends. Rows that are added to that week later start a new generation.

`add` reads existing rows first, to tell a repeated row from a new one. If two processes add the same row at the same
moment, both may count it as new. Rows are written with the nodes' time as timestamp, so the later of an addition and a
removal wins.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import BatchTooLarge
from kith.core.gathering import gather
from kith.core.ids import ID_MAX
from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.node_time import NodeTime
from kith.engines.cassandra.schema import Table
from kith.notifications.inbox import ADDED_MAX, PAGE_MAX, PERIOD_MS, InboxRow, Users, period_of

T = TypeVar("T")
KEPT_S = 98 * 86_400
"""The TTL of a row: notices are kept for 90 days, and expire together with their whole week."""
INBOX_PERIODS = Table("inbox_periods", ("shelf tinyint",), ("period int",), ("generation bigint", "buckets int"))
INBOX_ROWS = Table(
    "inbox_rows",
    ("generation bigint", "bucket int"),
    ("user bigint", "notice bigint DESC"),
    options=f"default_time_to_live = {KEPT_S} AND compaction = {{'class': 'TimeWindowCompactionStrategy',"
    " 'compaction_window_unit': 'DAYS', 'compaction_window_size': 7}",
)
BUCKETS = 256
"""Buckets of a new week. More buckets make smaller partitions; fewer put more rows into a statement."""
ROWS_A_CHANGE = 100
FIRST_PERIODS = 2
"""A page is first looked for in this many weeks; if they do not fill it, in all others at once."""
_SHELF = 0
_SPREAD, _SPREAD_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # Knuth's multiplicative hashing
_PERIODS = "SELECT period, generation, buckets FROM inbox_periods WHERE shelf = ?"
_BEGIN = "INSERT INTO inbox_periods (shelf, period, generation, buckets) VALUES (?, ?, ?, ?) IF NOT EXISTS"
_FORGET = "DELETE FROM inbox_periods WHERE shelf = ? AND period = ? IF generation = ?"
_ADD = "INSERT INTO inbox_rows (generation, bucket, user, notice) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_REMOVE = "DELETE FROM inbox_rows USING TIMESTAMP ? WHERE generation = ? AND bucket = ? AND user = ? AND notice = ?"
_REMOVE_ALL = "DELETE FROM inbox_rows USING TIMESTAMP ? WHERE generation = ? AND bucket = ? AND user = ?"
_EXISTING = "SELECT user, notice FROM inbox_rows WHERE generation = ? AND bucket = ? AND (user, notice) IN ?"
_HOLDING = "SELECT user FROM inbox_rows WHERE generation = ? AND bucket = ? AND user IN ? AND notice = ?"
_ALL = "SELECT notice FROM inbox_rows WHERE generation = ? AND bucket = ? AND user = ?"
_NEWEST = f"{_ALL} AND notice >= ? AND notice <= ? LIMIT ?"
_OLDEST = f"{_ALL} AND notice >= ? AND notice <= ? ORDER BY notice ASC LIMIT ?"


class _Week(NamedTuple):
    """Where the rows of a week are now."""

    generation: int
    buckets: int

    def places(self, users: Users) -> list[_Place]:
        """The partition of each user."""
        spread = users.astype(np.uint64) * _SPREAD >> _SPREAD_SHIFT
        return [_Place(self.generation, bucket) for bucket in (spread % np.uint64(self.buckets)).tolist()]

    def place(self, user: int) -> _Place:
        """The partition of a user."""
        return self.places(np.array([user], np.int64))[0]


class _Place(NamedTuple):
    """A partition of `inbox_rows`."""

    generation: int
    bucket: int


WeeksByNumber = Mapping[int, _Week]
"""By period."""


class CassandraInboxes:
    """See `notifications.inbox.InboxStore`. `buckets`: how many a new week gets."""

    immediate = False

    def __init__(self, session: Session, *, buckets: int = BUCKETS) -> None:
        self._session, self._buckets, self._node_time = session, buckets, NodeTime(session)
        self._weeks: WeeksByNumber = {}  # as last read

    async def add(self, rows: Sequence[InboxRow]) -> list[bool]:
        _check_size(len(rows), ADDED_MAX)
        weeks = await self._start_weeks({period_of(row.notice) for row in rows})
        distinct = dict.fromkeys(rows)
        new = await self._add((weeks[period_of(row.notice)].place(row.user), row) for row in distinct)
        added = []
        for row in rows:
            added.append(row in new)
            new.discard(row)
        return added

    async def put(self, rows: Sequence[InboxRow]) -> None:
        _check_size(len(rows), ADDED_MAX)
        by_period: defaultdict[int, list[InboxRow]] = defaultdict(list)
        for row in dict.fromkeys(rows):
            by_period[period_of(row.notice)].append(row)
        weeks, at_us = await self._start_weeks(by_period), await self._node_time.now_us()
        statements: list[tuple[str, Sequence[int]]] = []
        for period, rows_of_period in by_period.items():
            places = weeks[period].places(np.array([row.user for row in rows_of_period], np.int64))
            statements += [(_ADD, (*place, *row, at_us)) for place, row in zip(places, rows_of_period, strict=True)]
        await self._session.write_many(statements)

    async def add_for_all(self, notice: int, users: Users) -> int:
        _check_size(len(users), ADDED_MAX)
        if not len(users):
            return 0
        week = (await self._start_weeks({period_of(notice)}))[period_of(notice)]
        rows = (InboxRow(user, notice) for user in users.tolist())
        return len(await self._add(zip(week.places(users), rows, strict=True)))

    async def page(self, user: int, *, before: int | None = None, after: int | None = None, limit: int) -> list[int]:
        _check_size(limit, PAGE_MAX)
        first, last = 0 if after is None else after + 1, ID_MAX if before is None else before - 1
        if first > last:
            return []
        nearest = after is not None and before is None
        while True:
            cached_weeks = self._weeks
            notices, weeks = await gather(
                False, self._page(cached_weeks, user, first, last, limit, nearest=nearest), self._read_weeks()
            )
            if weeks == cached_weeks:
                return notices

    async def holding(self, notice: int, users: Users) -> NDArray[np.bool_]:
        week = (await self._read_weeks()).get(period_of(notice))
        if week is None or not len(users):
            return np.zeros(len(users), np.bool_)
        by_place: defaultdict[_Place, list[int]] = defaultdict(list)
        for place, user in zip(week.places(users), users.tolist(), strict=True):
            by_place[place].append(user)
        reads = [(place, part) for place, users_of_place in by_place.items() for part in _parts(users_of_place)]
        answers = await gather(False, *(self._session.rows(_HOLDING, *place, part, notice) for place, part in reads))
        return np.isin(users, np.array([user for rows in answers for (user,) in rows], np.int64))

    async def remove(self, user: int, notices: Sequence[int]) -> None:
        weeks, at_us = await self._read_weeks(), await self._node_time.now_us()
        week_of_notice = ((weeks.get(period_of(notice)), notice) for notice in notices)
        rows = [
            (_REMOVE, (at_us, *week.place(user), user, notice)) for week, notice in week_of_notice if week is not None
        ]
        await self._session.write_many(rows)

    async def remove_all(self, user: int) -> None:
        weeks, at_us = await self._read_weeks(), await self._node_time.now_us()
        await self._session.write_many([(_REMOVE_ALL, (at_us, *week.place(user), user)) for week in weeks.values()])

    async def expire(self, before_ms: int) -> int:
        weeks = await self._read_weeks()
        expired = [period for period in weeks if period < before_ms // PERIOD_MS]
        return sum(
            [await self._session.conditional(_FORGET, _SHELF, period, weeks[period].generation) for period in expired]
        )

    # --- weeks -----------------------------------------------------------------------------------------

    async def _read_weeks(self) -> WeeksByNumber:
        rows = await self._session.rows(_PERIODS, _SHELF)
        weeks = {period: _Week(generation, buckets) for period, generation, buckets in rows}
        if weeks != self._weeks:
            self._weeks = weeks
        return self._weeks

    async def _start_weeks(self, periods: Iterable[int]) -> WeeksByNumber:
        """All weeks, after starting those of `periods` that are missing."""
        weeks = await self._read_weeks()
        while missing := [period for period in periods if period not in weeks]:
            for period in missing:
                await self._session.conditional(_BEGIN, _SHELF, period, secrets.randbits(62), self._buckets)
            weeks = await self._read_weeks()
        return weeks

    # --- rows ------------------------------------------------------------------------------------------

    async def _add(self, rows: Iterable[tuple[_Place, InboxRow]]) -> set[InboxRow]:
        """Add the rows that do not exist yet; returns these."""
        by_place: defaultdict[_Place, list[InboxRow]] = defaultdict(list)
        for place, row in rows:
            by_place[place].append(row)
        at_us = await self._node_time.now_us()
        parts = [(place, part) for place, rows_of_place in by_place.items() for part in _parts(rows_of_place)]
        added = await gather(False, *(self._add_some(place, part, at_us) for place, part in parts))
        return {row for part in added for row in part}

    async def _add_some(self, place: _Place, rows: Sequence[InboxRow], at_us: int) -> Sequence[InboxRow]:
        """Add rows of one partition; returns those that are new."""
        existing = {InboxRow(*row) for row in await self._session.rows(_EXISTING, *place, [tuple(row) for row in rows])}
        new = [row for row in rows if row not in existing]
        if new:
            await self._session.write_atomically([(_ADD, (*place, *row, at_us)) for row in new])
        return new

    async def _page(
        self, weeks: WeeksByNumber, user: int, first: int, last: int, limit: int, *, nearest: bool
    ) -> list[int]:
        """Up to `limit` notices from `first` to `last`, newest first: the newest, or the `nearest` to `first`."""
        statement = _OLDEST if nearest else _NEWEST
        periods = sorted(
            (period for period in weeks if period_of(first) <= period <= period_of(last)), reverse=not nearest
        )
        notices: list[int] = []
        for group in (periods[:FIRST_PERIODS], periods[FIRST_PERIODS:]):
            if len(notices) < limit:
                reads = (
                    self._session.rows(statement, *weeks[period].place(user), user, first, last, limit)
                    for period in group
                )
                notices += [notice for rows in await gather(False, *reads) for (notice,) in rows]
        return sorted(notices[:limit], reverse=True)


def _parts(rows: list[T]) -> Iterable[list[T]]:
    return (rows[start : start + ROWS_A_CHANGE] for start in range(0, len(rows), ROWS_A_CHANGE))


def _check_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise BatchTooLarge(f"{size} rows of inboxes in one call; at most {size_max}")
