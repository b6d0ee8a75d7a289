"""The TimelineStore as rings in shared memory: a push to many users is one NumPy scatter, and readers take no lock.

A slot holds the timeline of one user: a ring of 512 ids, a tail of 16 ids, and a counter, its head. A push writes the
id after the newest one in the tail, then increases the head. So a writer that is killed between the two leaves a
correct timeline. When the tail is full, it is copied to the ring, as one line of it, before the head is increased. So
pushes touch memory that lies close together, and the page of a ring only once in 16 pushes.

A reader reads the head, copies tail and ring, and reads the head again. If a new line was begun meanwhile, it retries.
Before a line is overwritten, the greatest id in it is noted as the floor: all pushed ids above the floor are there. So
ids may be pushed in any order. While a slot changes its owner, its version is odd. A reader that sees an odd version,
or a changed one, retries. This relies on stores becoming visible in the order in which they are made, as on x86-64; see
README.md. `ring_file` describes the file, `directory` finds the slot of a user, `builds` holds timelines that are being
built.

Several processes may write (`ring_writers`), one change at a time. What a killed writer left is repaired by the next
change, or by the next process that opens the file: slots with an odd version are emptied, and builds are dropped.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from kith.core.clock import wall_ms
from kith.core.errors import StoreFull, StoreMismatch
from kith.engines.embedded import read_habits, ring_file
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.ring_file import LINE, WIDTH, RingFile, UnusableRingFile
from kith.engines.embedded.ring_writers import Writers
from kith.graph.shapes import Ids
from kith.home.timelines import TIMELINE_IDS_MAX, Habits, Timeline

SLOTS_DEFAULT = 100_000
CACHED_TIMELINES_MAX = 4_000
"""Decoded timelines that a reading process caches, at most; 4 KB each."""
_PAGE = 1_000
_CHUNK = 1 << 15  # users per scatter: their slots stay in the processor's cache
_TRIES = 50
_MASK, _IN_LINE = WIDTH - 1, LINE - 1

_log = structlog.get_logger("kith.timelines")


def slots_of(folder: Path) -> int | None:
    """How many users the timelines of a folder have room for; None if there is no usable file."""
    try:
        return RingFile(folder / ring_file.FILE).slots
    except (OSError, UnusableRingFile):
        return None


class RingReader:
    """See `home.timelines.TimelineReader`. Reads the timelines that other processes write, once there is a file."""

    immediate = True

    def __init__(
        self, folder: Path, *, now_ms: Callable[[], int] = wall_ms, cache_max: int = CACHED_TIMELINES_MAX
    ) -> None:
        self._path, self._now_ms, self._cache_max = folder / ring_file.FILE, now_ms, cache_max
        self._file: RingFile | None = None
        self._cache: dict[int, tuple[tuple[int, ...], Timeline]] = {}  # by user: the state of the slot, the timeline

    async def read(self, user: int, *, by_user: bool = False) -> Timeline | None:
        file = self._current()
        if file is None:
            return None
        for _ in range(_TRIES):
            slot = file.directory.find(user)
            if slot < 0:
                return None
            version = int(file.versions[slot])
            if not version & 1 and file.owners[slot] == ~user:
                timeline = self._read_slot(file, user, slot, version)
                if timeline is not None:
                    if by_user:
                        file.reads[slot] = read_habits.add_reads(int(file.reads[slot]), self._now_ms(), 1)
                    return timeline
            os.sched_yield()  # let the writer finish
        return None

    def _read_slot(self, file: RingFile, user: int, slot: int, version: int) -> Timeline | None:
        """The timeline in a slot; None if a writer changed the slot meanwhile.

        If nothing was pushed since the last read, this is the same object as then.
        """
        # in this order, because a writer changes the floor first and the rate last
        withheld_rate_min, head, floor = int(file.lacks[slot]), int(file.heads[slot]), int(file.floors[slot])
        state, cached = (slot, version, head, floor, withheld_rate_min), self._cache.get(user)
        if cached is not None and cached[0] == state:
            return cached[1]
        tail = file.tails[slot * LINE : (slot + 1) * LINE].copy()
        ring = file.cells[slot * WIDTH : (slot + 1) * WIDTH].copy()
        head_after, floor = int(file.heads[slot]), int(file.floors[slot])
        if file.versions[slot] != version or head_after // LINE != head // LINE:
            return None
        in_tail, oldest = head & _IN_LINE, max(0, head_after - TIMELINE_IDS_MAX)
        in_ring, stored_floor = head - in_tail, floor
        if oldest:  # the floor does not cover yet the ids that are in the ring but not shown
            oldest_in_ring = max(0, in_ring - WIDTH)
            floor = max(floor, int(ring[np.arange(oldest_in_ring, oldest) & _MASK].max()))
        timeline = Timeline(
            np.concatenate((tail[:in_tail][::-1], _newest_first(ring, oldest, in_ring))), floor, withheld_rate_min
        )
        if head_after == head:
            if len(self._cache) >= self._cache_max:
                self._cache.clear()
            self._cache[user] = (slot, version, head, stored_floor, withheld_rate_min), timeline
        return timeline

    async def count(self) -> int:
        file = self._current()
        return 0 if file is None else int(np.count_nonzero(file.owners))

    async def users(self) -> AsyncIterator[list[int]]:
        file = self._current()
        if file is not None:
            owners = file.owners[np.flatnonzero(file.owners)]
            for start in range(0, len(owners), _PAGE):
                yield (~owners[start : start + _PAGE]).tolist()

    async def name(self) -> int:
        file = self._current()
        return 0 if file is None else file.name

    def close(self) -> None:
        self._file = None
        self._cache.clear()

    def _current(self) -> RingFile | None:
        if self._file is None or not self._file.live:
            self._cache.clear()
            try:
                self._file = RingFile(self._path)
            except (OSError, UnusableRingFile):  # no file, no permission, or too many open files
                self._file = None
        return self._file


class RingTimelines(RingReader):
    """See `home.timelines.TimelineStore`. A writer of a folder, with room for the timelines of `slots` users."""

    def __init__(self, folder: Path, *, slots: int = SLOTS_DEFAULT, now_ms: Callable[[], int] = wall_ms) -> None:
        """Open the timelines of the folder. Begin with an empty file if they cannot be used, or if `slots` differs.

        StoreMismatch if another process writes them with other `slots`; StoreFull if the disk has no room for the file.
        """
        super().__init__(folder, now_ms=now_ms)
        with translate_errors(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            self._writers = Writers(folder)
            try:
                with self._writers.entering() as alone:
                    self._rings = self._file = _open_file(self._path, slots) if alone else _join_file(self._path, slots)
            except BaseException:
                self._writers.close()
                raise
        self._change = self._writers.changes(self._rings.changing, partial(_recover, self._rings))
        self._free: list[int] = []  # slots that were free at the last search

    def __enter__(self) -> RingTimelines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the folder to other writers. No other method may be called afterwards."""
        super().close()
        del self._rings, self._change
        self._writers.close()

    async def push(self, post: int, users: Ids) -> int:
        rings, pushed = self._rings, 0
        for start in range(0, len(users), _CHUNK):
            chunk = users[start : start + _CHUNK]
            with self._change:
                rings.builds.push(post, chunk)
                slots = rings.directory.find_many(chunk)
                if len(slots) and slots.min() < 0:
                    slots = slots[slots >= 0]
                heads = rings.heads.take(slots)
                line_places = heads & _IN_LINE
                rings.tails[slots * LINE + line_places] = post
                full = np.flatnonzero(line_places == _IN_LINE)
                _flush(rings, slots[full], heads[full])
                rings.heads[slots] = heads + 1
                pushed += len(slots)
        return pushed

    async def habits(self, users: Ids) -> Habits:
        slots = self._rings.directory.find_many(users)
        recent_reads = read_habits.lately(self._rings.reads.take(slots), self._now_ms())
        return Habits(np.where(slots >= 0, recent_reads, -1.0), np.where(slots >= 0, self._rings.lacks.take(slots), 0))

    async def withhold(self, rate: int, users: Ids) -> None:
        with self._change:
            self._rings.builds.withhold(rate, users)
            slots = self._rings.directory.find_many(users)
            slots = slots[slots >= 0]
            self._rings.lacks[slots] = np.minimum(self._rings.lacks.take(slots), rate)

    async def begin(self, user: int) -> int:
        with self._change:
            return self._rings.builds.begin(user)

    async def put(self, user: int, ids: Ids, epoch: int) -> bool:
        rings, now = self._rings, self._now_ms()
        with self._change:
            build = rings.builds.take(user, epoch)
            if build is None:
                return False
            slot = rings.directory.find(user)
            has_slot = slot >= 0
            if not has_slot:
                slot = self._take_slot()
            room = TIMELINE_IDS_MAX - len(build.pushed)
            rings.versions[slot] |= 1
            rings.owners[slot] = ~user
            oldest_first = np.concatenate((build.pushed, ids[:room]))[::-1]
            ring, tail = rings.cells[slot * WIDTH : (slot + 1) * WIDTH], rings.tails[slot * LINE : (slot + 1) * LINE]
            in_ring = len(oldest_first) - len(oldest_first) % LINE
            # zeros behind the ids, because the floor counts overwritten cells as lost ids
            ring[:in_ring], ring[in_ring:] = oldest_first[:in_ring], 0
            tail[: len(oldest_first) - in_ring] = oldest_first[in_ring:]
            rings.floors[slot] = max(0, ids[room - 1] - 1) if len(ids) >= room else 0
            rings.heads[slot] = len(oldest_first)
            rings.reads[slot] = (
                read_habits.add_reads(int(rings.reads[slot]), now, 0) if has_slot else read_habits.first_read(now)
            )
            rings.lacks[slot] = build.withheld_rate_min
            rings.versions[slot] += 1
            if not has_slot:
                rings.directory.insert(user, slot)
            return True

    async def drop(self, users: Ids) -> int:
        with self._change:
            self._rings.builds.end_all(users)
            slots = self._rings.directory.find_many(users)
            for slot in slots[slots >= 0].tolist():
                self._release(slot)
            return int(np.count_nonzero(slots >= 0))

    async def clear(self) -> None:
        with self._change:
            self._rings.builds.clear()
            self._empty_all(np.flatnonzero(self._rings.owners))

    async def rename(self) -> int:
        self._rings.rename()
        return self._rings.name

    async def evict(self, before_ms: int) -> int:
        rings = self._rings
        with self._change:
            unread = np.flatnonzero((rings.owners != 0) & (read_habits.read_ms(rings.reads) < before_ms))
            self._empty_all(unread)
            return len(unread)

    def _empty_all(self, slots: Ids) -> None:
        if len(slots):
            _empty(self._rings, slots)
            _rebuild_directory(self._rings)

    def _take_slot(self) -> int:
        """A free slot with allocated disk space. If there is none, evict the timeline that was not read for longest."""
        owners = self._rings.owners
        while self._free and owners[self._free[-1]]:  # another writer took this slot
            self._free.pop()
        if not self._free:
            self._free = np.flatnonzero(owners == 0)[::-1].tolist()
        try:
            if self._free:
                self._rings.reserve(self._free[-1])
                return self._free.pop()
        except StoreFull:
            if not np.any(owners):
                raise
        owned = np.flatnonzero(owners)
        words = self._rings.reads[owned]
        # a read in the future was noted before the clock was set back, so it counts as the oldest
        words[read_habits.read_ms(words) > self._now_ms()] = 0
        slot = int(owned[np.argmin(words)])
        self._release(slot)
        return slot

    def _release(self, slot: int) -> None:
        user = ~int(self._rings.owners[slot])
        _empty(self._rings, np.array([slot]))
        self._rings.directory.remove(user)


def _newest_first(ring: Ids, oldest: int, head: int) -> Ids:
    """The ids with numbers `oldest` to `head - 1` of a ring, newest first."""
    start, end = oldest & _MASK, head & _MASK
    ids = ring[start:end] if start <= end else np.concatenate((ring[start:], ring[:end]))
    return ids[::-1]


def _flush(rings: RingFile, slots: Ids, numbers: Ids) -> None:
    """Copy full tails to their rings. Before that, raise the floor to the greatest id that is overwritten.

    `numbers`: for each slot, the number of one id of the line. The heads are at the last place of the line, so the
    overwritten ids are not shown any more. They may be ids that a killed writer wrote but did not count. The floor
    may be too high then; a timeline that shows few ids above it `needs_rebuild`, and is rebuilt when it is read.
    """
    if len(slots):
        rows, lines = rings.cells.reshape(-1, LINE), slots * (WIDTH // LINE) + (numbers & _MASK) // LINE
        overwritten = rows.take(lines, axis=0).max(axis=1)
        rings.floors[slots] = np.maximum(rings.floors.take(slots), overwritten)
        rows[lines] = rings.tails.reshape(-1, LINE).take(slots, axis=0)


def _join_file(path: Path, slots: int) -> RingFile:
    """The file of the folder, which other processes are writing."""
    try:
        rings = RingFile(path, writable=True)
    except (FileNotFoundError, UnusableRingFile) as error:
        raise StoreMismatch(f"another process writes {path.parent}, but not this file: {error}") from error
    if rings.slots != slots:
        raise StoreMismatch(f"another process writes {path.parent} with {rings.slots} slots; {slots} are asked for")
    return rings


def _open_file(path: Path, slots: int) -> RingFile:
    """The file of the folder, repaired after a killed writer. If it cannot be used, an empty one in its place."""
    try:
        rings = RingFile(path, writable=True)
        if not ring_file.boot_id():
            raise UnusableRingFile("this machine does not say when it started")
        if rings.slots != slots:
            raise UnusableRingFile(f"it has {rings.slots} slots, and {slots} are asked for")
        rings.allocate()
        _recover(rings)
    except FileNotFoundError:
        pass
    except StoreFull:
        ring_file.remove(path)  # else a reader's write to a hole would kill it
        raise
    except UnusableRingFile as error:
        _log.warning("timelines are dropped, and rebuilt from outboxes as users return", reason=str(error))
    else:
        return rings
    ring_file.create(path, slots)
    return RingFile(path, writable=True)


def _recover(rings: RingFile) -> None:
    """Empty the slots whose owner was being changed, rebuild the directory for the others, and drop all builds."""
    rings.builds.clear()
    _empty(rings, np.flatnonzero(rings.versions & 1))
    owners = rings.owners[rings.owners != 0]
    if (owners > 0).any() or len(np.unique(owners)) < len(owners) or (rings.heads < 0).any():
        raise UnusableRingFile("its slots contradict each other")
    _rebuild_directory(rings)
    rings.changing[0] = 0


def _empty(rings: RingFile, slots: NDArray[np.int64]) -> None:
    rings.versions[slots] |= 1
    rings.owners[slots] = 0
    rings.heads[slots] = 0
    rings.versions[slots] += 1


def _rebuild_directory(rings: RingFile) -> None:
    slots = np.flatnonzero(rings.owners)
    rings.directory.rebuild(~rings.owners[slots], slots)
