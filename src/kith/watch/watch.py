"""Streams changes to watchers: each reads past events by itself, and then all share one reading of new events.

A watcher has a position in the log and no queue: changes are written to it at once. A slow watcher reads by itself
again until it has caught up. A watcher that takes nothing is disconnected, and resumes with its last token.

So a thousand watchers with server keys cost one reading, and one encoding per distinct filter. For users, what each may
see is decided one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import NamedTuple, Protocol

import msgspec
import structlog

from kith.core.errors import BadToken, TokenTooOld, Unavailable
from kith.core.events import NOWHERE, Event, LogPosition
from kith.core.ids import NodeId
from kith.core.stopping import stop
from kith.graph.graphs import Graphs
from kith.log.store import Batch, Bell, LogStore
from kith.watch.change_filter import ChangeFilter
from kith.watch.changes import Change, change_from, kind_of, nodes_of
from kith.watch.tokens import UserWatchTokens, WatchTokens
from kith.watch.visibility import ChangeVisibility, PendingChange

READ_EVENTS_MAX = 1_000
"""Past events that a watcher is sent before it must have room for more."""
READ_BYTES_TARGET = 1 << 17
"""Approximate bytes that it is sent before that; posts have some KB each, so fewer of them are read at once."""
_READ_AT_ONCE = 200
"""Events of one read while their size is not known."""
POSITION_EVERY_S = 15.0
"""How often a watcher is sent its position while no wanted change happens."""
_BATCH_WINDOW_S = 0.02
"""Shortest time between two reads, so that changes that are close together are sent together."""
_RETRY_S = 1.0
_log = structlog.get_logger("kith.watch")

Frame = Callable[[Sequence[Change]], bytes]
"""Encodes changes for the wire."""


class Watcher(Protocol):
    """A connected watcher, and the way to send to it."""

    filter: ChangeFilter
    frame: Frame
    user: NodeId | None
    """The user, who is sent what they may see; None: the app, which is sent everything."""

    @property
    def has_room(self) -> bool:
        """Whether the watcher has read enough of what was written to be sent more."""
        ...

    @property
    def ended(self) -> str | None:
        """Why the watcher was ended; None while it is not."""
        ...

    def write(self, raw: bytes) -> None:
        """Send bytes. If the watcher has left too many unread, it is ended."""
        ...

    def send_position(self, token: str) -> None:
        """Send the watcher its position, as no wanted change has happened for a while."""
        ...

    async def wait_for_room(self) -> None:
        """Wait until there is room for more."""
        ...

    def end(self, why: str) -> None:
        """End the watcher."""
        ...


class _WatcherPosition(NamedTuple):
    watcher: Watcher
    at: LogPosition


class _EventIndex:
    """Events indexed by node, so that a thousand watchers of one node each do not scan every event."""

    def __init__(self, events: Sequence[Event], graphs: Graphs) -> None:
        self._events, self._graphs = events, graphs
        self._indexes: dict[str, list[int]] | None = None
        self._about_any: list[int] = []  # indexes of events about any node

    def of(self, nodes: frozenset[str] | None) -> Sequence[Event]:
        """The events about these nodes, in order; None: all events."""
        if nodes is None:
            return self._events
        if self._indexes is None:
            self._indexes = {}
            for index, event in enumerate(self._events):
                about = nodes_of(change_from(event, "", self._graphs)) if kind_of(event) is not None else ()
                if about is None:
                    self._about_any.append(index)
                for node in about or ():
                    self._indexes.setdefault(node, []).append(index)
        if len(nodes) == 1 and not self._about_any:
            indexes = self._indexes.get(next(iter(nodes)), [])
        else:
            few, many = sorted((nodes, self._indexes.keys()), key=len)
            indexes = sorted(
                {*self._about_any, *(index for node in few if node in many for index in self._indexes[node])}
            )
        return [self._events[index] for index in indexes]


class Watch:
    """All watchers of one process."""

    def __init__(
        self,
        log: LogStore,
        graphs: Callable[[], Awaitable[Mapping[str, int]]],
        secret: bytes,
        visibility: ChangeVisibility,
        now_s: Callable[[], float],
    ) -> None:
        """`graphs`: reads the numbers of all graphs. They are reloaded when an unknown graph appears in the log, since
        other processes, an import for example, may declare new ones while this process runs.
        """
        self._log, self._all_graphs, self._visibility, self._now_s = log, graphs, visibility, now_s
        self._graphs = Graphs({})
        self._tokens, self._user_tokens = WatchTokens(secret), UserWatchTokens(secret)
        self._joining: list[_WatcherPosition] = []
        self._watchers: set[Watcher] = set()
        self._ahead: dict[Watcher, LogPosition] = {}  # watchers that read further by themselves than the shared reading
        self._read_to = NOWHERE
        self._sent_s: dict[Watcher, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._catching_up = set[asyncio.Task[None]]()

    def token(self, position: LogPosition, user: NodeId | None = None) -> str:
        """The token of a position; a watcher that resumes from it receives what follows."""
        return self._tokens.issue(position) if user is None else self._user_tokens.issue(position)

    async def place(self, token: str | None, user: NodeId | None = None) -> LogPosition:
        """The position that a token stands for; the end of the log without one. A lagging standby is waited for.

        Errors: BadToken; TokenTooOld; StandbyBehind.
        """
        if token is None:
            return await self._log.end()
        position = (self._tokens if user is None else self._user_tokens).read(token)
        if position is None:
            raise BadToken("this token was not issued by this service; send the last one that you received")
        if not await self._log.reached(position):
            raise BadToken(
                "this token is of another store, or of what was lost in a restore; export, and watch from there"
            )
        if (await self._log.behind(position)).lost:
            raise token_too_old()
        return position

    async def follow(self, watcher: Watcher, position: LogPosition) -> None:
        """Send a watcher the events since `position`, then let it join the shared reading, unless it ends before.

        A watcher that wants little of a long past is sent its position now and then. Otherwise its client would hear
        nothing, take the connection for lost, and start over.
        """
        limit, sent_s = _READ_AT_ONCE, self._now_s()
        while watcher.ended is None:
            batch = await self._read(position, limit)
            if batch.lost:
                watcher.end("behind")
                break
            raw = await self._encode_for(watcher, batch.events, position)
            watcher.write(raw)
            position = batch.next
            if len(batch.events) < limit:
                break
            if raw:
                sent_s = self._now_s()
            elif self._now_s() - sent_s >= POSITION_EVERY_S:
                sent_s = self._now_s()
                watcher.send_position(self.token(position, watcher.user))
            if watcher.user is None:
                limit = _next_limit(limit, len(raw))
            del batch, raw  # a slow watcher would keep them in memory while it waits
            await watcher.wait_for_room()
        if watcher.ended is not None:
            return
        self._joining.append(_WatcherPosition(watcher, position))
        if self._task is None:
            self._read_to = position
            self._task = asyncio.create_task(self._run(), name="kith-watch")

    def leave(self, watcher: Watcher) -> None:
        """Send a watcher nothing more."""
        self._watchers.discard(watcher)
        self._sent_s.pop(watcher, None)
        self._ahead.pop(watcher, None)
        self._joining = [joining for joining in self._joining if joining.watcher is not watcher]

    async def changes_of(self, events: Sequence[Event]) -> list[Change]:
        """Events that have a kind, as the changes that watchers with server keys are sent."""
        await self._load_graphs(events)
        return [change_from(event, self.token(event.log_position), self._graphs) for event in events]

    async def close(self) -> None:
        """End every watcher."""
        self._end_all("stopping")
        await stop(*self._catching_up, *([] if self._task is None else [self._task]))

    async def _run(self) -> None:
        """Send new events to all watchers, until none is left."""
        with self._log.bell() as bell:
            while self._watchers or self._joining:
                try:
                    await self._step(bell)
                except Unavailable as error:
                    _log.warning("watchers wait for the store", error=error.message)
                    await asyncio.sleep(_RETRY_S)
                except Exception:
                    _log.exception("watchers are ended; they come back with their tokens")
                    self._end_all("failed")
        self._task = None

    async def _step(self, bell: Bell) -> None:
        """Add watchers that have caught up, and send new events to all."""
        while self._joining:
            await self._join(self._joining[0])
        batch = await self._read(self._read_to)
        if batch.lost:
            self._end_all("behind")
        before, self._read_to = self._read_to, batch.next
        if batch.events:
            await self._send(before, batch.events)
        self._send_positions()
        if not batch.events:
            await bell.rung(1.0)
            await asyncio.sleep(_BATCH_WINDOW_S)

    async def _join(self, place: _WatcherPosition) -> None:
        """Send a joining watcher the events between its position and the shared one, and add it to the others.

        If the store is unavailable meanwhile, it joins later, and continues after what it was sent.
        """
        watcher, position = place
        while watcher.ended is None and not self._log.covers(position, self._read_to):
            batch = await self._read(position)
            if batch.lost:
                watcher.end("behind")
                break
            position = batch.next
            earlier = [event for event in batch.events if self._log.covers(self._read_to, event.log_position)]
            watcher.write(await self._encode_for(watcher, earlier, place.at))
            sent_place = _WatcherPosition(
                watcher, reduce(self._log.joined, (event.log_position for event in earlier), place.at)
            )
            self._joining = [sent_place if joining is place else joining for joining in self._joining]
            place = sent_place
        if place in self._joining:
            self._joining.remove(place)
            if watcher.ended is None:
                self._watchers.add(watcher)
                self._sent_s[watcher] = self._now_s()
                if not self._log.covers(self._read_to, place.at):
                    self._ahead[watcher] = place.at

    async def _read(self, after: LogPosition, limit: int = _READ_AT_ONCE) -> Batch:
        """Read the next events, and the graphs that they name."""
        batch = await self._log.read(after, limit)
        await self._load_graphs(batch.events)
        await asyncio.sleep(0)  # yield to other tasks, however long the log is
        return batch

    async def _load_graphs(self, events: Sequence[Event]) -> None:
        if not self._graphs.knows({event.graph for event in events if event.graph}):
            self._graphs = Graphs(await self._all_graphs())

    def _end_all(self, why: str) -> None:
        for watcher in (*self._watchers, *(joining.watcher for joining in self._joining)):
            watcher.end(why)
            self.leave(watcher)

    async def _send(self, before: LogPosition, events: Sequence[Event]) -> None:
        """Send all watchers the events after `before`. A watcher without room continues from there by itself."""
        chunks: dict[tuple[ChangeFilter, Frame], bytes] = {}
        index = _EventIndex(events, self._graphs)
        for watcher in list(self._watchers):
            if watcher.ended is not None:
                self.leave(watcher)
                continue
            sent_to, position, unseen = self._ahead.get(watcher), before, index.of(watcher.filter.nodes)
            if sent_to is not None:
                position = self._log.joined(before, sent_to)
                unseen = [event for event in unseen if not self._log.covers(sent_to, event.log_position)]
            if not watcher.has_room:
                self.leave(watcher)
                self._catch_up(watcher, position)
                continue
            key = (watcher.filter, watcher.frame)
            if watcher.user is not None or sent_to is not None:
                chunk = await self._encode_for(watcher, unseen, position)
            elif key in chunks:
                chunk = chunks[key]
            else:
                chunk = chunks[key] = self._encode(unseen, *key, position)
            if sent_to is not None and self._log.covers(self._read_to, sent_to):
                self._ahead.pop(watcher, None)
            if chunk and watcher in self._watchers:
                watcher.write(chunk)
                self._sent_s[watcher] = self._now_s()

    def _catch_up(self, watcher: Watcher, position: LogPosition) -> None:
        """Let a slow watcher read by itself, until it has caught up with the shared reading."""

        async def catch_up() -> None:
            try:
                await watcher.wait_for_room()
                await self.follow(watcher, position)
            except Exception:
                _log.exception("a watcher is ended; it comes back with its token")
                watcher.end("failed")

        task = asyncio.create_task(catch_up(), name="kith-watch-behind")
        self._catching_up.add(task)
        task.add_done_callback(self._catching_up.discard)

    def _send_positions(self) -> None:
        """Send its position to each watcher that was sent nothing for POSITION_EVERY_S."""
        now_s = self._now_s()
        due = [watcher for watcher, sent_s in self._sent_s.items() if now_s - sent_s >= POSITION_EVERY_S]
        for watcher in due:
            sent_to = self._ahead.get(watcher)
            position = self._read_to if sent_to is None else self._log.joined(self._read_to, sent_to)
            watcher.send_position(self.token(position, watcher.user))
            self._sent_s[watcher] = now_s

    async def _encode_for(self, watcher: Watcher, events: Sequence[Event], position: LogPosition) -> bytes:
        """What one watcher is sent of the events after `position`, as bytes. An error ends this watcher only."""
        user, filter_ = watcher.user, watcher.filter
        if user is None:
            return self._encode(events, filter_, watcher.frame, position)
        changes = []
        try:
            candidates = [event for event in filter_.candidates(events) if self._visibility.may_see(user, event)]
            pending = [PendingChange(event, change_from(event, "", self._graphs)) for event in candidates]
            pending = [one for one in pending if filter_.matches(one.change)]
            for event, change in await self._visibility.visible_changes(user, pending, self._graphs) if pending else ():
                position = self._log.joined(position, event.log_position)
                changes.append(msgspec.structs.replace(change, token=self.token(position, user)))
        except Unavailable as error:
            _log.warning("a watcher is ended; it comes back with its token", error=error.message)
            watcher.end("unavailable")
        except Exception:
            _log.exception("a watcher is ended; it comes back with its token")
            watcher.end("failed")
        return watcher.frame(changes) if changes else b""

    def _encode(self, events: Sequence[Event], filter_: ChangeFilter, frame: Frame, position: LogPosition) -> bytes:
        """The wanted events after `position`, as bytes on the wire. Each token also covers the events before it."""
        candidates = filter_.candidates(events)
        ends = list(accumulate((event.log_position for event in candidates), self._log.joined, initial=position))[1:]
        tokens, graphs = self._tokens.issue_all(ends), self._graphs
        changes = [change_from(event, token, graphs) for event, token in zip(candidates, tokens, strict=True)]
        return frame(changes if filter_.nodes is None else [change for change in changes if filter_.matches(change)])


def _next_limit(limit: int, size: int) -> int:
    """How many events to read next, given that the last `limit` came to `size` bytes."""
    return min(READ_EVENTS_MAX, 2 * limit, max(1, limit * READ_BYTES_TARGET // max(1, size)))


def token_too_old() -> TokenTooOld:
    """The error for a token after which the log forgot events."""
    return TokenTooOld(
        "the log no longer reaches back to this token; "
        "export what you follow: `kith export edges` names the token to watch from"
    )
