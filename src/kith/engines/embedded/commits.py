"""Group commit: each process has one queue that turns concurrent writes into a few synced transactions.

A write is a job, a function of a `Transaction`. The queue's thread runs all waiting jobs in one transaction, syncs it,
and only then answers them. If the transaction fails, nothing of it is stored, and every job gets the error. If one job
raises, only that job fails: each job runs again in a transaction of its own. A group whose changes are too large for
one journal entry is split in half.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import lmdb
import structlog

from kith.core.clock import wall_ms
from kith.core.errors import KithError, NotConfirmed, Overloaded, StoreFull, StoreUnavailable
from kith.engines.embedded import event_log, expiries, redo
from kith.engines.embedded.bells import Bells
from kith.engines.embedded.confirmations import Confirmations
from kith.engines.embedded.driver_errors import translate
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.jobs import (
    JobOutcome,
    JobSource,
    RemoteCommitter,
    RemoteJobSource,
    SubmitterGone,
    WaitingJob,
    WriteJob,
)
from kith.engines.embedded.journal import PAYLOAD_BYTES_MAX
from kith.engines.embedded.retention import DEFAULT_BOUNDS, LogBounds, Retention
from kith.engines.embedded.transaction import Transaction

_log = structlog.get_logger("kith")
_Answer = TypeVar("_Answer")
_READER_CHECK_S = 10.0
"""Seconds between checks for killed readers, at least."""
_IDLE_CHECK_S = 1.0
"""Seconds without a job after which the queue does its idle work."""
_OUTCOME_UNKNOWN = "this was written here, but another machine is the primary now, so it may be lost; repeat it there"
PAUSED_S = 2.0
"""A queue's thread that did not run for this long was paused with its process: it wakes at least once a second."""


class CommitObserver(Protocol):
    """Is called for each commit, to count it in metrics."""

    def committed(self, jobs: int, writes: int, seconds: float) -> None:
        """One transaction was committed and synced."""
        ...

    def failed(self, error: KithError) -> None:
        """The store refused one transaction."""
        ...


class _Unobserved:
    """An observer that does nothing."""

    def committed(self, jobs: int, writes: int, seconds: float) -> None: ...
    def failed(self, error: KithError) -> None: ...


class _Loop(NamedTuple):
    """An event loop of this process, as a `jobs.JobSubmitter`. Its tickets are futures."""

    loop: asyncio.AbstractEventLoop

    def answer(self, outcomes: list[JobOutcome]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed; the write stays committed
            self.loop.call_soon_threadsafe(_resolve, outcomes)


class _TooLargeForOneEntry(Exception):
    """The changes of several jobs together exceed a journal entry. Committed without an entry, they could be read
    before they are durable.
    """


class CommitQueue:
    """Runs write jobs in grouped, synced transactions.

    - `writes_max`: no job is added to a transaction that has this many writes.
    - `wait_ms`: how long the first job of a group waits for others. 0: not at all; the next group forms anyway while
      one commit syncs.
    - `queue_max`: how many writes may wait; beyond that, `run` raises `Overloaded`.
    - `log_bounds`: how long the log keeps events.
    - `on_fatal`: called when the store refuses everything, and only a new process can open it again.
    - `confirmations`: set where a standby must have a write before the write is answered.
    - `on_pause`: called when the process did not run for `PAUSED_S`, before anything is answered. It may close the
      store to writes.
    - `committer`: the child process that does the jobs which it can do.
    - `source`: set in a committer: the jobs that its parent submits.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        writes_max: int = 5_000,
        wait_ms: float = 0.0,
        queue_max: int = 100_000,
        log_bounds: LogBounds = DEFAULT_BOUNDS,
        observer: CommitObserver | None = None,
        on_fatal: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = wall_ms,
        confirmations: Confirmations | None = None,
        on_pause: Callable[[], None] = lambda: None,
        committer: RemoteCommitter | None = None,
        source: RemoteJobSource | None = None,
    ) -> None:
        self._environment, self.now_ms = environment, now_ms
        self._writes_max, self._wait_s, self._queue_max = writes_max, wait_ms / 1000, queue_max
        self.retention = Retention(log_bounds, environment.log, environment.notes_db)
        self._observer = observer or _Unobserved()
        self._on_fatal, self._confirmations, self._on_pause = on_fatal, confirmations, on_pause
        self._ran_s = time.monotonic()
        self._bells = Bells(environment.folder)
        self._readers_checked = time.monotonic()
        self._jobs: JobSource = queue.SimpleQueue[WaitingJob | None]() if source is None else source
        self._committer, self._source = committer, source
        self._check_submitter: Callable[[], None] = (lambda: None) if source is None else source.check
        self._waiting = 0
        self._lock = threading.Lock()
        self._closed = False
        self.failed = False
        """Whether the store refuses everything. Only a new process can open it again; `/readyz` answers 503."""
        self._thread = threading.Thread(target=self._loop, name="kith-commits", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """How many writes of this process are waiting or being committed, those sent to its committer included."""
        return self._waiting + (0 if self._committer is None else self._committer.waiting)

    async def run(self, work: Callable[[Transaction], _Answer], writes: int = 1) -> _Answer:
        """Run `work` in a transaction, and return its answer once the transaction is durable.

        `writes`: how many writes it counts as. Errors: those of `work`; Overloaded; StoreFull, StoreUnavailable;
        NotConfirmed if no standby confirmed the write in time.
        """
        committer = self._committer
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed or self.failed:
                raise StoreUnavailable("the store is closing; repeat the request on another instance")
            depth = self.depth
            if depth and depth + writes > self._queue_max:
                raise Overloaded(f"{depth} writes are waiting, more than `commit_queue_max`; repeat later")
            future: asyncio.Future[_Answer] | None = None
            if committer is not None and isinstance(work, WriteJob):
                future = committer.ask(work, writes)
            if future is None:
                future = loop.create_future()
                self._waiting += writes
                self._jobs.put(WaitingJob(work, writes, _Loop(loop), future))
        return await future

    def join(self, seconds: float) -> bool:
        """Wait for the queue's thread to end, for `seconds` at most. Returns whether it still runs."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def close(self) -> None:
        """Commit all waiting writes, then stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)  # after every job
        self._thread.join()
        if self._confirmations is not None:
            self._confirmations.close()
        self._bells.close()

    def _loop(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_CHECK_S)
            except queue.Empty:
                try:
                    self._work_while_idle()
                except Exception:
                    _log.exception("idle work of the commit queue failed; it will be retried")
                continue
            if job is None:
                return
            batch, is_last = self._gather(job)
            try:
                self._commit(batch)
            except Exception:
                self._answer_unknown(batch)
            if is_last:
                return

    def _answer_unknown(self, jobs: list[WaitingJob]) -> None:
        """Answer the jobs of a commit that failed unexpectedly, outside of the transaction. This process is replaced.

        It is unknown whether the transaction was committed, so the jobs get StoreUnavailable.
        """
        _log.exception("a commit failed, and it is unknown whether it was stored; this process must be replaced")
        self.failed = True
        unknown = StoreUnavailable("it is not known whether this was written; repeat it on another instance")
        self._finish([(job, None, unknown) for job in jobs], sum(job.writes for job in jobs))
        self._on_fatal()

    def _work_while_idle(self) -> None:
        """Do what is due while no job waits: notice that another process noted a failed sync of the store, forget old
        events, and remove expired edges.
        """
        self._notice_pause()
        if self._environment.broken and not self.failed:
            self.failed = True
            self._on_fatal()
        elif self.retention.due(self.now_ms()) and not self._environment.is_closed():
            self._forget()
        while not self.failed and self._jobs.empty() and self._has_expired_edges() and self._commit([]):
            pass

    def _has_expired_edges(self) -> bool:
        """Whether there are expired edges to remove, in a store that takes writes."""
        try:
            with self._environment.lmdb.begin() as txn:
                expired = expiries.expired_edges(txn, self._environment.rows, self.now_ms)
            return expired is not None and not self._environment.is_closed()
        except (lmdb.Error, KithError):
            return False

    def _forget(self) -> None:
        """Delete events of the log that became too old."""
        now_ms = self.now_ms()
        with (
            contextlib.suppress(lmdb.Error, OSError, KithError),  # retried at the next idle second
            self._environment.commit() as write,
        ):
            _, last_event = event_log.bounds(write.txn, self._environment.log)
            forgot = self.retention.forget(write.txn, last_event, now_ms)
            write.changes = redo.encode(now_ms, []) if forgot else b""

    def _notice_pause(self) -> bool:
        """Call `on_pause` if the process was paused: another machine may have taken over meanwhile. Returns whether
        it was paused.
        """
        paused = time.monotonic() - self._ran_s > PAUSED_S
        if paused:
            self._on_pause()
        self._ran_s = time.monotonic()
        return paused

    def _gather(self, first: WaitingJob) -> tuple[list[WaitingJob], bool]:
        batch, writes = [first], first.writes
        deadline = time.monotonic() + self._wait_s
        while writes < self._writes_max:
            try:
                left_s = deadline - time.monotonic() if self._wait_s else 0.0
                job = self._jobs.get(timeout=left_s) if left_s > 0 else self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
            writes += job.writes
        return batch, False

    def _commit(self, jobs: list[WaitingJob], *, may_free: bool = True) -> bool:
        """Do the jobs, and remove some expired edges, in one transaction. Answer the jobs. Returns whether the store
        took the transaction.

        `may_free`: whether a full store may be retried after a checkpoint has freed pages.
        """
        started = time.perf_counter()
        outcomes: list[JobOutcome]
        appended, last_event, now_ms = 0, None, self.now_ms()
        writes = sum(job.writes for job in jobs)
        self._notice_pause()
        try:
            with self._environment.commit() as write:
                batch = Transaction(self._environment, write.txn, now_ms)
                answers = [job.work(batch) for job in jobs]
                batch.remove_expired()
                appended, last_event = batch.log.flush(), batch.log.last
                write.changes, write.count = _journal_payload(batch, jobs), batch.count
                if appended:
                    self.retention.forget(write.txn, batch.log.last, now_ms, batch.log.closed)
                self._check_submitter()
        except (lmdb.Error, OSError) as error:
            last_event = None
            translated = translate(error, "write", self._environment.folder)
            if may_free and isinstance(translated, StoreFull) and self._environment.free_pages():
                return self._commit(jobs, may_free=False)
            self._observer.failed(translated)
            self.failed = self.failed or self._is_panicking()
            outcomes = [(job, None, translated) for job in jobs]
        except Exception as error:  # usually a job raised, and the transaction was aborted: each job runs again alone
            last_event = None
            self.failed = self.failed or self._environment.broken
            if len(jobs) > 1 and not isinstance(error, SubmitterGone):
                size = -(-len(jobs) // 2) if isinstance(error, _TooLargeForOneEntry) else 1
                for start in range(0, len(jobs), size):
                    self._commit(jobs[start : start + size], may_free=may_free)
                return True
            outcomes = [(job, None, error) for job in jobs]
        else:
            outcomes = [(job, answer, None) for job, answer in zip(jobs, answers, strict=True)]
            self._observer.committed(len(jobs), writes, time.perf_counter() - started)
            if self._notice_pause() and self._environment.is_closed():  # the new primary does not have this commit
                last_event, outcomes = None, [(job, None, NotConfirmed(_OUTCOME_UNKNOWN)) for job in jobs]
        self._finish_when_confirmed(outcomes, writes, last_event)
        if appended:
            self._bells.ring()
        if self.failed:
            self._on_fatal()
        if time.monotonic() - self._readers_checked > _READER_CHECK_S:
            self._readers_checked = time.monotonic()
            with contextlib.suppress(lmdb.Error):  # checked again next time
                self._environment.lmdb.reader_check()  # the slot of a killed reader keeps old pages from being reused
        return last_event is not None

    def _finish_when_confirmed(self, outcomes: list[JobOutcome], writes: int, last_event: int | None) -> None:
        """Answer the jobs: at once, or where `confirmations` is set once a standby has `last_event`.

        `last_event`: None if nothing was committed.
        """
        if last_event is None or self._confirmations is None:
            self._finish(outcomes, writes)
        else:  # jobs that changed nothing wait, too: they may have read what no standby has confirmed yet
            self._confirmations.hold(last_event, partial(self._finish_confirmed, outcomes, writes))

    def _finish(self, outcomes: list[JobOutcome], writes: int) -> None:
        if self._source is None:
            with self._lock:
                self._waiting -= writes
        _answer(outcomes)

    def _finish_confirmed(self, outcomes: list[JobOutcome], writes: int, error: KithError | None) -> None:
        """Answer the jobs of a commit with their answers, or all with `error` if no standby confirmed it."""
        self._finish(outcomes if error is None else [(job, None, error) for job, _, _ in outcomes], writes)

    def _is_panicking(self) -> bool:
        """Whether the store refuses everything from now on: a sync failed, or LMDB could not write its meta page, so
        that it begins no transaction any more.
        """
        if self._environment.broken:
            return True
        try:
            self._environment.lmdb.begin().abort()
        except lmdb.Error:
            return True
        return False


def _journal_payload(batch: Transaction, jobs: Sequence[WaitingJob]) -> bytes | None:
    """The journal payload of a transaction. _TooLargeForOneEntry if several jobs exceed one entry."""
    changes = batch.journal_payload()
    if len(jobs) > 1 and len(changes or b"") > PAYLOAD_BYTES_MAX:
        raise _TooLargeForOneEntry
    return changes


def _answer(outcomes: list[JobOutcome]) -> None:
    by_submitter: dict[Any, list[JobOutcome]] = {}
    for outcome in outcomes:
        by_submitter.setdefault(outcome[0].submitter, []).append(outcome)
    for submitter, outcomes_of_submitter in by_submitter.items():
        submitter.answer(outcomes_of_submitter)


def _resolve(outcomes: list[JobOutcome]) -> None:
    for job, answer, error in outcomes:
        if job.ticket.done():  # the caller was cancelled; the write stays committed
            continue
        if error is None:
            job.ticket.set_result(answer)
        else:
            job.ticket.set_exception(error)
