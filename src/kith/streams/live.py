"""Tells connected readers what changes: one reader of the event log a process, however many streams it has.

While there is a stream, the log is followed; each change that matters goes to the streams that it concerns, in the
order of the log. Numbers under posts are collected and told about once a second. A stream that comes back with a
`Place` is first told what it missed (`missed`). Nothing is queued here: `Stream.send` does not wait, and what a slow
reader may cost is the sender's to bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog

from kith.core.clock import wall_ms
from kith.core.errors import Unavailable
from kith.log.store import LogStore
from kith.posts.engagement import Engagement
from kith.posts.posts import Posts
from kith.streams.changes import Change, Kind, Place, Reading, Recent, Touched, lost, read_place
from kith.streams.missed import Missed
from kith.streams.readers import Readers
from kith.streams.telling import (
    Message,
    PostRemoved,
    RemovedFor,
    Reset,
    ResetFor,
    Stream,
    Told,
    engagement_update,
    new_post,
    told,
    why_gone,
)

READ_EVERY_S = 0.02
"""How soon a new event is seen while there are streams."""
COUNTS_EVERY_S = 1.0
"""At most one update of a post's numbers in so long; longer where telling them takes more than COUNTS_SHARE of it."""
COUNTS_SHARE = 0.2
PAIRS_MAX = 20_000
"""Pairs of a post and a stream looked at in one round of numbers; the other posts wait for the next round."""
_READ_MAX = 500
_SWEPT_EVERY_S = 1.0
_SCANNED = 500
_log = structlog.get_logger("kith.home")


class Observer(Protocol):
    """Who counts what streams do."""

    def told(self, event: str, streams: int) -> None:
        """One message went to so many streams."""
        ...

    def tail(self, lag_s: float) -> None:
        """So old was the oldest event that was read now."""
        ...


class Live:
    """The streams of one process, and the one that follows the log for them."""

    def __init__(
        self,
        objects: Posts,
        engagement: Engagement,
        log: LogStore,
        observer: Observer,
        *,
        resume_events: int,
        heartbeat_s: float,
        now_ms: Callable[[], int] = wall_ms,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects, self._engagement, self._log, self._observer = objects, engagement, log, observer
        self._resume_events, self._heartbeat_s = resume_events, heartbeat_s
        self._now_ms, self._now_s = now_ms, now_s
        self._readers, self._reading = Readers(objects), Reading(objects.graph.graphs)
        self._missed = Missed(objects, engagement, self._readers)
        self._open: set[Stream] = set()  # those that join included
        self._users: dict[int, list[Stream]] = {}
        self._task: asyncio.Task[None] | None = None
        self._reaching = asyncio.Lock()
        self._begin(0)

    # --- streams ---------------------------------------------------------------------------------------

    async def join(self, stream: Stream, place: str | None, shown: Sequence[int]) -> None:
        """Tell the stream what it missed since `place` (None: nothing), and from then on what happens.

        `shown`: posts that the reader looks at; those that are not there for them are told as removed.
        """
        self._open.add(stream)
        if self._task is None:
            self._begin(self._log.bounds()[1])
            self._task = asyncio.create_task(self._follow())
        begun = await self._start(stream, place)
        if begun is None:
            return
        if place is not None:
            self._say(stream, begun)
        absent = set(await self._missed.watch(stream, shown))
        while begun.posts < self._recent.at or begun.counts < self._recent.at:
            at = self._recent.at
            if self._recent.start > begun.counts:  # it moved on while we told
                return self._reset(stream, "too_far")
            for sequence, message in await self._missed.since(stream, self._recent.since(begun.counts), begun):
                if isinstance(message, Reset):
                    return self._reset(stream, message.reason)
                absent.discard(int(message.post_id))
                begun = Place(max(begun.posts, sequence), begun.counts)  # numbers come last, and are of any event
                await stream.room()  # what was missed may be more than a reader may be behind
                self._send([stream], begun, message)
            begun = Place(max(begun.posts, at), at)
        for post in absent:
            self._send([stream], begun, PostRemoved(str(post), "unavailable"))
        if stream in self._open:  # no await since the log's end was looked at: nothing is missed, and nothing doubled
            stream.since = begun.posts
            self._say(stream, begun)
            self._users.setdefault(stream.user, []).append(stream)

    def leave(self, stream: Stream) -> None:
        """Forget a stream; without any, the log is not followed."""
        self._open.discard(stream)
        streams = self._users.get(stream.user, [])
        if stream in streams:
            streams.remove(stream)
            if not streams:
                del self._users[stream.user]
        if not self._open and self._task is not None:
            self._task.cancel()
            self._task = None
            self._observer.tail(0.0)

    async def close(self) -> None:
        """Stop following the log."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _start(self, stream: Stream, text: str | None) -> Place | None:
        """Where a stream begins: where it left off, or now; None if it could not, and is over."""
        here = Place(self._recent.at, self._recent.at)
        if text is None:
            return here
        place = read_place(text)
        first, last = self._log.bounds()
        why = lost(place, first, last, self._resume_events)
        if why is None and place is not None:
            if await self._reach(place.counts):
                return place
            why = "expired"
        self._reset(stream, why or "unknown")
        return None

    def _reset(self, stream: Stream, why: ResetFor) -> None:
        """Have the reader load the feed anew, and come back with what it shows then."""
        self._send([stream], Place(self._recent.at, self._recent.at), Reset(why))
        stream.end("reset")

    async def _reach(self, start: int) -> bool:
        """Have every change since `start` at hand; False if the log no longer holds them."""
        async with self._reaching:
            while self._recent.start > start:
                end = self._recent.start
                begin = max(start, end - _READ_MAX)
                events = self._log.read(begin, end - begin)
                if not events or events[0].sequence != begin + 1:
                    return False
                self._recent.reach_back(self._reading.changes(events), begin)
                await asyncio.sleep(0)
        return True

    # --- following the log -----------------------------------------------------------------------------

    def _begin(self, at: int) -> None:
        self._recent, self._touched = Recent(at, self._resume_events), Touched()
        self._pending: deque[Change] = deque()
        self._counted = at  # numbers are told up to here

    async def _follow(self) -> None:
        counts_due = sweep_due = 0.0
        while True:
            busy = False
            try:
                busy = await self._step()
                now = self._now_s()
                if now >= counts_due:
                    await self._tell_counts()
                    spent = self._now_s() - now
                    counts_due = now + max(COUNTS_EVERY_S, spent / COUNTS_SHARE)
                if now >= sweep_due:
                    sweep_due = now + _SWEPT_EVERY_S
                    self._beat(now)
            except Unavailable as error:
                _log.warning("streams wait for the store", error=error.message)
                await asyncio.sleep(COUNTS_EVERY_S)
                self._beat(self._now_s())
            except Exception:
                _log.exception("a change could not be told; every stream starts anew")
                if self._pending:
                    self._pending.popleft()
                self._reset_all("changed")
            await asyncio.sleep(0 if busy else READ_EVERY_S)

    async def _step(self) -> bool:
        """Take what is new in the log; whether there was anything."""
        if not self._pending:
            events = self._log.read(self._recent.at, _READ_MAX)
            self._observer.tail(max(0, self._now_ms() - events[0].logged_ms) / 1000 if events else 0.0)
            if not events:
                return False
            if events[0].sequence != self._recent.at + 1:
                self._begin(events[-1].sequence)
                self._reset_all("expired")
                return True
            changes = self._reading.changes(events)
            self._recent.extend(changes, events[-1].sequence)
            self._pending.extend(changes)
        while self._pending:
            await self._tell_of(self._pending[0])
            self._pending.popleft()
        return True

    async def _tell_of(self, change: Change) -> None:
        """Tell of one change. May be repeated after an error: no stream is told of it twice."""
        match change.kind:
            case Kind.POSTED:
                await self._posted(change)
            case Kind.REMOVED:
                await self._removed(change)
            case Kind.ENGAGED | Kind.EDITED:
                self._touched.add(change.what, change.sequence, counted=change.kind is Kind.ENGAGED)
            case Kind.STANDING:
                self._look_at_all_of(change.who, self._users.values(), change)
            case Kind.UNFOLLOWED:
                self._look_at_all_of(change.what, [self._users.get(change.who, [])], change)
            case Kind.HIDDEN:
                self._take_away(change, change.who, "hidden", lambda post, _: post == change.what)
            case Kind.MUTED:
                self._take_away(change, change.who, "muted", lambda _, author: author == change.what)
            case Kind.BLOCKED:
                self._take_away(change, change.who, "blocked", lambda _, author: author == change.what)
                self._take_away(change, change.what, "unavailable", lambda _, author: author == change.who)
            case Kind.LOADED:
                self._reset_all("loaded")

    def _look_at_all_of(self, user: int, watching: Iterable[Sequence[Stream]], change: Change) -> None:
        """Look again at every post of a user that is watched in these streams."""
        for stream in itertools.chain.from_iterable(watching):
            for post, author in stream.watched.items():
                if author == user:
                    self._touched.add(post, change.sequence, counted=False)

    async def _posted(self, change: Change) -> None:
        users = await self._concerned(change.who)
        async for post, allowed in self._readers.allowed(change.what, users):
            for own in (True, False):
                streams = self._untold([user for user in allowed if (user == post.author) is own], change)
                self._tell(streams, change, new_post(post, own=own))
                for stream in streams:
                    stream.watched.add(post.id, post.author)

    async def _removed(self, change: Change) -> None:
        """Who watches it is told that it is gone, and of the others those who would have been told of it.

        That its author deleted it is told to those alone who could see it until then.
        """
        watching = {stream for streams in self._users.values() for stream in streams if change.what in stream.watched}
        users = list(dict.fromkeys(stream.user for stream in watching))
        async for post, could in self._readers.seeing(change.what, users, deleted=True):
            deleted = post is not None and post.deleted
            for saw in (True, False):
                alike = self._untold([user for user in could if could[user] is saw], change)
                streams = [stream for stream in alike if stream in watching]
                self._tell(streams, change, PostRemoved(str(change.what), why_gone(deleted, saw)))
                for stream in streams:
                    stream.watched.pop(change.what, None)
        others = [user for user in await self._concerned(change.who) if self._untold([user], change)]
        async for post, allowed in self._readers.allowed(change.what, others, deleted=True):
            if post.deleted:
                self._tell(self._untold(allowed, change), change, PostRemoved(str(change.what), "author_deleted"))

    async def _concerned(self, author: int) -> list[int]:
        """Connected users to whom an author's posts go."""
        users = await self._readers.followers(author, self._users)
        return [*users, author] if author in self._users and author not in users else users

    def _take_away(self, change: Change, user: int, why: RemovedFor, gone: Callable[[int, int], bool]) -> None:
        """Tell a user's streams which of the posts that they watch are gone for them."""
        for stream in self._untold([user], change):
            posts = [post for post, author in stream.watched.items() if gone(post, author)]
            for post in posts:
                del stream.watched[post]
                if post != posts[-1]:  # who leaves off here comes back to what is left of the change
                    self._send([stream], Place(change.sequence - 1, self._counted), PostRemoved(str(post), why))
            if posts:
                self._tell([stream], change, PostRemoved(str(posts[-1]), why))

    def _untold(self, users: Iterable[int], change: Change) -> list[Stream]:
        """The streams of these users that were not told of a change, neither as they joined nor before an error."""
        return [stream for user in users for stream in self._users.get(user, ()) if stream.since < change.sequence]

    def _tell(self, streams: Sequence[Stream], change: Change, message: Message) -> None:
        for stream in streams:
            stream.since = change.sequence
        self._send(streams, Place(change.sequence, self._counted), message)

    # --- numbers, heartbeats ---------------------------------------------------------------------------

    async def _tell_counts(self) -> None:
        """Tell the numbers of posts that changed to those who watch them; and drop what they may no longer see."""
        done, touched = self._done(), self._touched.take()
        try:
            watching = await self._watching(touched)
            counts = dict(zip(watching, await self._engagement.counts(None, list(watching)), strict=True))
            for post, streams in watching.items():
                update = told(engagement_update(post, counts[post])) if touched[post][1] else None
                await self._look_again(post, streams, update)
                del touched[post]
        except BaseException:
            self._touched.put_back(touched)
            raise
        self._counted = self._touched.told(done)

    async def _watching(self, touched: dict[int, tuple[int, bool]]) -> dict[int, list[Stream]]:
        """Who watches which of the touched posts, as much as one round takes; the rest is put back."""
        watching: dict[int, list[Stream]] = {}
        streams = [stream for streams in self._users.values() for stream in streams] if touched else []
        for at in range(0, len(streams), _SCANNED):
            for stream in streams[at : at + _SCANNED]:
                for post in stream.watched.keys() & touched.keys():
                    watching.setdefault(post, []).append(stream)
            await asyncio.sleep(0)
        pairs = 0
        taken: dict[int, list[Stream]] = {}
        for post in touched:
            if post in watching and (not taken or pairs + len(watching[post]) <= PAIRS_MAX):
                pairs += len(watching[post])
                taken[post] = watching[post]
        later = {post: touched.pop(post) for post in watching.keys() - taken.keys()}
        self._touched.put_back(later)
        return taken

    async def _look_again(self, id_: int, streams: Sequence[Stream], update: Told | None) -> None:
        users = list(dict.fromkeys(stream.user for stream in streams))
        could: dict[int, bool] = {}
        deleted = False
        async for post, part in self._readers.seeing(id_, users, deleted=True):
            could |= part
            deleted = post is not None and post.deleted
        removed = {saw: told(PostRemoved(str(id_), why_gone(deleted, saw))) for saw in (True, False)}
        for stream in streams:
            saw = could[stream.user]
            sees = saw and not deleted
            if not sees:
                stream.watched.pop(id_, None)
            message = update if sees else removed[saw]
            if message is not None:
                self._say(stream, Place(max(self._done(), stream.since), self._counted), message.name, message.data)
                self._observer.told(message.name, 1)

    def _beat(self, now_s: float) -> None:
        """Say something to those who heard nothing for long, and where they are."""
        for streams in self._users.values():
            for stream in streams:
                if now_s - stream.told_at_s >= self._heartbeat_s:
                    self._say(stream, Place(max(self._done(), stream.since), self._counted))

    def _say(self, stream: Stream, place: Place, name: str = "", data: bytes = b"") -> None:
        stream.told_at_s = self._now_s()
        stream.send(place, name, data)

    def _done(self) -> int:
        """The sequence number up to which posts and removals are told."""
        return self._pending[0].sequence - 1 if self._pending else self._recent.at

    def _reset_all(self, why: ResetFor) -> None:
        for stream in [stream for streams in self._users.values() for stream in streams]:
            self._reset(stream, why)
            self.leave(stream)

    def _send(self, streams: Sequence[Stream], place: Place, message: Message) -> None:
        if streams:
            encoded = told(message)
            for stream in streams:
                self._say(stream, place, encoded.name, encoded.data)
            self._observer.told(encoded.name, len(streams))
