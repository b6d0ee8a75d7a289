"""Tells watchers what changes: each reads its past by itself, and then all share one reading of the end of the log.

A watcher is a place in the log and no queue: what it is told is handed on at once, and one that takes nothing is cut
off and comes back with its last token. So a thousand watchers cost one reading, and one encoding for each kind of wish.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import structlog

from kith.core.errors import BadToken, TokenTooOld, Unavailable
from kith.core.events import NOWHERE, Event, LogPosition
from kith.graph.graphs import Graphs
from kith.log.store import Batch, Bell, LogStore
from kith.watch.tokens import WatchTokens
from kith.watch.told import told
from kith.watch.wanted import Wanted

READ_MAX = 1_000
"""Events that are read at a time."""
PAST_MAX = 100
"""Events of the past that one watcher is told before it must have room for more: posts of some KB each."""
HERE_EVERY_S = 15.0
"""How often a watcher is told where it is while nothing happens that it wants."""
_GATHERED_S = 0.02
"""Shortest time between two readings: what comes close together is told together."""
_RETRY_S = 1.0
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger("kith.watch")

Frame = Callable[[str, bytes], bytes]
"""(token, change as JSON) -> as it goes over the wire."""


class Watcher(Protocol):
    """Somebody who watches, and what takes what they are told."""

    wanted: Wanted
    frame: Frame

    @property
    def ended(self) -> str | None:
        """Why it ended; None: it goes on."""
        ...

    def write(self, raw: bytes) -> None:
        """Hand bytes over; too many that were not taken end it."""
        ...

    def here(self, token: str) -> None:
        """Say where it is, as nothing happens."""
        ...

    async def room(self) -> None:
        """Wait until there is room for more."""
        ...

    def end(self, why: str) -> None:
        """End it."""
        ...


class _Place(NamedTuple):
    watcher: Watcher
    at: LogPosition


class Watch:
    """All watchers of one process."""

    def __init__(
        self,
        log: LogStore,
        graphs: Callable[[], Awaitable[Mapping[str, int]]],
        secret: bytes,
        now_s: Callable[[], float],
    ) -> None:
        """`graphs`: the numbers of all graphs. They are asked for as they turn up in the log, since others declare new
        ones while this process runs: an import, say.
        """
        self._log, self._all_graphs, self._now_s = log, graphs, now_s
        self._graphs = Graphs({})
        self._tokens = WatchTokens(secret)
        self.token = self._tokens.issue
        """The token of a place: watch from it on, and what follows comes."""
        self._joining: list[_Place] = []
        self._watchers: set[Watcher] = set()
        self._ahead: dict[Watcher, LogPosition] = {}  # who has read further by themselves than all others
        self._at = NOWHERE
        self._told_s: dict[Watcher, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def place(self, token: str | None) -> LogPosition:
        """The place that a token stands for; without one, now. Errors: BadToken; TokenTooOld."""
        if token is None:
            return await self._log.end()
        at = self._tokens.read(token)
        if at is None:
            raise BadToken("this token was not issued by this service; send back the last one that you were told")
        if not self._log.covers(await self._log.end(), at):
            raise BadToken(
                "this token is of another store, or of what was lost in a restore; export, and watch from there"
            )
        if (await self._log.behind(at)).lost:
            raise too_old()
        return at

    async def follow(self, watcher: Watcher, at: LogPosition) -> None:
        """Tell a watcher what happened since `at`, and go on with what happens, until it is ended or left."""
        while watcher.ended is None:
            batch = await self._read(at, PAST_MAX)
            if batch.lost:
                watcher.end("behind")
                return
            at = batch.next
            watcher.write(self._told(batch.events, watcher.wanted, watcher.frame))
            if len(batch.events) < PAST_MAX:
                break
            del batch  # which one that is slow would keep
            await watcher.room()
        self._joining.append(_Place(watcher, at))
        if self._task is None:
            self._at = at
            self._task = asyncio.create_task(self._run(), name="kith-watch")

    def leave(self, watcher: Watcher) -> None:
        """Tell it nothing more."""
        self._watchers.discard(watcher)
        self._told_s.pop(watcher, None)
        self._ahead.pop(watcher, None)
        self._joining = [place for place in self._joining if place.watcher is not watcher]

    async def close(self) -> None:
        """End every watcher."""
        self._end_all("stopping")
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        """Tell all watchers, until none is left."""
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
        """Let in who caught up, and tell all what is new."""
        while self._joining:
            await self._let_in(self._joining[0])
        batch = await self._read(self._at)
        if batch.lost:
            self._end_all("behind")
        self._at = batch.next
        self._tell(batch.events)
        self._beat()
        if not batch.events:
            await bell.rung(1.0)
            await asyncio.sleep(_GATHERED_S)

    async def _let_in(self, place: _Place) -> None:
        """Tell who joins what lies between their place and that of all others, and later nothing that they know."""
        watcher, at = place
        while watcher.ended is None and not self._log.covers(at, self._at):
            batch = await self._read(at)
            if batch.lost:
                watcher.end("behind")
                break
            at = batch.next
            earlier = [event for event in batch.events if self._log.covers(self._at, event.mark)]
            watcher.write(self._told(earlier, watcher.wanted, watcher.frame))
        if place in self._joining:
            self._joining.remove(place)
            if watcher.ended is None:
                self._watchers.add(watcher)
                self._told_s[watcher] = self._now_s()
                if not self._log.covers(self._at, place.at):
                    self._ahead[watcher] = place.at

    async def _read(self, after: LogPosition, limit: int = READ_MAX) -> Batch:
        """The next events, whose graphs are known then."""
        batch = await self._log.read(after, limit)
        if not self._graphs.knows({event.graph for event in batch.events if event.graph}):
            self._graphs = Graphs(await self._all_graphs())
        await asyncio.sleep(0)  # others get their turn, however long the log is
        return batch

    def _end_all(self, why: str) -> None:
        for watcher in (*self._watchers, *(place.watcher for place in self._joining)):
            watcher.end(why)
            self.leave(watcher)

    def _tell(self, events: Sequence[Event]) -> None:
        chunks: dict[tuple[Wanted, Frame], bytes] = {}
        for watcher in list(self._watchers):
            if watcher.ended is not None:
                self.leave(watcher)
                continue
            wish = (watcher.wanted, watcher.frame)
            ahead = self._ahead.get(watcher)
            chunk = chunks.get(wish)
            if ahead is not None:
                chunk = self._told([event for event in events if not self._log.covers(ahead, event.mark)], *wish)
                if self._log.covers(self._at, ahead):
                    del self._ahead[watcher]
            elif chunk is None:
                chunk = chunks[wish] = self._told(events, *wish)
            if chunk:
                watcher.write(chunk)
                self._told_s[watcher] = self._now_s()

    def _beat(self) -> None:
        """Say where they are to those who were told nothing for long."""
        now_s = self._now_s()
        late = [watcher for watcher, told_s in self._told_s.items() if now_s - told_s >= HERE_EVERY_S]
        if late:
            token = self.token(self._at)
            for watcher in late:
                watcher.here(token)
                self._told_s[watcher] = now_s

    def _told(self, events: Sequence[Event], wanted: Wanted, frame: Frame) -> bytes:
        """Those of the events that are wanted, as they go over the wire."""
        parts = []
        for event in events:
            if wanted.may_want(event):
                token = self.token(event.mark)
                change = told(event, token, self._graphs)
                if wanted.wants(change):
                    parts.append(frame(token, _encode(change)))
        return b"".join(parts)


def too_old() -> TokenTooOld:
    """The error for a token behind which the log was forgotten."""
    return TokenTooOld(
        "the log no longer reaches back to this token; "
        "export what you follow: `kith export edges` names the token to watch from"
    )
