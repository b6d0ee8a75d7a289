"""The InboxStore on LMDB: a file for each week (`inbox_weeks`), apart from `store.mdb`, so that a storm of inbox rows
delays no other write.

Writes go through a queue of this process. Its thread takes the waiting jobs, up to ROWS_A_COMMIT rows, writes them in
one transaction per week, and answers them when these are synced. A larger call is split into several jobs, so that
other processes get their turns in between. A small commit also copies only a part of the pages, and the second commit
after it reuses the pages that it frees. So the file stays near the size of its contents. docs/decisions/0025-inboxes.md
has the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import numpy as np
import structlog
from numpy.typing import NDArray

from kith.core.errors import BatchTooLarge, KithError, Overloaded, StoreUnavailable
from kith.engines.embedded.driver_errors import translate, translate_errors
from kith.engines.embedded.inbox_rows import (
    BITS_MAX,
    bits_of,
    newest_first,
    notices_of,
    oldest_first,
    place_of,
    rows_after,
    rows_of,
)
from kith.engines.embedded.inbox_weeks import Week, Weeks
from kith.notifications.inbox import ADDED_MAX, PAGE_MAX, PERIOD_MS, InboxRow, Users, period_of

ROWS_A_COMMIT = 5_000
ROWS_WAITING_MAX = 2_000_000
_IN_LOOP_MAX = 1_000
"""More lookups than this run in a thread, so that they do not block other requests."""
_READERS_CHECKED_COMMITS = 1_000
_log = structlog.get_logger("kith.store")


class _Job(NamedTuple):
    work: Callable[[_WriteBatch], Any]
    rows: int
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class _WriteBatch:
    """The transactions of one commit: one for each week, begun at the first write to that week."""

    def __init__(self, weeks: Weeks) -> None:
        self._weeks = weeks
        self._weeks_written: dict[int, Week] = {}
        self.txns: dict[int, lmdb.Transaction[bytes]] = {}

    def run(self, jobs: Sequence[_Job]) -> list[Any]:
        """Run the jobs and commit all transactions. Returns the jobs' answers. If a job fails, nothing is written."""
        try:
            answers = [job.work(self) for job in jobs]
            for txn in self.txns.values():
                txn.commit()
        except BaseException:
            for txn in self.txns.values():
                txn.abort()  # no effect on a transaction that was committed
            raise
        return answers

    def begin(self, week: Week) -> lmdb.Transaction[bytes]:
        """The transaction of a week. Needs the turn to write, so it does not wait for LMDB's lock."""
        txn = self.txns.get(week.period)
        if txn is None:
            txn = self.txns[week.period] = week.lmdb.begin(write=True)
        return txn

    def get_or_make(self, period: int) -> Week:
        """The week of a period. Its file is made if there is none."""
        week = self._weeks_written.get(period)
        if week is None:
            week = self._weeks_written[period] = self._weeks.get_or_make(period)
        return week

    def get(self, period: int) -> Week | None:
        """The week of a period; None if it has no file."""
        return self._weeks.get(period)

    def weeks(self) -> list[Week]:
        """All weeks that have a file."""
        weeks = (self._weeks.get(period) for period in self._weeks.periods())
        return [week for week in weeks if week is not None]


class EmbeddedInboxes:
    """See `notifications.inbox.InboxStore`. `bytes_max`: the size that the file of a week may reach."""

    immediate = True

    def __init__(self, folder: Path, *, bytes_max: int) -> None:
        self._folder = folder
        self._weeks = Weeks(folder, bytes_max)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = self._commits = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    async def add(self, rows: Sequence[InboxRow]) -> list[bool]:
        _check_size(len(rows), ADDED_MAX)
        added: list[bool] = []
        for start in range(0, len(rows), ROWS_A_COMMIT):
            part = rows[start : start + ROWS_A_COMMIT]
            added += await self._run(partial(_add, rows=part), len(part))
        return added

    async def put(self, rows: Sequence[InboxRow]) -> None:
        await self.add(rows)

    async def add_for_all(self, notice: int, users: Users) -> int:
        _check_size(len(users), ADDED_MAX)
        added = 0
        for start in range(0, len(users), ROWS_A_COMMIT):
            part = users[start : start + ROWS_A_COMMIT]
            added += await self._run(partial(_add_for_all, notice=notice, users=part), len(part))
        return added

    async def page(self, user: int, *, before: int | None = None, after: int | None = None, limit: int) -> list[int]:
        _check_size(limit, PAGE_MAX)
        nearest = after is not None and before is None
        periods = [
            period
            for period in self._weeks.periods()
            if (before is None or period <= period_of(before)) and (after is None or period >= period_of(after))
        ]
        notices: list[int] = []
        try:
            for period in periods if nearest else reversed(periods):
                week = await self._week(period)
                if week is not None:
                    notices += _page(week, user, before, after, limit - len(notices), nearest=nearest)
                if len(notices) >= limit:
                    break
        except lmdb.Error as error:
            raise translate(error, "read an inbox") from error
        return notices[::-1] if nearest else notices

    async def holding(self, notice: int, users: Users) -> NDArray[np.bool_]:
        period = period_of(notice)
        week = await self._week(period) if period in self._weeks.periods() else None

        def read() -> NDArray[np.bool_]:
            if week is None:
                return np.zeros(len(users), np.bool_)
            try:
                return _holding(week, notice, users)
            except lmdb.Error as error:
                raise translate(error, "read an inbox") from error

        return read() if len(users) <= _IN_LOOP_MAX else await asyncio.to_thread(read)

    async def _week(self, period: int) -> Week | None:
        """A week that has a file. Opening it may wait for a writer, so that is done in a thread."""
        return self._weeks.opened(period) or await asyncio.to_thread(self._weeks.get, period)

    async def remove(self, user: int, notices: Sequence[int]) -> None:
        await self._run(partial(_remove, user=user, notices=notices), len(notices))

    async def remove_all(self, user: int) -> None:
        await self._run(partial(_remove_all, user=user), 1)

    def rows(self, after: bytes | None, limit: int) -> tuple[list[InboxRow], bytes | None]:
        """Up to `limit` rows of all users after a place; None: from the first on. Also returns the place of the last
        row; None if there are no more.
        """
        result: list[InboxRow] = []
        first, _, place = (after or b"").partition(b"/")
        first_period = int(first or 0)
        for period in (week_number for week_number in self._weeks.periods() if week_number >= first_period):
            week = self._weeks.get(period)
            if period != first_period:  # the week of the place may have been deleted
                place = b""
            if week is not None:
                with translate_errors("read inboxes"), week.lmdb.begin() as txn:
                    dbs = txn.cursor(week.near), txn.cursor(week.far)
                    rows, place = rows_after(dbs, place, limit - len(result), period)
                result += [InboxRow(*row) for row in rows]
                if place:
                    return result, b"%d/%s" % (period, place)
        return result, None

    async def expire(self, before_ms: int) -> int:
        return await asyncio.to_thread(self._weeks.delete, before_ms // PERIOD_MS)

    def close(self) -> None:
        """Write all waiting jobs, then stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)  # after every job
        if self._thread is not None:
            self._thread.join()
        self._weeks.close()

    async def _run(self, work: Callable[[_WriteBatch], Any], rows: int) -> Any:
        """Run `work` on the queue's thread, and return its answer once its rows are synced."""
        loop = asyncio.get_running_loop()
        job = _Job(work, rows, loop.create_future(), loop)
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the inboxes are closing; repeat the request on another instance")
            if self._waiting and self._waiting + rows > ROWS_WAITING_MAX:
                raise Overloaded(f"{self._waiting} rows of inboxes are waiting; repeat later")
            self._waiting += rows
            self._jobs.put(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="kith-inboxes", daemon=True)
                self._thread.start()
        return await job.future

    def _loop(self) -> None:
        job = self._jobs.get()
        while job is not None:
            jobs, rows = [job], job.rows
            job = None
            while rows < ROWS_A_COMMIT:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    self._jobs.put(None)  # ends the loop after this commit
                    break
                jobs.append(job)
                rows += job.rows
            try:
                self._commit(jobs)
            except Exception:
                _log.exception("a commit of inboxes failed, and it is unknown whether it was stored")
                for failed_job in jobs:
                    _answer(
                        failed_job, None, StoreUnavailable("it is not known whether these rows were written; repeat it")
                    )
            with self._lock:
                self._waiting -= rows
            job = self._jobs.get()

    def _commit(self, jobs: list[_Job]) -> None:
        """Run jobs, sync and answer them. If one fails, nothing is written, and each job is retried alone."""
        batch = _WriteBatch(self._weeks)
        try:
            with self._weeks.turn():
                answers = batch.run(jobs)
        except Exception as error:
            for period in batch.txns:
                self._reopen_if_refusing(period)
            if len(jobs) > 1:
                for job in jobs:
                    self._commit([job])
                return
            translated = error
            if isinstance(error, lmdb.Error | OSError) and not isinstance(error, KithError):
                translated = translate(error, "write inboxes", self._folder)
            _answer(jobs[0], None, translated)
            return
        for job, answer in zip(jobs, answers, strict=True):
            _answer(job, answer, None)
        self._commits += 1
        if self._commits % _READERS_CHECKED_COMMITS == 0:
            self._check_readers()

    def _reopen_if_refusing(self, period: int) -> None:
        """Reopen a file if LMDB refuses to use it. After a failed write of a meta page LMDB refuses even reads, until
        the file is reopened.
        """
        with contextlib.suppress(KithError):  # the file cannot be opened at all; its next user gets the error
            week = self._weeks.get(period)
            if week is not None:
                try:
                    week.lmdb.begin().abort()
                except lmdb.Error:
                    self._weeks.reopen(period)

    def _check_readers(self) -> None:
        """Free the slots of killed readers, which keep old pages from being reused."""
        for period in self._weeks.periods():
            with contextlib.suppress(lmdb.Error, KithError):  # retried next time; or the file is damaged
                week = self._weeks.get(period)
                if week is not None:
                    week.lmdb.reader_check()


def _check_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise BatchTooLarge(f"{size} rows of inboxes in one call; at most {size_max}")


def _add(batch: _WriteBatch, rows: Sequence[InboxRow]) -> list[bool]:
    added = list[bool]()
    for period, rows_of_period in groupby(rows, lambda row: period_of(row.notice)):
        week = batch.get_or_make(period)
        put, oldest = batch.begin(week).put, bits_of(0, period)
        for user, notice in rows_of_period:
            place = place_of(user)
            added.append(put(place.key, place.value(oldest - notice), dupdata=False, db=week.db(place)))
    return added


def _add_for_all(batch: _WriteBatch, notice: int, users: Users) -> int:
    week = batch.get_or_make(period_of(notice))
    added = 0
    for db, rows in zip((week.near, week.far), rows_of(users, bits_of(notice, week.period)), strict=True):
        if rows:
            added += batch.begin(week).cursor(db).putmulti(rows, dupdata=False)[1]
    return added


def _remove(batch: _WriteBatch, user: int, notices: Sequence[int]) -> None:
    place = place_of(user)
    for notice in notices:
        week = batch.get(period_of(notice))
        if week is not None:
            batch.begin(week).delete(place.key, place.value(bits_of(notice, week.period)), week.db(place))


def _remove_all(batch: _WriteBatch, user: int) -> None:
    place = place_of(user)
    for week in batch.weeks():
        txn, db = batch.begin(week), week.db(place)
        for value in list(newest_first(txn.cursor(db), place.key, place.value(0), place.value(BITS_MAX))):
            txn.delete(place.key, value, db)


def _page(week: Week, user: int, before: int | None, after: int | None, limit: int, *, nearest: bool) -> list[int]:
    """A user's notices of a week between `after` and `before`, newest first. `nearest`: those next to `after`, oldest
    first.
    """
    place = place_of(user)
    least_bits, most_bits = 0, BITS_MAX
    if before is not None and period_of(before) == week.period:
        least_bits = bits_of(before, week.period) + 1
    if after is not None and period_of(after) == week.period:
        most_bits = bits_of(after, week.period) - 1
    if least_bits > most_bits:
        return []
    walk = oldest_first if nearest else newest_first
    with week.lmdb.begin(week.db(place)) as txn:
        values = walk(txn.cursor(), place.key, place.value(least_bits), place.value(most_bits))
        return notices_of(list(islice(values, limit)), week.period)


def _holding(week: Week, notice: int, users: Users) -> NDArray[np.bool_]:
    bits = bits_of(notice, week.period)
    with week.lmdb.begin() as txn:
        cursors = txn.cursor(week.near), txn.cursor(week.far)
        places = map(place_of, users.tolist())
        is_held = (cursors[place.far].set_key_dup(place.key, place.value(bits)) for place in places)
        return np.fromiter(is_held, np.bool_, len(users))


def _answer(job: _Job, answer: Any, error: BaseException | None) -> None:
    def resolve() -> None:
        if job.future.done():  # the caller was cancelled; the write stays committed
            return
        if error is None:
            job.future.set_result(answer)
        else:
            job.future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed; the write stays committed
        job.loop.call_soon_threadsafe(resolve)
