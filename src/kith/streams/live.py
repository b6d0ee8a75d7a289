"""Sends connected readers what changes: one task per process follows the log, however many streams are open.

Each change is sent to the streams that it concerns, in the order of the log. A stream that resumes at a place is first
sent what it missed. While no stream is open, the log is not read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from kith.core.clock import wall_ms
from kith.core.errors import Unavailable
from kith.core.events import LogPosition
from kith.core.stopping import stop
from kith.log.store import Bell, LogStore
from kith.notifications.notifications import Notifications
from kith.posts.engagement import Engagement
from kith.posts.posts import Posts
from kith.streams.change_sender import ChangeSender
from kith.streams.changes import missed_since
from kith.streams.interpreter import Interpreter
from kith.streams.messages import Notification, PostRemoved, Reset, ResetReason, Unread
from kith.streams.missed import MissedMessages
from kith.streams.open_streams import Observer, OpenStreams
from kith.streams.positions import StreamPosition, StreamProgress, parse_position
from kith.streams.readers import Readers
from kith.streams.rounds import ROUND_EVERY_S, ROUNDS_SHARE, Rounds
from kith.streams.stream import Stream
from kith.streams.tail import Tail
from kith.streams.unread_numbers import UnreadNumbers

_READ_GAP_S = 0.005
"""Shortest pause between two reads, so that events close together are read in one batch."""
_READ_EVERY_S = 0.25
"""Longest pause between two reads, in case the bell does not ring."""
_HEARTBEATS_EVERY_S = 1.0  # how often streams are checked for a due heartbeat
_OUTAGE_WAIT_S = 1.0
_log = structlog.get_logger("kith.streams")


class LiveStreams:
    """The streams of one process, and the task that follows the log for them."""

    def __init__(
        self,
        posts: Posts,
        engagement: Engagement,
        notifications: Notifications,
        log: LogStore,
        observer: Observer,
        *,
        resume_events: int,
        heartbeat_s: float,
        now_ms: Callable[[], int] = wall_ms,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._observer = log, observer
        self._resume_events, self._heartbeat_s = resume_events, heartbeat_s
        self._now_ms, self._now_s = now_ms, now_s
        self._open: set[Stream] = set()  # includes streams that are still joining
        self._follow_task: asyncio.Task[None] | None = None
        self._numbers_task: asyncio.Task[None] | None = None
        self._begin_lock = asyncio.Lock()
        readers = Readers(posts)
        self._missed = MissedMessages(posts, engagement, notifications, readers)
        self._progress = StreamProgress(log)
        self._streams = OpenStreams(observer, self._progress, now_s)
        self._tail = Tail(log, Interpreter(posts.graph.graphs), self._progress, resume_events)
        self._numbers = UnreadNumbers(notifications, self._streams, self._progress, now_s)
        self._rounds = Rounds(engagement, self._numbers, readers, self._streams, self._progress)
        self._sender = ChangeSender(
            readers, self._streams, self._rounds, notifications, self._progress, self._reset_streams
        )

    # --- streams ---------------------------------------------------------------------------------------

    async def join(self, stream: Stream, last_id: str | None, shown: Sequence[int]) -> None:
        """Send the stream what it missed, and then every change.

        `last_id`: the last place that the client got; None: it missed nothing. `shown`: posts on the reader's screen;
        `post_removed` is sent for those that the reader cannot see.
        """
        self._open.add(stream)
        if self._follow_task is None:
            async with self._begin_lock:
                if self._follow_task is None:
                    self._begin(await self._log.end())
                    self._follow_task = asyncio.create_task(self._follow())
                    self._numbers_task = asyncio.create_task(self._numbers.run())
        place = await self._start_position(stream, last_id)
        if place is not None:
            place = await self._catch_up(stream, place, shown)
        if place is not None and stream in self._open:
            stream.sent_up_to = place.posts
            self._streams.send_heartbeat(stream, place)
            self._streams.add(stream)  # no await since it caught up, so no change is missed or sent twice
            self._numbers.joined(stream.user, resumed=last_id is not None)

    def leave(self, stream: Stream) -> None:
        """Remove a stream. After the last one, the log is not followed any more."""
        self._open.discard(stream)
        self._streams.remove(stream)
        self._numbers.left(stream.user)
        if not self._open and self._follow_task is not None:
            self._stop()
            self._observer.stream_lag(0.0)

    def readers(self) -> set[int]:
        """Users with a stream open here."""
        return {stream.user for stream in self._open}

    async def close(self) -> None:
        """Stop following the log."""
        await stop(*self._stop())

    def _stop(self) -> list[asyncio.Task[None]]:
        """Cancel the tasks that follow the log; returns them."""
        tasks = [task for task in (self._follow_task, self._numbers_task) if task is not None]
        self._follow_task = self._numbers_task = None
        for task in tasks:
            task.cancel()
        return tasks

    async def _start_position(self, stream: Stream, last_id: str | None) -> StreamPosition | None:
        """The place where a stream begins: where it stopped, or now. None if what it missed is lost: it was reset."""
        if last_id is None:
            return self._end_of_log()
        place, covers = parse_position(last_id), self._log.covers
        if place is None or not covers(place.posts, place.counts):
            self._reset(stream, "unknown")
            return None
        behind = await self._log.behind(place.counts)
        if not covers(behind.end, place.posts):  # of another store, or lost when this store was restored from a backup
            self._reset(stream, "unknown")
        elif behind.lost:
            self._reset(stream, "expired")
        elif behind.events > self._resume_events:
            self._reset(stream, "too_far")
        else:
            self._streams.send_heartbeat(stream, place)
            return place
        return None

    async def _catch_up(self, stream: Stream, place: StreamPosition, shown: Sequence[int]) -> StreamPosition | None:
        """Send a stream what it missed since `place`, until it has all that this process has read.

        Returns the stream's place then; None if that is impossible: the stream was reset.
        """
        absent = set(await self._missed.watch(stream, shown))
        log, tail = self._log, self._tail
        while not log.covers(place.counts, tail.read_to):
            since_place = await tail.since(place.counts)
            if since_place is None:  # the log grew or forgot events while this read or sent
                self._reset(stream, "too_far")
                return None
            changes, read_to = since_place
            reader = missed_since(place, changes, stream.user, log.covers)
            messages = await self._missed.of(reader, stream)
            if isinstance(messages, Reset):
                self._reset(stream, messages.reason)
                return None
            for step, message in messages:
                if not isinstance(message, Notification | Unread):
                    absent.discard(int(message.post_id))
                # numbers come last and may be of earlier changes; the place never moves back
                place = StreamPosition(log.joined(place.posts, step.at), place.counts)
                await stream.wait_for_room()  # what was missed may exceed the stream's buffer
                self._streams.send_at(stream, place, message)
            place = StreamPosition(log.joined(place.posts, read_to), log.joined(place.counts, read_to))
        for post in absent:
            self._streams.send_at(stream, place, PostRemoved(str(post), "unavailable"))
        return place

    def _reset(self, stream: Stream, why: ResetReason) -> None:
        """Have the client reload the feed; its next stream begins at the end of what was read here."""
        self._streams.send_at(stream, self._end_of_log(), Reset(why))
        stream.end("reset")

    def _reset_streams(self, streams: Sequence[Stream], why: ResetReason) -> None:
        for stream in streams:
            self._reset(stream, why)
            self.leave(stream)

    def _end_of_log(self) -> StreamPosition:
        """The place of a stream that was sent everything that this process read."""
        return StreamPosition(self._tail.read_to, self._tail.read_to)

    # --- following the log -----------------------------------------------------------------------------

    def _begin(self, position: LogPosition) -> None:
        self._tail.begin(position)
        self._rounds.begin(position)

    async def _follow(self) -> None:
        with self._log.bell() as bell:
            await self._follow_by(bell)

    async def _follow_by(self, bell: Bell) -> None:
        round_due = heartbeats_due = 0.0
        while self._follow_task is asyncio.current_task():  # a store that fails during a cancellation may hide it
            busy = False
            try:
                busy = await self._step()
                now_s = self._now_s()
                if now_s >= round_due:
                    await self._rounds.run()
                    spent = self._now_s() - now_s
                    round_due = now_s + max(ROUND_EVERY_S, spent / ROUNDS_SHARE)
                if now_s >= heartbeats_due:
                    heartbeats_due = now_s + _HEARTBEATS_EVERY_S
                    self._send_heartbeats(now_s)
            except Unavailable as error:
                _log.warning("streams wait for the store", error=error.message)
                await asyncio.sleep(_OUTAGE_WAIT_S)
                self._send_heartbeats(self._now_s())
            except Exception:
                _log.exception("a change could not be sent; every stream is reset")
                self._tail.done()
                self._sender.reset_all("changed")
            await (asyncio.sleep(0) if busy else self._rest(bell, round_due))

    async def _rest(self, bell: Bell, until_s: float) -> None:
        """Wait for new events, at most until the next round."""
        began_s = self._now_s()
        await bell.rung(max(0.0, min(_READ_EVERY_S, until_s - began_s)))
        await asyncio.sleep(max(0.0, began_s + _READ_GAP_S - self._now_s()))

    async def _step(self) -> bool:
        """Send what is new in the log; returns whether there was anything."""
        tail = self._tail
        if tail.next is None:
            batch = await tail.read()
            events = batch.events
            self._observer.stream_lag(max(0, self._now_ms() - events[0].logged_ms) / 1000 if events else 0.0)
            if batch.lost:
                self._begin(batch.next)
                self._sender.reset_all("expired")
                return True
            if not events:
                return False
            tail.take(batch)
        while (change := tail.next) is not None:
            await change.send_live(self._sender)
            tail.done()
        return True

    def _send_heartbeats(self, now_s: float) -> None:
        """Send a heartbeat, which advances the place, to each stream that was sent nothing for `heartbeat_s`."""
        for stream in self._streams.all():
            if now_s - stream.sent_at_s >= self._heartbeat_s:
                self._streams.send_heartbeat(stream)
