"""Cache tables whose values are valid until the log reports a change. `read_cache` feeds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

CHANGED_IDS_MAX = 10_000
"""Changed ids that a `ChangedIds` collects; if there are more, it reports that anything may have changed."""
CHANGES_MAX = 2_000
"""How many of the latest changed ids are searched for those that a result was made from, 20 ns each."""
_RECENT_MAX = 5_000
"""Ids for which a table knows their last change. If there are more, results of reads that are under way are not
kept.
"""
_EVICTED_SHARE, _FREED_PER_VALUE = 64, 2
"""The share of a full table that is evicted at once (1 in 64), and how many evicted values are freed per new one."""
V = TypeVar("V")


class CacheGeneration:
    """`generation`: a number that changes with each refresh that found a change; 0: nothing cached may be used.
    `next_generation`: its value after the refresh that is under way.
    """

    generation, next_generation = 0, 1


class CachedValues(Generic[V]):
    """A cache by id. A value is valid until the log reports a change of its sources. Made by `ReadCache`."""

    __slots__ = ("_changed", "_cleared", "_evicted", "_kept", "_read_cache", "_size_max")

    def __init__(self, read_cache: CacheGeneration, size_max: int) -> None:
        self._read_cache, self._size_max = read_cache, size_max
        self._kept: dict[int, V] = {}
        self._evicted: dict[int, V] = {}  # evicted and not freed yet
        self._changed: dict[int, int] = {}  # by id, the generation of its last change
        self._cleared = 0  # the same for all ids that are not in it

    @property
    def now(self) -> dict[int, V]:
        """The cached values as of the last refresh; empty if they cannot be used."""
        return self._kept if self._read_cache.generation else {}

    async def get(self, id_: int, read: Callable[[], Awaitable[V]]) -> V:
        """The value of an id: the cached one, or what `read` returns now."""
        kept = self.now.get(id_)
        if kept is None:
            generation = self._read_cache.generation
            kept = await read()
            self.keep(generation, {id_: kept})
        return kept

    def keep(self, generation: int, found: Mapping[int, V]) -> None:
        """Cache what was read since `CacheGeneration.generation` was `generation`, except what changed meanwhile."""
        if not (generation and self._read_cache.generation) or generation < self._cleared:
            return
        if generation != self._read_cache.next_generation:
            found = {id_: value for id_, value in found.items() if self._changed.get(id_, 0) <= generation}
        kept = self._kept
        if len(kept) + len(found) > self._size_max:
            make_room(kept, len(found))
        kept.update(found)
        if self._evicted:
            for _ in range(min(len(self._evicted), _FREED_PER_VALUE * len(found))):
                self._evicted.popitem()

    def changed(self, *ids: int) -> None:
        """Drop the values of changed ids."""
        generation = self._read_cache.next_generation
        if len(self._changed) > _RECENT_MAX:
            self._changed.clear()
            self._cleared = generation
        for id_ in ids:
            self._kept.pop(id_, None)
            self._changed[id_] = generation

    def all_changed(self) -> None:
        """Drop all values, because anything may have changed.

        Their memory is freed as new values come, because freeing thousands at once takes milliseconds.
        """
        self._evicted, self._kept = self._kept, {}
        self._changed.clear()
        self._cleared = self._read_cache.next_generation


class ChangedIds:
    """Collects changed ids, for code that keeps rows elsewhere. Made by `ReadCache`."""

    __slots__ = ("_all_changed", "_ids", "_read_cache")

    def __init__(self, read_cache: CacheGeneration) -> None:
        self._read_cache, self._ids, self._all_changed = read_cache, set[int](), True

    def take(self) -> Collection[int] | None:
        """The changed ids since the last call, as of the last refresh. None: unknown; anything may have changed."""
        if self._all_changed or not self._read_cache.generation:
            self.all_changed()
            self._all_changed = not self._read_cache.generation
            return None
        ids, self._ids = self._ids, set()
        return ids

    def changed(self, *ids: int) -> None:
        """Add changed ids."""
        self._ids.update(ids)
        if len(self._ids) > CHANGED_IDS_MAX:
            self.all_changed()

    def all_changed(self) -> None:
        """Note that anything may have changed."""
        self._ids, self._all_changed = set(), True


class ChangeHistory:
    """A history of changed ids in order: says whether given ids changed since some place. Made by `ReadCache`."""

    __slots__ = ("_begin", "_ids", "_read_cache")

    def __init__(self, read_cache: CacheGeneration) -> None:
        self._read_cache, self._ids, self._begin = read_cache, list[int](), 1

    @property
    def now(self) -> int:
        """The current end of the history, as of the last refresh."""
        return self._begin + len(self._ids)

    @property
    def is_complete(self) -> bool:
        """Whether the history is complete as of the last refresh."""
        return bool(self._read_cache.generation)

    def none_of(self, ids: Collection[int], since: int) -> bool:
        """Whether none of these ids changed since that place. False if that is unknown or takes too long to
        find out.
        """
        if not self._read_cache.generation or since < self._begin:
            return False
        recent = self._ids[since - self._begin :]
        return not recent or (len(recent) <= CHANGES_MAX and not any(map(ids.__contains__, recent)))

    def changed(self, *ids: int) -> None:
        """Add changed ids."""
        self._ids += ids
        if len(self._ids) > 2 * CHANGES_MAX:
            del self._ids[:CHANGES_MAX]
            self._begin += CHANGES_MAX

    def all_changed(self) -> None:
        """Note that anything may have changed."""
        self._begin, self._ids = self.now + 1, []


class Dependencies:
    """The sources of a result, as of the last refresh: the ids that it depends on, per history of changes."""

    __slots__ = ("_generation", "_parts", "_read_cache")

    def __init__(self, read_cache: CacheGeneration, *parts: tuple[ChangeHistory, Collection[int]]) -> None:
        self._read_cache, self._generation = read_cache, read_cache.generation
        self._parts = [(changes, ids, changes.now) for changes, ids in parts]

    def holds(self) -> bool:
        """Whether none of the sources had changed by the last refresh."""
        generation = self._read_cache.generation
        if generation != self._generation:
            if not all(changes.none_of(ids, since) for changes, ids, since in self._parts):
                return False
            self._parts = [(changes, ids, changes.now) for changes, ids, _ in self._parts]
            self._generation = generation
        return bool(generation)


class CachedResults(Generic[V]):
    """A cache by id of the last result made for it, valid until the log reports a change of its sources.

    Made by `ReadCache`.
    """

    __slots__ = ("_kept", "_read_cache", "_size_max")

    def __init__(self, read_cache: CacheGeneration, size_max: int) -> None:
        self._read_cache, self._size_max = read_cache, size_max
        self._kept: dict[int, tuple[V, Dependencies]] = {}

    def get(self, id_: int) -> V | None:
        """The cached result for an id, as of the last refresh."""
        kept = self._kept.get(id_)
        return kept[0] if kept is not None and kept[1].holds() else None

    def keep(self, generation: int, id_: int, made: V, *parts: tuple[ChangeHistory, Collection[int]]) -> None:
        """Cache what was made from these sources since `generation`, as `CachedValues.keep` does; see
        `Dependencies`.
        """
        if generation and generation == self._read_cache.generation == self._read_cache.next_generation:
            if len(self._kept) >= self._size_max:
                make_room(self._kept, 1)
            self._kept[id_] = made, Dependencies(self._read_cache, *parts)


def make_room(kept: dict[int, Any], wanted: int) -> None:
    """Evict the oldest entries, a few at a time: freeing thousands of values at once takes milliseconds."""
    for id_ in list(islice(kept, max(wanted, len(kept) // _EVICTED_SHARE))):
        del kept[id_]


CacheTable: TypeAlias = CachedValues[Any] | ChangedIds | ChangeHistory
