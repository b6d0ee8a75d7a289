"""What ranking knows of posts, the same for every reader: author, type, age, likeness, engagement. A cache, in columns.

Each process has one, filled in batches and read as arrays, because a page of home looks at 500 posts and shows 20. What
a post says is as of the request, since copies are told by it: all processes must agree on them in one scroll. Other
changes that the log told, of counts and of authors, show FACTS_KEPT_MS after the facts were read, at the latest. Where
it cannot tell (`records.memory`), all is read again so often. A repair of counts shows with the next change of a post.
Who may see posts is decided by the records.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import Unavailable
from kith.core.ids import ID_MAX
from kith.core.labels import LIMIT
from kith.core.together import together
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import COMMENTS, LIKES, SAVES, SHARES
from kith.home.rank.features import TYPES, Facts, Floats, Integers
from kith.media.media import Media, read_media
from kith.posts.post import Post, read_post
from kith.records.memory import ReadMemory
from kith.records.store import Record, RecordKind, RecordStore

FACTS_KEPT_MS = 30_000
"""Facts older than this, by the wall clock, are read again before they are used, unless nothing changed."""
RENEWED_MS = 15_000
"""If some must be read, all that changed and are older than this are read with them: a few large batches."""
SETS_BITS, WAYS = 16, 4
"""Room for 2**16 * 4 = 262,144 posts, 48 bytes each."""
AHEAD_MAX, AHEAD_EACH, AHEAD_PAUSE_S = 100_000, 100, 0.004
"""How many of the newest posts a process that begins reads ahead, and how many at a time, which takes 0.5 to 1 ms."""
COPIED_CHARS_MIN = 80
"""Equal texts of this length, in any case and spacing, are copies, whoever posts them."""
ENGAGEMENT_WORTH = {LIKES: 1.0, COMMENTS: 3.0, SHARES: 3.0, SAVES: 2.0}
"""What a like, a comment, ... adds to a post's engagement."""
_ROW = np.dtype(
    [
        ("author", "i8"),
        ("copy_key", "i8"),
        ("version", "i8"),  # of the record; 0: no post is known here
        ("read_ms", "i8"),
        ("engagement", "f4"),
        ("type", "i1"),
        ("labelled", "?"),  # limited, itself
        ("limited", "?"),  # itself or its author
        ("touched", "?"),  # something of it changed since it was read
    ],
    align=True,
)  # 40 bytes: a post costs two misses or three, not one a column
_NO_POST = (0, 0, 0, 0, 0.0, 0, False, False, False)
Rows = NDArray[np.void]
_TYPE_NUMBERS = {name: number for number, name in enumerate(TYPES)}
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: multiplying spreads what is alike (Knuth, 6.4)


class _Told(NamedTuple):
    """Posts of which the log told a change: that their record is another, or their counts."""

    rewritten: set[int]
    counted: set[int]


class PostFacts:
    """Facts of posts by id. What did not change is not read again.

    Set-associative, like the cache of a processor: an id has WAYS places, found by its hash, for all ids of a call at
    once; the facts that were read longest ago give way. Decision 12 compares it with a dictionary.
    """

    def __init__(
        self,
        records: RecordStore,
        graph: Graph,
        memory: ReadMemory,
        now_ms: Callable[[], int],
        *,
        bits: int = SETS_BITS,
    ) -> None:
        self._records, self._store, self._now_ms, self._bits = records, graph.store, now_ms, bits
        self._immediate = records.immediate and graph.store.immediate
        self._lists = [
            (graph.graphs.number(name), Direction.OUT if name == COMMENTS else Direction.IN)
            for name in ENGAGEMENT_WORTH
        ]
        numbers = [number for number, _ in self._lists]
        self._worth = np.array(list(ENGAGEMENT_WORTH.values()), np.float32)
        self._memory = memory
        self._rewritten, self._counted = memory.touched([RecordKind.POST]), memory.touched(graphs=numbers)
        self._authors_touched, self._touched_ms = memory.touched_nodes(), 0
        self._being_read = list[_Told]()  # of each batch: what the log told a change of since it was begun
        self._ids = np.full((1 << bits, WAYS), -1, np.int64)
        self._rows = np.zeros(WAYS << bits, _ROW)

    async def read_ahead(self) -> None:
        """Read the newest posts there are, some at a time, so that the first readers of a process need not wait for it.

        Where the engine cannot say which these are, nothing is read ahead.
        """
        below = ID_MAX
        with contextlib.suppress(Unavailable):  # then they are read as they are asked for
            for _ in range(AHEAD_MAX // AHEAD_EACH):
                ids = await self._records.newest(RecordKind.POST, below, AHEAD_EACH)
                if not ids:
                    return
                await self._memory.refresh()  # a change that comes later is told later
                await self.of(np.array(ids, np.int64))
                below = ids[-1]
                await asyncio.sleep(AHEAD_PAUSE_S)

    async def of(self, ids: Integers) -> Facts:
        """Facts of those of `ids` that are posts, in their order. Deleted ones are left out once they are read again.

        Every post has its row, also when more than WAYS share a place: the cache saves reads, and decides nothing.
        """
        ids, rows, _ = await self._look_up(ids)
        return _facts(ids, rows)

    async def with_authors(self, ids: Integers, others: Sequence[int]) -> tuple[Facts, dict[int, int]]:
        """Facts of `ids`, as `of` answers; and the author of each post there is among `others`. Both in one look."""
        count = len(ids)
        ids, rows, there = await self._look_up(np.append(ids, np.array(others, np.int64)))
        count = int(np.count_nonzero(there[:count]))
        authors = dict(zip(ids[count:].tolist(), rows["author"][count:].tolist(), strict=True))
        return _facts(ids[:count], rows[:count]), authors

    async def _look_up(self, ids: Integers) -> tuple[Integers, Rows, NDArray[np.bool_]]:
        """Those of `ids` that are posts, their rows, and for each of `ids` whether it is a post."""
        now = self._now_ms()
        self._note_changes(now)
        slots, known = self._find(ids)
        rows = self._rows.take(slots, mode="clip")  # a copy: at the next await other requests may take the places
        read_ms = rows["read_ms"]
        age = np.abs(now - read_ms)
        changed = rows["touched"] | (read_ms <= self._touched_ms) | (read_ms > now)
        if (known & ~(changed & (age > FACTS_KEPT_MS))).all():
            return ids, rows, known
        at, there = np.flatnonzero(~known | (changed & (age > RENEWED_MS))), np.ones(len(ids), np.bool_)
        rows["version"][~known] = 0
        there[at], rows[at] = await self._read(ids[at], rows.take(at), now)
        return (ids, rows, there) if there.all() else (ids[there], rows[there], there)

    def _note_changes(self, now: int) -> None:
        """Forget the rows of posts that were rewritten by the last look, and mark those whose counts changed."""
        rewritten, counted, authors = self._rewritten.take(), self._counted.take(), self._authors_touched.take()
        if rewritten is None or counted is None or authors is None or authors:
            self._touched_ms = now  # rows are not found by their authors, who seldom change
        for told in self._being_read:
            told.rewritten.update(rewritten or ())
            told.counted.update(counted or ())
        if rewritten:
            slots, known = self._find(_ids_in(rewritten))
            self._ids.reshape(-1)[slots[known]] = -1
        if counted:
            slots, known = self._find(_ids_in(counted))
            self._rows["touched"][slots[known]] = True

    def _find(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Where each id is, if it is known."""
        sets = self._sets(ids)
        there = self._ids.take(sets, axis=0, mode="clip") == ids[:, None]
        slots = sets * WAYS + there.argmax(axis=1)
        return slots, self._ids.reshape(-1).take(slots) == ids

    def _sets(self, ids: Integers) -> Integers:
        """Which set of places each id has."""
        return (ids.view(np.uint64) * _SPREAD >> np.uint64(64 - self._bits)).view(np.int64)

    async def _read(self, ids: Integers, rows: Rows, now: int) -> tuple[NDArray[np.bool_], Rows]:
        """For each id whether it is a post, and its row, which is kept. `rows`: what was known before.

        A record of the same version as before is not looked into again; engagement and limits are always read. A post
        that the log says was rewritten meanwhile is not kept; one whose counts changed is read again soon.
        """
        told = _Told(set(), set())
        self._being_read.append(told)
        try:
            there = await self._read_since(ids, rows, now, told)
        finally:
            self._being_read = [batch for batch in self._being_read if batch is not told]
        return there, rows

    async def _read_since(self, ids: Integers, rows: Rows, now: int, told: _Told) -> NDArray[np.bool_]:
        """As `_read`; `told`: what changed by the time that all is read."""
        records = await self._records.get_many(RecordKind.POST, ids.tolist())
        versions = np.fromiter((0 if record is None else record.updated_at for record in records), np.int64, len(ids))
        changed = np.flatnonzero(versions != rows["version"])
        found = [records[at] for at in changed.tolist()]
        posts = [_living(record) for record in found]
        rows["author"][changed] = [0 if post is None else post.author for post in posts]
        authors = list(set(rows["author"][versions > 0].tolist()))
        prints, engagement, nodes = await together(
            self._immediate, self._prints(posts), self._engagement(ids), self._store.nodes(authors)
        )
        if found:
            rows[changed] = [_described(*pair, prints) for pair in zip(found, posts, strict=True)]
        there, rows["engagement"] = rows["version"] > 0, engagement
        limited = [author for author, node in zip(authors, nodes, strict=True) if node.labels & LIMIT]
        rows["limited"] = rows["labelled"] | np.isin(rows["author"], limited) if limited else rows["labelled"]
        rows["read_ms"], rows["touched"] = now, np.isin(ids, list(told.counted)) if told.counted else False
        self._keep(ids, rows, there & ~np.isin(ids, list(told.rewritten)) if told.rewritten else there)
        return there

    async def _prints(self, posts: Sequence[Post | None]) -> dict[int, bytes]:
        """What the files of these posts show, by the ids of media."""
        media = list({id_ for post in posts if post is not None for id_ in post.media})
        shown = await self._records.get_many(RecordKind.MEDIA, media) if media else []
        return {record.id: print_of(read_media(record)) for record in shown if record is not None}

    async def _engagement(self, ids: Integers) -> Floats:
        """The engagement of each post, weighted by kind."""
        return self._worth @ (await self._store.counts(self._lists, ids)).astype(np.float32)

    def _keep(self, ids: Integers, rows: Rows, there: NDArray[np.bool_]) -> None:
        """Put posts in their place, or a free one of theirs, or the one read longest ago; forget ids that are no posts
        any more.
        """
        places = self._ids.reshape(-1)
        if not there.all():
            slots, known = self._find(ids)
            places[slots[known & ~there]] = -1
            ids, rows = ids[there], rows[there]
        sets = self._sets(ids)
        held = self._ids.take(sets, axis=0)
        since = np.where(held < 0, 0, self._rows["read_ms"].reshape(-1, WAYS)[sets])
        since[held == ids[:, None]] = -1
        slots = sets * WAYS + since.argmin(axis=1)
        places[slots] = ids
        kept = np.flatnonzero(places.take(slots) == ids)  # of those who meet in a place, one is kept
        self._rows[slots[kept]] = rows.take(kept)


def _ids_in(ids: Collection[int]) -> Integers:
    return np.fromiter(ids, np.int64, len(ids))


def _facts(ids: Integers, rows: Rows) -> Facts:
    return Facts(ids, rows["author"], rows["copy_key"], rows["engagement"], rows["type"], rows["limited"])


def _living(record: Record | None) -> Post | None:
    """The post of a record; None where there is none, or a deleted one."""
    post = None if record is None else read_post(record)
    return None if post is None or post.deleted else post


def _described(record: Record | None, post: Post | None, prints: Mapping[int, bytes]) -> tuple[int | float, ...]:
    """A row of what a record says itself; without a version where there is no post."""
    if record is None or post is None:
        return _NO_POST
    type_, limited = _TYPE_NUMBERS[post.type], bool(post.labels & LIMIT)
    return post.author, copy_key(post, prints), record.updated_at, 0, 0.0, type_, limited, False, False


def copy_key(post: Post, prints: Mapping[int, bytes] = MappingProxyType({})) -> int:
    """A number that copies share: posts with the same files or link and no words of their own, and posts with the same
    words where these are long (COPIED_CHARS_MIN). Short words people say by themselves: only the same author's are
    copies, beside the same files and link. `prints`: what files show, by the ids of media (`print_of`); a file without
    one is like itself alone.

    It means something in this process alone: Python's hashes of texts and bytes have a secret key, another in each, so
    nobody can write what is taken for a copy of another's.
    """
    files = tuple(prints.get(id_) or id_.to_bytes(8, "big") for id_ in post.media)
    words = " ".join(post.text.casefold().split())
    is_own = len(words) < COPIED_CHARS_MIN and bool(words or not (files or post.link))
    author = post.author.to_bytes(8, "big") if is_own else b""  # hashes of integers have no key
    return hash((author, files, (post.link or "").rstrip("/"), words))


def print_of(media: Media) -> bytes:
    """What the same file has whoever uploads it, and another file has not; empty where the picture says nothing."""
    return b"%d %d %d %d" % (media.fingerprint, media.width, media.height, media.size) if media.fingerprint else b""
