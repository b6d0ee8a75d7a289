"""Edge checks in three layers: the filter of the process, cached sets, and the store for what neither knows.

A reader without a token may get answers that are up to STALE_S old. A reader with a token is answered by layers that
have reached the token's position, or by the store. A layer that is unavailable, behind or empty makes answers slower,
never wrong.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import structlog

from kith.checks.filter import Filter
from kith.checks.live_filter import FILTER_LAG_MAX_S, LiveFilter
from kith.checks.sets import CachedSets, FillLease, Members, SetKey, SetsProgress, Wait
from kith.core.errors import KithError
from kith.core.events import NOWHERE, LogPosition
from kith.graph.edge import Direction, State
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing, Pair
from kith.graph.store import EdgeStore
from kith.log.store import LogStore

SET_IDS_MAX = 1_000
"""Sources with more destinations are not cached: filling their sets costs more than checking them."""
SET_TTL_S = 600.0
"""How long a set is cached, in seconds, plus or minus a fifth, so that sets filled together do not expire together."""
STALE_S = 3.0
"""Longest that an answer may lag behind the store, in seconds, from any layer."""
_PROGRESS_VALID_S = STALE_S - FILTER_LAG_MAX_S
_LOOKUP_TIMEOUT_S, _PAUSE_S = 0.1, 1.0
_FILLING_MAX, _WAITING_MAX = 64, 100_000
_reader_position: contextvars.ContextVar[LogPosition] = contextvars.ContextVar("kith_seen", default=NOWHERE)
_log = structlog.get_logger("kith.checks")


class CheckObserver(Protocol):
    """Counts which layer answered checks."""

    def checked(self, layer: str, present: int, absent: int) -> None:
        """A layer (`filter`, `cache` or `store`) answered that `present` edges exist and `absent` do not."""
        ...


class RequestPositionLog:
    """A log that remembers, per task, the positions that a request waited for with `reached`: its checks must show
    them.
    """

    def __init__(self, log: LogStore) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        attribute = self.__dict__[name] = getattr(self._log, name)
        return attribute

    async def reached(self, position: LogPosition) -> bool:
        """See `LogStore.reached`."""
        is_reached = await self._log.reached(position)
        if is_reached:
            _reader_position.set(self._log.joined(_reader_position.get(), position))
        return is_reached


class TrackedSets:
    """Cached sets, and whether they are up to date as far as this process knows."""

    def __init__(self, sets: CachedSets, graphs: Collection[int], now_s: Callable[[], float] = time.monotonic) -> None:
        self.sets, self.graphs, self.now_s = sets, frozenset(graphs), now_s
        self._progress: SetsProgress | None = None
        self._until_s = 0.0

    async def refresh(self) -> None:
        """Query whether the sets are up to date; the answer is valid for a moment."""
        asked_s = self.now_s()
        self._progress = await self.sets.progress()
        self._until_s = asked_s + _PROGRESS_VALID_S

    def progress(self) -> SetsProgress | None:
        """The position up to which the sets are up to date, if known now; else None."""
        return self._progress if self.now_s() < self._until_s else None

    def mark_unknown(self) -> None:
        """Make `progress` return None until the next `refresh`, because the sets did not answer."""
        self._until_s = 0.0

    async def run(self) -> None:
        """Call `refresh` regularly until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_PAUSE_S):
                    await self.refresh()
            except (KithError, TimeoutError) as error:
                self.mark_unknown()
                _log.warning("checks go without cached sets", error=str(error) or f"no answer within {_PAUSE_S:g} s")
                await asyncio.sleep(_PAUSE_S)
            await asyncio.sleep(_PROGRESS_VALID_S / 2)


class LayeredEdges:
    """An `EdgeStore` whose `exists_many` and `answer` use the layers first. Only for reads that may be STALE_S old."""

    def __init__(
        self, store: EdgeStore, log: LogStore, live_filter: LiveFilter, sets: TrackedSets, observer: CheckObserver
    ) -> None:
        self._store, self._log, self._live_filter, self._sets, self._observer = store, log, live_filter, sets, observer
        self._waiting: dict[SetKey, float] = {}  # when to look for a set again, by `now_s`
        self._filling: set[asyncio.Task[None]] = set()

    def __getattr__(self, name: str) -> Any:
        attribute = self.__dict__[name] = getattr(self._store, name)
        return attribute

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        """See `EdgeStore.exists_many`."""
        if graph not in self._live_filter.covered:
            stored = await self._store.exists_many(graph, pairs)
            self._count("store", sum(stored), len(stored) - sum(stored))
            return stored
        exists = [False] * len(pairs)
        position = _reader_position.get()
        unanswered: Sequence[int] = range(len(pairs))
        filter_ = self._live_filter.for_reader(position)
        if filter_ is not None:
            unanswered = [index for index in unanswered if filter_.may_have(graph, *pairs[index])]
            self._count("filter", 0, len(pairs) - len(unanswered))
        if unanswered and graph in self._sets.graphs:
            unanswered = await self._look_up_sets(graph, pairs, unanswered, position, exists)
        if unanswered:
            stored = await self._store.exists_many(graph, [pairs[index] for index in unanswered])
            for index, holds in zip(unanswered, stored, strict=True):
                exists[index] = holds
            self._count("store", sum(stored), len(stored) - sum(stored))
        return exists

    async def answer(self, questions: Questions) -> Answers:
        """See `EdgeStore.answer`. The state of a removed edge may be None. Only the filter is used, because the store
        is queried anyway.
        """
        filter_ = self._live_filter.for_reader(_reader_position.get())
        if filter_ is None or not questions.asked_states:
            return await self._store.answer(questions)
        possible = [index for index, key in enumerate(questions.asked_states) if self._may_exist(filter_, key)]
        all_keys = questions.asked_states
        self._count("filter", 0, len(all_keys) - len(possible))
        remaining = Questions()
        remaining.asked_states = [all_keys[index] for index in possible]
        remaining.asked_towards = questions.asked_towards
        remaining.asked_members, remaining.asked_nodes = questions.asked_members, questions.asked_nodes
        remaining.asked_counts, remaining.asked_pages = questions.asked_counts, questions.asked_pages
        answers = await self._store.answer(remaining) if len(remaining) else Answers([], [], [], [], [], [])
        states: list[State | None] = [None] * len(all_keys)
        for index, state in zip(possible, answers.states, strict=True):
            states[index] = state
        return answers._replace(states=states)

    def _may_exist(self, filter_: Filter, key: tuple[int, int, int]) -> bool:
        return key[0] not in self._live_filter.covered or filter_.may_have(*key)

    def _count(self, layer: str, present: int, absent: int) -> None:
        if present or absent:
            self._observer.checked(layer, present, absent)

    async def _look_up_sets(
        self, graph: int, pairs: Sequence[Pair], unanswered: Sequence[int], position: LogPosition, exists: list[bool]
    ) -> list[int]:
        """Write the answers of cached sets to `exists`; returns the pairs without an answer."""
        progress, now_s = self._sets.progress(), self._sets.now_s()
        if progress is None or not (position == NOWHERE or self._log.covers(progress.at, position)):
            return list(unanswered)
        by_source: dict[int, list[int]] = {}
        remaining = list[int]()
        for index in unanswered:
            source = pairs[index][0]
            if self._waiting.get((graph, source), 0.0) > now_s:
                remaining.append(index)
            else:
                by_source.setdefault(source, []).append(index)
        if not by_source:
            return remaining
        sets = [((graph, source), [pairs[index][1] for index in indexes]) for source, indexes in by_source.items()]
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
                lookups = await self._sets.sets.lookup(progress.generation, sets)
        except (KithError, TimeoutError):
            self._sets.mark_unknown()
            return list(unanswered)
        for (key, _), indexes, cached in zip(sets, by_source.values(), lookups, strict=True):
            if isinstance(cached, Members):
                for index, present in zip(indexes, cached.present, strict=True):
                    exists[index] = present
                self._count("cache", sum(cached.present), len(indexes) - sum(cached.present))
                continue
            remaining += indexes
            if isinstance(cached, Wait):
                self._wait(key, now_s + cached.ms / 1000)
            else:
                self._begin_filling(progress.generation, key, cached)
        return sorted(remaining)

    def _wait(self, key: SetKey, until_s: float) -> None:
        """Do not look for this set before `until_s`."""
        if len(self._waiting) >= _WAITING_MAX:
            self._waiting.clear()
        self._waiting[key] = until_s

    def _begin_filling(self, generation: bytes, key: SetKey, lease: FillLease) -> None:
        """Fill a set in the background. If too many are being filled, the lease just expires."""
        if len(self._filling) < _FILLING_MAX:
            task = asyncio.create_task(self._fill(generation, key, lease))
            self._filling.add(task)
            task.add_done_callback(self._filling.discard)

    async def _fill(self, generation: bytes, key: SetKey, lease: FillLease) -> None:
        ttl_ms = int(SET_TTL_S * random.uniform(800, 1_200))
        try:
            members = await members_of(self._store, key)
            await self._sets.sets.fill(generation, key, lease.name, members, ttl_ms)
        except KithError as error:
            _log.debug("a set is not filled", error=error.message)

    async def wait_for_fills(self) -> None:
        """Wait until no set is being filled any more."""
        while self._filling:
            await asyncio.wait(self._filling)


async def members_of(store: EdgeStore, key: SetKey) -> frozenset[int] | None:
    """The members that the set must have, from the store now. None: the set must not be cached."""
    graph, source = key
    ids = (await store.ids(Listing(graph, source, Direction.OUT), SET_IDS_MAX + 1)).tolist()
    if len(ids) > SET_IDS_MAX:
        return None
    edges = await store.get_many(graph, [(source, id_) for id_ in ids])
    present = [edge for edge in edges if edge is not None and edge.state is State.NORMAL]
    if any(edge.expires_ms for edge in present):  # a set does not know when its members expire
        return None
    return frozenset(edge.destination for edge in present)
