"""Tables of what was read or made, each value good until the log tells a change of it. `memory` feeds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

TOUCHED_MAX = 10_000
"""Ids of changes that nobody has asked for yet; where there are more, anything may have changed."""
CHANGES_MAX = 2_000
"""So many ids told, the latest, are looked through for those that something was made of, 20 ns each."""
_LATELY_MAX = 5_000
"""Ids of which a table knows when they changed last; where there are more, what is being read by then is not kept."""
_GIVEN_UP_SHARE, _FREED_FOR_ONE = 64, 2
"""Which part of a full table is given up at once; how many values that were given up are freed for one that comes."""
V = TypeVar("V")


class Moments:
    """`moment`: a number that is another after each refresh that found a change; 0: nothing that was kept may
    be relied on. `coming`: what it will be after the refresh that is under way.
    """

    moment, coming = 0, 1


class Remembered(Generic[V]):
    """Values by id, each good until the log tells a change of what it was made from. Made by `ReadMemory`."""

    __slots__ = ("_changed", "_cleared", "_given_up", "_kept", "_memory", "_size_max")

    def __init__(self, memory: Moments, size_max: int) -> None:
        self._memory, self._size_max = memory, size_max
        self._kept: dict[int, V] = {}
        self._given_up: dict[int, V] = {}  # and not freed yet
        self._changed: dict[int, int] = {}  # by id, the moment from which on it may be another
        self._cleared = 0  # likewise, of all that is not there

    @property
    def now(self) -> dict[int, V]:
        """What is kept, as of the last refresh; nothing where that cannot be relied on."""
        return self._kept if self._memory.moment else {}

    async def get(self, id_: int, read: Callable[[], Awaitable[V]]) -> V:
        """The value of an id: as kept, or what `read` finds now."""
        kept = self.now.get(id_)
        if kept is None:
            moment = self._memory.moment
            kept = await read()
            self.keep(moment, {id_: kept})
        return kept

    def keep(self, moment: int, found: Mapping[int, V]) -> None:
        """Keep what was read since `Moments.moment` was this; not what the log told a change of meanwhile."""
        if not (moment and self._memory.moment) or moment < self._cleared:
            return
        if moment != self._memory.coming:
            found = {id_: value for id_, value in found.items() if self._changed.get(id_, 0) <= moment}
        kept = self._kept
        if len(kept) + len(found) > self._size_max:
            make_room(kept, len(found))
        kept.update(found)
        if self._given_up:
            for _ in range(min(len(self._given_up), _FREED_FOR_ONE * len(found))):
                self._given_up.popitem()

    def changed(self, *ids: int) -> None:
        """These changed: forget their values."""
        moment = self._memory.coming
        if len(self._changed) > _LATELY_MAX:
            self._changed.clear()
            self._cleared = moment
        for id_ in ids:
            self._kept.pop(id_, None)
            self._changed[id_] = moment

    def all_changed(self) -> None:
        """Anything may have changed: forget all.

        Memory is freed while new values come: to free thousands at once takes milliseconds.
        """
        self._given_up, self._kept = self._kept, {}
        self._changed.clear()
        self._cleared = self._memory.coming


class Touched:
    """Ids of what the log told changes of, for who keeps rows elsewhere. Made by `ReadMemory`."""

    __slots__ = ("_ids", "_memory", "_told_all")

    def __init__(self, memory: Moments) -> None:
        self._memory, self._ids, self._told_all = memory, set[int](), True

    def take(self) -> Collection[int] | None:
        """The ids since the last time, as of the last refresh; None: what changed is not known, and may be anything."""
        if self._told_all or not self._memory.moment:
            self.all_changed()
            self._told_all = not self._memory.moment
            return None
        ids, self._ids = self._ids, set()
        return ids

    def changed(self, *ids: int) -> None:
        """Note that these changed."""
        self._ids.update(ids)
        if len(self._ids) > TOUCHED_MAX:
            self.all_changed()

    def all_changed(self) -> None:
        """Note that anything may have changed."""
        self._ids, self._told_all = set(), True


class ToldChanges:
    """Ids of what the log told changes of, in the order told: whether some of them are as they were. Made by
    `ReadMemory`.
    """

    __slots__ = ("_begin", "_ids", "_memory")

    def __init__(self, memory: Moments) -> None:
        self._memory, self._ids, self._begin = memory, list[int](), 1

    @property
    def now(self) -> int:
        """A place in that order, as of the last refresh."""
        return self._begin + len(self._ids)

    @property
    def can_be_told(self) -> bool:
        """Whether the log told all that there is, as of the last refresh."""
        return bool(self._memory.moment)

    def none_of(self, ids: Collection[int], since: int) -> bool:
        """Whether nothing was told of any of these since that place. False where it cannot be told, or takes long."""
        if not self._memory.moment or since < self._begin:
            return False
        told = self._ids[since - self._begin :]
        return not told or (len(told) <= CHANGES_MAX and not any(map(ids.__contains__, told)))

    def changed(self, *ids: int) -> None:
        """Note that these changed."""
        self._ids += ids
        if len(self._ids) > 2 * CHANGES_MAX:
            del self._ids[:CHANGES_MAX]
            self._begin += CHANGES_MAX

    def all_changed(self) -> None:
        """Note that anything may have changed."""
        self._begin, self._ids = self.now + 1, []


class MadeOf:
    """What something was made of, as of the last refresh: by table of changes, the ids that it depends on."""

    __slots__ = ("_memory", "_moment", "_parts")

    def __init__(self, memory: Moments, *parts: tuple[ToldChanges, Collection[int]]) -> None:
        self._memory, self._moment = memory, memory.moment
        self._parts = [(changes, ids, changes.now) for changes, ids in parts]

    def holds(self) -> bool:
        """Whether the log told no change of it until the last refresh."""
        moment = self._memory.moment
        if moment != self._moment:
            if not all(changes.none_of(ids, since) for changes, ids, since in self._parts):
                return False
            self._parts = [(changes, ids, changes.now) for changes, ids, _ in self._parts]
            self._moment = moment
        return bool(moment)


class LastMade(Generic[V]):
    """What was made last for each of some ids, until the log tells a change of what it was made of.

    Made by `ReadMemory`.
    """

    __slots__ = ("_kept", "_memory", "_size_max")

    def __init__(self, memory: Moments, size_max: int) -> None:
        self._memory, self._size_max = memory, size_max
        self._kept: dict[int, tuple[V, MadeOf]] = {}

    def get(self, id_: int) -> V | None:
        """What was made for an id, as of the last refresh."""
        kept = self._kept.get(id_)
        return kept[0] if kept is not None and kept[1].holds() else None

    def keep(self, moment: int, id_: int, made: V, *parts: tuple[ToldChanges, Collection[int]]) -> None:
        """Keep what was made of these parts since `moment`, as `Remembered.keep` does; see `MadeOf`."""
        if moment and moment == self._memory.moment == self._memory.coming:
            if len(self._kept) >= self._size_max:
                make_room(self._kept, 1)
            self._kept[id_] = made, MadeOf(self._memory, *parts)


def make_room(kept: dict[int, Any], coming: int) -> None:
    """Give up the oldest, some at a time: to free thousands of values takes milliseconds."""
    for id_ in list(islice(kept, max(coming, len(kept) // _GIVEN_UP_SHARE))):
        del kept[id_]


MemoryTable: TypeAlias = Remembered[Any] | Touched | ToldChanges
