"""The TimelineStore as rings in shared memory: fan-out is one scatter, and every process reads without a lock.

A slot is a ring of 512 ids, a tail of 16, and a counter, its head. A push writes the id behind the newest one in the
tail, then increases the head. So a writer that stops between the two leaves a correct timeline. A full tail is copied
to the ring, as one line of it, before the head is increased. So pushes touch memory that lies close together, and the
page of a ring only once in 16.

A reader reads the head, copies tail and ring, reads the head again, and repeats that if another line was begun
meanwhile. Before a line is overwritten, the greatest id in it is noted as the floor. So ids may come in any order, and
a reader knows from where on all are there. While a slot changes its owner, its version is odd; a reader that sees it
odd, or changed, reads again. This relies on stores becoming visible in the order in which they are made, as on x86-64;
see README.md. `ring_file` draws the file, `directory` finds the slot of a user.

The writer's own state (free slots, number of used cells) is computed when it opens the file. Slots that a killed writer
left with an odd version are emptied then.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from kith.core.clock import wall_ms
from kith.core.errors import StoreFull, StoreMismatch
from kith.engines.embedded import read_habits, ring_file
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.ring_file import LINE, WIDTH, RingFile, Unusable
from kith.home.timelines import RATE_MAX, TIMELINE_IDS_MAX, Habits, Ids, Timeline

SLOTS_DEFAULT = 100_000
LOCK_FILE = "writer.lock"
_CHUNK = 1 << 15  # users per scatter: their slots stay in the processor's cache
_TRIES = 50
_MASK, _IN_LINE = WIDTH - 1, LINE - 1

_log = structlog.get_logger("kith.timelines")


class RingReader:
    """See `home.timelines.TimelineReader`: reads timelines that another process writes, once it has begun."""

    def __init__(self, folder: Path, *, now_ms: Callable[[], int] = wall_ms) -> None:
        self._path, self._now_ms = folder / ring_file.FILE, now_ms
        self._file: RingFile | None = None

    def read(self, user: int) -> Timeline | None:
        file = self._current()
        if file is None:
            return None
        for _ in range(_TRIES):
            slot = file.directory.find(user)
            if slot < 0:
                return None
            version = file.versions[slot]
            if not version & 1 and file.owners[slot] == ~user:
                lacks_from, head = int(file.lacks[slot]), int(file.heads[slot])  # in this order
                tail = file.tails[slot * LINE : (slot + 1) * LINE].copy()
                ring = file.cells[slot * WIDTH : (slot + 1) * WIDTH].copy()
                later, floor = int(file.heads[slot]), int(file.floors[slot])
                if file.versions[slot] == version and later // LINE == head // LINE:
                    begun, oldest = head & _IN_LINE, max(0, later - TIMELINE_IDS_MAX)
                    whole = head - begun
                    if oldest:  # what the ring holds and is not shown is not in the floor yet
                        first = max(0, whole - WIDTH)
                        floor = max(floor, int(ring[np.arange(first, oldest) & _MASK].max()))
                    ids = np.concatenate((tail[:begun][::-1], _newest_first(ring, oldest, whole)))
                    return Timeline(ids, floor, lacks_from)
            time.sleep(0)  # let the writer finish
        return None

    def touch(self, user: int) -> None:
        file = self._current()
        if file is not None:
            slot = file.directory.find(user)
            if slot >= 0 and file.owners[slot] == ~user:
                file.reads[slot] = read_habits.faded(int(file.reads[slot]), self._now_ms(), 1)

    def count(self) -> int:
        file = self._current()
        return 0 if file is None else int(np.count_nonzero(file.owners))

    def name(self) -> int:
        file = self._current()
        return 0 if file is None else file.name

    def close(self) -> None:
        self._file = None

    def _current(self) -> RingFile | None:
        if self._file is None or not self._file.live:
            try:
                self._file = RingFile(self._path)
            except (OSError, Unusable):  # there is none, or it may not be read, or this process has too many open
                self._file = None
        return self._file


class Rings(RingReader):
    """See `home.timelines.TimelineStore`: the one writer of a folder, for `slots` users at a time."""

    def __init__(self, folder: Path, *, slots: int = SLOTS_DEFAULT, now_ms: Callable[[], int] = wall_ms) -> None:
        """Open the folder with its timelines; begin with none if they cannot be used, or `slots` differs.

        StoreMismatch if another process writes it; StoreFull if there is no room for the tables.
        """
        super().__init__(folder, now_ms=now_ms)
        with translated(f"open {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock_file = (folder / LOCK_FILE).open("a")
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self._lock_file.close()
                raise StoreMismatch(f"another process writes {folder}; stop it, or open it to read") from error
            try:
                self._rings = self._file = _opened(self._path, slots)
            except BaseException:
                self._lock_file.close()
                raise
        self._free: list[int] = np.flatnonzero(self._rings.owners == 0)[::-1].tolist()
        self._changing = threading.Lock()

    def __enter__(self) -> Rings:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process write. Call nothing afterwards."""
        super().close()
        del self._rings
        self._lock_file.close()

    def push(self, post: int, users: Ids) -> int:
        rings, pushed = self._rings, 0
        for at in range(0, len(users), _CHUNK):
            with self._changing:
                slots = rings.directory.find_many(users[at : at + _CHUNK])
                if len(slots) and slots.min() < 0:
                    slots = slots[slots >= 0]
                heads = rings.heads.take(slots)
                begun = heads & _IN_LINE
                rings.tails[slots * LINE + begun] = post
                full = np.flatnonzero(begun == _IN_LINE)
                _flush(rings, slots[full], heads[full])
                rings.heads[slots] = heads + 1
                pushed += len(slots)
        return pushed

    def habits(self, users: Ids) -> Habits:
        slots = self._rings.directory.find_many(users)
        lately = read_habits.lately(self._rings.reads.take(slots), self._now_ms())
        return Habits(np.where(slots >= 0, lately, -1.0), np.where(slots >= 0, self._rings.lacks.take(slots), 0))

    def withhold(self, rate: int, users: Ids) -> None:
        with self._changing:
            slots = self._rings.directory.find_many(users)
            slots = slots[slots >= 0]
            self._rings.lacks[slots] = np.minimum(self._rings.lacks.take(slots), rate)

    def put(self, user: int, ids: Ids) -> None:
        rings, kept, now = self._rings, ids[:TIMELINE_IDS_MAX][::-1], self._now_ms()
        with self._changing:
            slot = rings.directory.find(user)
            known = slot >= 0
            if not known:
                slot = self._take_slot()
            rings.versions[slot] |= 1
            rings.owners[slot] = ~user
            ring, tail = rings.cells[slot * WIDTH : (slot + 1) * WIDTH], rings.tails[slot * LINE : (slot + 1) * LINE]
            whole = len(kept) - len(kept) % LINE
            ring[:whole], ring[whole:] = kept[:whole], 0  # what is written over later is taken for ids that go
            tail[: len(kept) - whole] = kept[whole:]
            rings.floors[slot] = max(0, kept[0] - 1) if len(kept) == TIMELINE_IDS_MAX else 0
            rings.heads[slot] = len(kept)
            rings.reads[slot] = (
                read_habits.faded(int(rings.reads[slot]), now, 0) if known else read_habits.first_read(now)
            )
            rings.lacks[slot] = RATE_MAX
            rings.versions[slot] += 1
            if not known:
                rings.directory.insert(user, slot)

    def drop(self, user: int) -> bool:
        with self._changing:
            slot = self._rings.directory.find(user)
            if slot >= 0:
                self._release(slot)
            return slot >= 0

    def rename(self) -> int:
        self._rings.rename()
        return self._rings.name

    def evict(self, before_ms: int) -> int:
        rings = self._rings
        with self._changing:
            unread = np.flatnonzero((rings.owners != 0) & (read_habits.read_ms(rings.reads) < before_ms))
            if len(unread):
                _empty(rings, unread)
                self._free += unread.tolist()
                _rebuild_directory(rings)
            return len(unread)

    def _take_slot(self) -> int:
        """A free slot with allocated disk space; if there is none, the slot of the timeline unread for the longest."""
        try:
            if self._free:
                self._rings.reserve(self._free[-1])
                return self._free.pop()
        except StoreFull:
            if not np.any(self._rings.owners):
                raise
        owned = np.flatnonzero(self._rings.owners)
        words = self._rings.reads[owned]
        words[read_habits.read_ms(words) > self._now_ms()] = (
            0  # noted before the clock was put back: counts as the oldest
        )
        self._release(int(owned[np.argmin(words)]))
        return self._free.pop()

    def _release(self, slot: int) -> None:
        user = ~int(self._rings.owners[slot])
        _empty(self._rings, np.array([slot]))
        self._rings.directory.remove(user)
        self._free.append(slot)


def _newest_first(ring: Ids, oldest: int, head: int) -> Ids:
    """The ids number `oldest` to `head` - 1 of a ring, the last first."""
    first, end = oldest & _MASK, head & _MASK
    ids = ring[first:end] if first <= end else np.concatenate((ring[first:], ring[:end]))
    return ids[::-1]


def _flush(rings: RingFile, slots: Ids, numbers: Ids) -> None:
    """Copy full tails to their rings; before that, note in the floor what is overwritten. `numbers`: of one id per
    line.

    The heads are at the last place of the line, so nothing that is overwritten is still shown. It may be what a killed
    writer wrote and did not count; then the timeline is `poor`, and is made anew when it is read.
    """
    if len(slots):
        rows, lines = rings.cells.reshape(-1, LINE), slots * (WIDTH // LINE) + (numbers & _MASK) // LINE
        over = rows.take(lines, axis=0).max(axis=1)
        rings.floors[slots] = np.maximum(rings.floors.take(slots), over)
        rows[lines] = rings.tails.reshape(-1, LINE).take(slots, axis=0)


def _opened(path: Path, slots: int) -> RingFile:
    """The file of the folder, repaired after a killed writer; or an empty one."""
    try:
        rings = RingFile(path, writable=True)
        if not ring_file.boot_id():
            raise Unusable("this machine does not say when it started")
        if rings.slots != slots:
            raise Unusable(f"it has {rings.slots} slots, and {slots} are asked for")
        _recover(rings)
    except FileNotFoundError:
        pass
    except Unusable as error:
        _log.warning("timelines are begun anew, and made again from outboxes as users return", reason=str(error))
    else:
        return rings
    ring_file.create(path, slots)
    return RingFile(path, writable=True)


def _recover(rings: RingFile) -> None:
    """Empty the slots whose owner was being changed, and rebuild the directory for the others."""
    _empty(rings, np.flatnonzero(rings.versions & 1))
    owners = rings.owners[rings.owners != 0]
    if (owners > 0).any() or len(np.unique(owners)) < len(owners) or (rings.heads < 0).any():
        raise Unusable("its slots contradict each other")
    _rebuild_directory(rings)


def _empty(rings: RingFile, slots: NDArray[np.int64]) -> None:
    rings.versions[slots] |= 1
    rings.owners[slots] = 0
    rings.heads[slots] = 0
    rings.versions[slots] += 1


def _rebuild_directory(rings: RingFile) -> None:
    slots = np.flatnonzero(rings.owners)
    rings.directory.rebuild(~rings.owners[slots], slots)
