"""Runs one consumer over the log: batches, checkpoints, retries, dead letters, lag.

An event that fails is stored as a failure and retried through the same `handle`, with growing pauses. After `tries_max`
tries it is dead and waits for a person (`kith dead`). An outage (`Unavailable`) counts against no event: the runner
waits and repeats the batch. Effects must be idempotent per event: after a crash, events since the last checkpoint are
repeated.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
import structlog

from kith.core.backoff import is_due
from kith.core.errors import Unavailable
from kith.core.events import NOWHERE, Event, LogPosition
from kith.core.gathering import gather
from kith.log.stop_signal import StopSignal
from kith.log.store import Backlog, Batch, Bell, Failure, Fenced, LogStore, Subscription

_log = structlog.get_logger("kith.log")


FAILURES_RELOAD_S = 2.0
"""How often a runner reloads the failures, which a person may have replayed or dropped, in seconds."""
SKEW_MS = 2_000
"""How far ahead of our clock an event's time may be, in ms. Beyond that its age is unknown."""
BACKLOG_RETRY_MS = 5_000
"""Pause before retrying failed deferred work."""


class Consumer(Protocol):
    """Acts on events. `name` is its group: its progress and failures are kept under it."""

    name: str

    async def handle(self, events: Sequence[Event]) -> None:
        """Act on events, in order. Any of them may be repeated, and a failed one is retried after later ones."""
        ...

    async def work_backlog(self) -> bool:
        """Do one bounded slice of the work that earlier events deferred; true if more remains."""
        ...

    async def rebuild(self) -> None:
        """Rebuild from the stores what events maintain. Called for a new group, and if events were deleted before it
        read them.
        """
        ...


class Pace(msgspec.Struct, frozen=True):
    """The limits of a runner."""

    batch_max: int = 1_000
    tries_max: int = 8  # the setting `log_tries_max`
    backoff_s: float = 0.5  # pause before the first retry; doubles with each try
    backoff_max_s: float = 300.0
    outage_max_s: float = 5.0  # longest pause between tries while a store is unavailable
    failures_max: int = 10_000  # dead ones included; above that, the runner waits: no single event is at fault
    gap_s: float = 0.01  # shortest rest once it has caught up: events close together are handled together
    gap_max_s: float = 0.05  # longest rest while events arrive; see `pause_after_batch_s`
    gap_event_s: float = 0.001
    idle_s: float = 2.0  # longest rest if no bell rings
    save_s: float = 0.5  # between checkpoints, each a commit: bounds what a crash repeats


class Lag(NamedTuple):
    """How far a group lags behind."""

    events: int
    oldest_s: float
    """Age of the oldest unhandled event; 0 if there is none. Infinite if that event was deleted, or if its time is in
    the future, as after the clock was set back.
    """


class Runner:
    """The loop of one consumer over this worker's partitions."""

    def __init__(
        self,
        consumer: Consumer,
        log: LogStore,
        pace: Pace | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.consumer, self._log, self._pace, self._now_ms = consumer, log, pace or Pace(), now_ms
        self.name = consumer.name
        self._share: Subscription | None = None
        self._stopping = StopSignal()
        self._save_due_ms = self._backlog_due_ms = 0
        self._is_caught_up = False  # whether the last step left nothing to do at once
        self._handled = 0  # events of the last step
        self._reset()

    def _reset(self) -> None:
        """Drop the events in hand. The partition's owner reads again those after the checkpoint."""
        self._batch: Batch | None = None  # read and not handled yet
        self._position = self._saved_position = NOWHERE
        self._retryable: dict[LogPosition, Failure] = {}
        self._dead_count = self._reload_due_ms = 0

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopping.set()

    async def run(self) -> None:
        """Follow the log until stopped. Before returning, save the position and hand over the partitions."""
        outages = 0
        with self._log.bell() as bell:
            while not self._stopping.is_set:
                began_s = time.monotonic()
                try:
                    await self.step()
                    outages = 0
                except Unavailable as error:
                    outages += 1
                    _log.warning("waiting for the store", group=self.consumer.name, error=error.message)
                    await self._stopping.pause(min(self._pace.outage_max_s, self._delay_s(outages)))
                else:
                    if self._is_caught_up:
                        await self._rest(bell, time.monotonic() - began_s)
        await self._leave()

    async def _leave(self) -> None:
        """Save the position and hand over the partitions, each as far as the store answers."""
        if self._share is None:
            return
        last_steps: list[Callable[[], Awaitable[None]]] = [partial(self._save, self._position), self._share.close]
        for last_step in last_steps:
            try:
                with contextlib.suppress(Fenced):
                    await last_step()
            except Unavailable as error:
                _log.warning(
                    "stops though the store is away; the last events are repeated",
                    group=self.consumer.name,
                    error=error.message,
                )

    async def step(self) -> bool:
        """Retry due failures, handle one batch of new events, and do a slice of the backlog; whether there was any
        work.
        """
        if self._share is None:
            self._share = await self._log.subscribe(self.consumer.name)
            self._save_due_ms = self._now_ms() + int(self._pace.save_s * 1000)
        try:
            retried = await self._retry(self._share)
            handled = await self._advance(self._share)
        except Fenced as error:
            _log.warning("another worker has taken over", group=self.consumer.name, error=str(error))
            self._reset()
            self._is_caught_up = False
            return True
        except Unavailable:
            await self._work_backlog()  # it may free the room that the batch needs
            raise
        has_more = await self._work_backlog()
        self._is_caught_up, self._handled = not has_more and handled < self._pace.batch_max, handled
        return bool(handled) or retried or has_more

    async def _advance(self, share: Subscription) -> int:
        """Handle one batch, and save a checkpoint if one is due; returns the number of events."""
        batch = self._batch = self._batch or await share.read(self._pace.batch_max)
        if batch.next == NOWHERE:  # no partition belongs to this worker
            self._reset()
            return 0
        if batch.lost:
            _log.info(
                "rebuilds from the stores: it is new, or events were deleted before it read them",
                group=self.consumer.name,
            )
            await self.consumer.rebuild()
        elif not batch.events and self._position == self._saved_position:
            self._saved_position = batch.next  # nothing to save
        failures = await self._handle(batch.events) if batch.events else {}
        if failures or batch.lost:  # saved at once: if that fails, the batch is repeated
            await self._save(batch.next, failures)
        self._position, self._batch = batch.next, None
        if self._is_due(self._save_due_ms, int(self._pace.save_s * 1000)):
            await self._save(self._position)
        return len(batch.events)

    async def _handle(self, events: Sequence[Event]) -> dict[LogPosition, Failure | None]:
        """Handle a batch; if that fails, handle its events one by one. Returns the failures by their event's log
        position.
        """
        try:
            await self.consumer.handle(events)
            return {}
        except Unavailable:
            raise
        except Exception:
            failures: dict[LogPosition, Failure | None] = {}
            for event in events:
                failure = await self._try(event, tries=1)
                if failure is not None:
                    failures[event.log_position] = failure
            if len(self._retryable) + self._dead_count + len(failures) > self._pace.failures_max:
                raise Unavailable(
                    f"{self.consumer.name} failed on too many events; the log says how, `kith dead` lists what died"
                ) from None
            return failures

    async def _try(self, event: Event, tries: int) -> Failure | None:
        """Handle one event; returns its failure, or None."""
        try:
            await self.consumer.handle([event])
            return None
        except Unavailable:
            raise
        except Exception as error:
            now_ms = self._now_ms()
            dead = tries >= self._pace.tries_max
            _log.exception(
                "an event failed", group=self.consumer.name, mark=event.log_position.hex(), tries=tries, dead=dead
            )
            next_try_ms = now_ms + int(self._delay_s(tries) * 1000)
            return Failure(
                self.consumer.name, event, tries, f"{type(error).__name__}: {error}", now_ms, next_try_ms, dead
            )

    async def _work_backlog(self) -> bool:
        """Do a slice of the backlog. A failure is retried after a pause, and new events are handled meanwhile."""
        if not self._is_due(self._backlog_due_ms, BACKLOG_RETRY_MS):
            return False
        try:
            return await self.consumer.work_backlog()
        except Unavailable as error:
            _log.warning("deferred work waits for the store", group=self.consumer.name, error=error.message)
        except Exception:
            _log.exception("deferred work failed; it is tried again", group=self.consumer.name)
        self._backlog_due_ms = self._now_ms() + BACKLOG_RETRY_MS
        return False

    async def _retry(self, share: Subscription) -> bool:
        """Retry due failures; whether there were any. Every FAILURES_RELOAD_S, reload the failures."""
        if self._is_due(self._reload_due_ms, int(FAILURES_RELOAD_S * 1000)):
            self._reload_due_ms = self._now_ms() + int(FAILURES_RELOAD_S * 1000)
            stored_failures = await share.failures()
            self._retryable = {failure.event.log_position: failure for failure in stored_failures if not failure.dead}
            self._dead_count = len(stored_failures) - len(self._retryable)
        wait_ms = int(self._pace.backoff_max_s * 1000)
        due = [failure for failure in self._retryable.values() if self._is_due(failure.next_try_ms, wait_ms)]
        if due:
            results = {failure.event.log_position: await self._try(failure.event, failure.tries + 1) for failure in due}
            await self._save(self._position, results)
        return bool(due)

    async def _save(
        self, checkpoint: LogPosition, failures: Mapping[LogPosition, Failure | None] = MappingProxyType({})
    ) -> None:
        """Save a checkpoint: everything up to it is done except these failures. None: that failure is settled."""
        if self._share is None or (checkpoint == self._saved_position and not failures):
            return
        await self._share.save(None if checkpoint == self._saved_position else checkpoint, failures)
        self._saved_position, self._save_due_ms = checkpoint, self._now_ms() + int(self._pace.save_s * 1000)
        for position, failure in failures.items():
            if failure is None or failure.dead:
                self._retryable.pop(position, None)
                self._dead_count += failure is not None
            else:
                self._retryable[position] = failure

    async def _rest(self, bell: Bell, worked_s: float) -> None:
        """Wait for new events until a checkpoint is due, at most `idle_s`."""
        pace = self._pace
        gap_end_s = time.monotonic() + pause_after_batch_s(pace, worked_s, self._handled)
        save_s = (
            (self._save_due_ms - self._now_ms()) / 1000 if self._position != self._saved_position else self._pace.idle_s
        )
        await self._stopping.run_until_set(bell.rung(max(0.0, min(save_s, self._pace.idle_s))))
        await self._stopping.pause(gap_end_s - time.monotonic())

    def _is_due(self, at_ms: int, wait_ms: int) -> bool:
        return is_due(at_ms, self._now_ms(), wait_ms)

    def _delay_s(self, tries: int) -> float:
        return float(min(self._pace.backoff_max_s, self._pace.backoff_s * 2 ** min(tries - 1, 30)))


def pause_after_batch_s(pace: Pace, worked_s: float, events: int) -> float:
    """How long to rest after a batch, so that the next events are handled together.

    As long as the batch took, so that others have the store half of the time. Longer if many events come, because a
    batch costs as much as many events.
    """
    return max(pace.gap_s, min(max(worked_s, events * pace.gap_event_s), pace.gap_max_s))


def lag_of(backlog: Backlog, now_ms: int) -> Lag:
    """How far a group lags: the number of unhandled events, and the age of the oldest."""
    if not backlog.events:
        return Lag(0, 0.0)
    if backlog.oldest_ms is None or (age_ms := now_ms - backlog.oldest_ms) < -SKEW_MS:
        return Lag(backlog.events, math.inf)
    return Lag(backlog.events, max(0, age_ms) / 1000)


async def begin(log: LogStore, groups: Iterable[str]) -> None:
    """In a log without events, let new groups start at the first event, so that they miss nothing however late their
    workers start. In any other log a new group rebuilds the past from the stores.
    """
    backlog = await log.behind(NOWHERE)
    if backlog.events or backlog.lost:
        return
    new_groups = [group for group in groups if await log.progress(group) is None]
    await gather(False, *(log.save(group, backlog.end, {}) for group in new_groups))


async def dead(log: LogStore, group: str) -> dict[str, Failure]:
    """Every dead event of a group, by its name in `kith dead`: `<group>/<mark>`."""
    return {
        f"{group}/{failure.event.log_position.hex()}": failure for failure in await log.failures(group) if failure.dead
    }


async def drop(log: LogStore, failure: Failure) -> None:
    """Drop a dead event; it will never be handled."""
    await log.save(failure.group, None, {failure.event.log_position: None})


async def replay(log: LogStore, failure: Failure) -> None:
    """Retry a dead event, with its number of tries reset. A running worker picks it up within FAILURES_RELOAD_S."""
    revived = msgspec.structs.replace(failure, dead=False, tries=0, next_try_ms=0)
    await log.save(failure.group, None, {failure.event.log_position: revived})
