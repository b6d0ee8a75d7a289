"""A cache, in columns, of what ranking knows of posts: author, type, age, copy key, engagement.

The facts are the same for every reader. Each process has one cache, filled in batches and read as arrays, because a
page of home ranks 500 posts and shows 20.

How fresh facts are: a post's content is as of the request. Copies depend on it, and all processes must agree on copies
within one scroll. Changed counts and authors show at most FACTS_STALE_MS after the facts were read. If the log cannot
tell what changed (`records.read_cache`), all facts older than that are reloaded. A repair of counts shows with the next
change of the post. Visibility is not decided here: the rules read records.
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
from kith.core.gathering import gather
from kith.core.ids import ID_MAX
from kith.core.labels import LIMIT
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import COMMENTS, LIKES, SAVES, SHARES
from kith.home.rank.features import TYPES, Facts, Floats, Integers
from kith.media.media import Media, read_media
from kith.posts.post import Post, read_post
from kith.records.read_cache import ReadCache
from kith.records.store import Record, RecordKind, RecordStore

FACTS_STALE_MS = 30_000
"""Changed facts older than this, by the wall clock, are reloaded before they are used."""
FACTS_RELOAD_MS = 15_000
"""When some facts must be reloaded, changed ones older than this are reloaded with them, to make few, large batches."""
SETS_BITS, WAYS = 16, 4
"""Room for 2**16 * 4 = 262,144 posts, 48 bytes each."""
READ_AHEAD_MAX, READ_AHEAD_BATCH, READ_AHEAD_PAUSE_S = 100_000, 100, 0.004
"""At its start a process reads ahead this many of the newest posts, in batches of 0.5 to 1 ms with pauses between."""
COPIED_CHARS_MIN = 80
"""Equal texts of this length, in any case and spacing, are copies, whoever posts them."""
ENGAGEMENT_WORTH = {LIKES: 1.0, COMMENTS: 3.0, SHARES: 3.0, SAVES: 2.0}
"""What one like, comment, share or save adds to a post's engagement."""
_ROW = np.dtype(
    [
        ("author", "i8"),
        ("copy_key", "i8"),
        ("version", "i8"),  # of the record; 0: the row is empty
        ("read_ms", "i8"),
        ("engagement", "f4"),
        ("type", "i1"),
        ("labelled", "?"),  # moderation limits the post
        ("limited", "?"),  # moderation limits the post or its author
        ("touched", "?"),  # its counts changed since it was read
    ],
    align=True,
)  # 40 bytes: a post costs two or three cache misses, instead of one a column
_NO_POST = (0, 0, 0, 0, 0.0, 0, False, False, False)
Rows = NDArray[np.void]
_TYPE_NUMBERS = {name: number for number, name in enumerate(TYPES)}
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: multiplying by it spreads similar ids (Knuth, 6.4)


class _Changes(NamedTuple):
    """Posts that changed according to the log: `rewritten` has a new record, `counted` has new counts."""

    rewritten: set[int]
    counted: set[int]


class PostFacts:
    """Facts of posts by id. Unchanged facts are not reloaded.

    Set-associative, like a processor's cache: the hash of an id selects a set of WAYS slots, for all ids of a call at
    once. A full set evicts the facts that were read longest ago. Decision 12 compares it with a dictionary.
    """

    def __init__(
        self,
        records: RecordStore,
        graph: Graph,
        read_cache: ReadCache,
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
        self._read_cache = read_cache
        self._rewritten, self._counted = (
            read_cache.changed_ids([RecordKind.POST]),
            read_cache.changed_ids(graphs=numbers),
        )
        self._authors_touched, self._touched_ms = read_cache.changed_nodes(), 0
        self._reads = list[_Changes]()  # for each batch being read: the posts that changed since it began
        self._ids = np.full((1 << bits, WAYS), -1, np.int64)
        self._rows = np.zeros(WAYS << bits, _ROW)

    async def read_ahead(self) -> None:
        """Load the newest posts in small batches, so that the first readers of a new process need not wait for them.

        Does nothing if the engine cannot list records by age.
        """
        below = ID_MAX
        with contextlib.suppress(Unavailable):  # then facts are read on demand
            for _ in range(READ_AHEAD_MAX // READ_AHEAD_BATCH):
                ids = await self._records.newest(RecordKind.POST, below, READ_AHEAD_BATCH)
                if not ids:
                    return
                await self._read_cache.refresh()  # so a change after this is noticed later
                await self.of(np.array(ids, np.int64))
                below = ids[-1]
                await asyncio.sleep(READ_AHEAD_PAUSE_S)

    async def of(self, ids: Integers) -> Facts:
        """Facts of those of `ids` that are posts, in their order. A deleted post is left out once it is reloaded.

        Every post gets its row, even if more than WAYS ids share a set: the cache saves reads and limits nothing.
        """
        ids, rows, _ = await self._look_up(ids)
        return _facts(ids, rows)

    async def with_authors(self, ids: Integers, others: Sequence[int]) -> tuple[Facts, dict[int, int]]:
        """Facts of `ids`, as `of` returns them, and the author of each post in `others`, in one lookup."""
        count = len(ids)
        ids, rows, are_posts = await self._look_up(np.append(ids, np.array(others, np.int64)))
        count = int(np.count_nonzero(are_posts[:count]))
        authors = dict(zip(ids[count:].tolist(), rows["author"][count:].tolist(), strict=True))
        return _facts(ids[:count], rows[:count]), authors

    async def _look_up(self, ids: Integers) -> tuple[Integers, Rows, NDArray[np.bool_]]:
        """Those of `ids` that are posts, their rows, and for each of `ids` whether it is a post."""
        now = self._now_ms()
        self._note_changes(now)
        slots, known = self._find(ids)
        rows = self._rows.take(slots, mode="clip")  # a copy: after an await other requests may have reused the slots
        read_ms = rows["read_ms"]
        age = np.abs(now - read_ms)
        changed = rows["touched"] | (read_ms <= self._touched_ms) | (read_ms > now)
        if (known & ~(changed & (age > FACTS_STALE_MS))).all():
            return ids, rows, known
        at, are_posts = np.flatnonzero(~known | (changed & (age > FACTS_RELOAD_MS))), np.ones(len(ids), np.bool_)
        rows["version"][~known] = 0
        are_posts[at], rows[at] = await self._read(ids[at], rows.take(at), now)
        return (ids, rows, are_posts) if are_posts.all() else (ids[are_posts], rows[are_posts], are_posts)

    def _note_changes(self, now: int) -> None:
        """Evict the rows of posts whose record changed, and mark those whose counts changed."""
        rewritten, counted, authors = self._rewritten.take(), self._counted.take(), self._authors_touched.take()
        if rewritten is None or counted is None or authors is None or authors:
            self._touched_ms = now  # rows cannot be found by author, so all count as changed; accounts seldom change
        for changes in self._reads:
            changes.rewritten.update(rewritten or ())
            changes.counted.update(counted or ())
        if rewritten:
            slots, known = self._find(_ids_in(rewritten))
            self._ids.reshape(-1)[slots[known]] = -1
        if counted:
            slots, known = self._find(_ids_in(counted))
            self._rows["touched"][slots[known]] = True

    def _find(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """The slot of each id, and whether the id is in it."""
        sets = self._sets(ids)
        matches = self._ids.take(sets, axis=0, mode="clip") == ids[:, None]
        slots = sets * WAYS + matches.argmax(axis=1)
        return slots, self._ids.reshape(-1).take(slots) == ids

    def _sets(self, ids: Integers) -> Integers:
        """The set of each id."""
        return (ids.view(np.uint64) * _SPREAD >> np.uint64(64 - self._bits)).view(np.int64)

    async def _read(self, ids: Integers, rows: Rows, now: int) -> tuple[NDArray[np.bool_], Rows]:
        """Load rows, and cache them; returns for each id whether it is a post, and its row. `rows`: the known ones.

        A record whose version did not change is not decoded again; engagement and limits are always read. A post whose
        record changed during the read is not cached; one whose counts changed is marked for a reload.
        """
        changes = _Changes(set(), set())
        self._reads.append(changes)
        try:
            are_posts = await self._read_since(ids, rows, now, changes)
        finally:
            self._reads = [batch for batch in self._reads if batch is not changes]
        return are_posts, rows

    async def _read_since(self, ids: Integers, rows: Rows, now: int, changes: _Changes) -> NDArray[np.bool_]:
        """As `_read`. `changes` collects what changes during the read."""
        records = await self._records.get_many(RecordKind.POST, ids.tolist())
        versions = np.fromiter((0 if record is None else record.updated_at for record in records), np.int64, len(ids))
        changed = np.flatnonzero(versions != rows["version"])
        found = [records[at] for at in changed.tolist()]
        posts = [_post_of(record) for record in found]
        rows["author"][changed] = [0 if post is None else post.author for post in posts]
        authors = list(set(rows["author"][versions > 0].tolist()))
        prints, engagement, nodes = await gather(
            self._immediate, self._prints(posts), self._engagement(ids), self._store.nodes(authors)
        )
        if found:
            rows[changed] = [_row_of(*pair, prints) for pair in zip(found, posts, strict=True)]
        are_posts, rows["engagement"] = rows["version"] > 0, engagement
        limited = [author for author, node in zip(authors, nodes, strict=True) if node.labels & LIMIT]
        rows["limited"] = rows["labelled"] | np.isin(rows["author"], limited) if limited else rows["labelled"]
        rows["read_ms"], rows["touched"] = now, np.isin(ids, list(changes.counted)) if changes.counted else False
        self._keep(ids, rows, are_posts & ~np.isin(ids, list(changes.rewritten)) if changes.rewritten else are_posts)
        return are_posts

    async def _prints(self, posts: Sequence[Post | None]) -> dict[int, bytes]:
        """The prints of these posts' files (`file_print`), by media id."""
        media = list({id_ for post in posts if post is not None for id_ in post.media})
        shown = await self._records.get_many(RecordKind.MEDIA, media) if media else []
        return {record.id: file_print(read_media(record)) for record in shown if record is not None}

    async def _engagement(self, ids: Integers) -> Floats:
        """The engagement of each post, weighted by kind."""
        return self._worth @ (await self._store.counts(self._lists, ids)).astype(np.float32)

    def _keep(self, ids: Integers, rows: Rows, are_posts: NDArray[np.bool_]) -> None:
        """Store rows in their slot, a free slot of their set, or the slot that was read longest ago. Evict ids that are
        posts no longer.
        """
        places = self._ids.reshape(-1)
        if not are_posts.all():
            slots, known = self._find(ids)
            places[slots[known & ~are_posts]] = -1
            ids, rows = ids[are_posts], rows[are_posts]
        sets = self._sets(ids)
        held = self._ids.take(sets, axis=0)
        since = np.where(held < 0, 0, self._rows["read_ms"].reshape(-1, WAYS)[sets])
        since[held == ids[:, None]] = -1
        slots = sets * WAYS + since.argmin(axis=1)
        places[slots] = ids
        kept = np.flatnonzero(places.take(slots) == ids)  # of ids that chose the same slot, one is stored
        self._rows[slots[kept]] = rows.take(kept)


def _ids_in(ids: Collection[int]) -> Integers:
    return np.fromiter(ids, np.int64, len(ids))


def _facts(ids: Integers, rows: Rows) -> Facts:
    return Facts(ids, rows["author"], rows["copy_key"], rows["engagement"], rows["type"], rows["limited"])


def _post_of(record: Record | None) -> Post | None:
    """The post in a record; None if there is no record or the post was deleted."""
    post = None if record is None else read_post(record)
    return None if post is None or post.deleted else post


def _row_of(record: Record | None, post: Post | None, prints: Mapping[int, bytes]) -> tuple[int | float, ...]:
    """The row of a record; without a version if there is no post."""
    if record is None or post is None:
        return _NO_POST
    type_, limited = _TYPE_NUMBERS[post.type], bool(post.labels & LIMIT)
    return post.author, copy_key(post, prints), record.updated_at, 0, 0.0, type_, limited, False, False


def copy_key(post: Post, prints: Mapping[int, bytes] = MappingProxyType({})) -> int:
    """A number that all copies of a post share.

    Copies are posts with the same files or link and no text, and posts with the same files, link and long text
    (COPIED_CHARS_MIN). Different people often write the same short text, so with a short text only posts of the same
    author are copies. `prints`: by media id (`file_print`); a file without one equals only itself.

    Copy keys are valid in this process only. Python hashes texts and bytes with a secret key that each process draws at
    random, so nobody can construct a post that is taken for a copy of another one.
    """
    files = tuple(prints.get(id_) or id_.to_bytes(8, "big") for id_ in post.media)
    words = " ".join(post.text.casefold().split())
    is_own = len(words) < COPIED_CHARS_MIN and bool(words or not (files or post.link))
    author = post.author.to_bytes(8, "big") if is_own else b""  # hashes of integers have no key
    return hash((author, files, (post.link or "").rstrip("/"), words))


def file_print(media: Media) -> bytes:
    """Bytes that are equal for the same file, whoever uploads it, and differ for other files; empty for a plain picture
    without a fingerprint."""
    return b"%d %d %d %d" % (media.fingerprint, media.width, media.height, media.size) if media.fingerprint else b""
