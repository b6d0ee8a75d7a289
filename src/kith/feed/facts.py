"""What ranking knows of posts whoever reads: author, type, age, likeness, engagement; kept in columns.

A cache in each process, filled in batches and read as arrays, because a page of home looks at 500 posts and shows
20. It is at most KEPT_MS old. Only order comes from here: what a reader may see is asked of the records themselves.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from kith.core.labels import LIMIT
from kith.feed.rank.features import TYPES, Facts, Integers
from kith.graph.edge import Direction
from kith.graph.graphs import COMMENTS, LIKES, SAVES, SHARES
from kith.graph.service import GraphService
from kith.objects.media import read_media
from kith.objects.posts import Post, read_post
from kith.objects.store import Kind, ObjectStore

KEPT_MS = 30_000
"""How old the engagement of a post may be when it is ranked."""
SETS_BITS, WAYS = 16, 4
"""So 262,144 posts are known at a time, 40 bytes each."""
WORTH = {LIKES: 1.0, COMMENTS: 3.0, SHARES: 3.0, SAVES: 2.0}
"""What a like, a comment, ... adds to a post's engagement."""
_ROW = np.dtype(
    [
        ("author", "i8"),
        ("fingerprint", "i8"),
        ("read_ms", "i8"),
        ("engagement", "f4"),
        ("type", "i1"),
        ("limited", "?"),
    ],
    align=True,
)  # 32 bytes, half a cache line: a post costs two misses, not one a column
_TYPE_NUMBERS = {name: number for number, name in enumerate(TYPES)}
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: multiplying spreads what is alike (Knuth, 6.4)
_BETWEEN_WORDS = re.compile(r"[\W_]+")


class PostFacts:
    """Facts of posts by id, each at most KEPT_MS old.

    Set-associative, like the cache of a processor: an id has WAYS places, found by its hash for all ids of a call at
    once; the longest there gives way. Decision 12 compares it with a dictionary.
    """

    def __init__(
        self, objects: ObjectStore, graph: GraphService, now_ms: Callable[[], int], *, bits: int = SETS_BITS
    ) -> None:
        self._objects, self._store, self._now_ms, self._bits = objects, graph.store, now_ms, bits
        self._lists = [
            (graph.graphs.number(name), Direction.OUT if name == COMMENTS else Direction.IN, worth)
            for name, worth in WORTH.items()
        ]
        self._ids = np.full((1 << bits, WAYS), -1, np.int64)
        self._rows = np.zeros(WAYS << bits, _ROW)

    async def of(self, ids: Integers) -> Facts:
        """Facts of those of `ids` that are posts, in their order. Deleted ones are left out once it is noticed.

        All of them, also where more than WAYS share a place: the cache saves reads, and decides nothing.
        """
        now = self._now_ms()
        slots, known = self._find(ids)
        rows = self._rows.take(slots, mode="clip")  # a copy, before others are let in, who may need the places
        old = ~known | (np.abs(now - rows["read_ms"]) > KEPT_MS)
        if old.any():
            there = ~old
            there[old], rows[old] = await self._read(ids[old], now)
            ids, rows = ids[there], rows[there]
        return Facts(ids, rows["author"], rows["fingerprint"], rows["engagement"], rows["type"], rows["limited"])

    async def authors(self, ids: Sequence[int]) -> dict[int, int]:
        """The author of each post there is."""
        facts = await self.of(np.array(ids, np.int64))
        return dict(zip(facts.ids.tolist(), facts.authors.tolist(), strict=True))

    def _find(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Where each id is, if it is known."""
        sets = (ids.view(np.uint64) * _SPREAD >> np.uint64(64 - self._bits)).view(np.int64)
        there = self._ids.take(sets, axis=0, mode="clip") == ids[:, None]
        ways = there.argmax(axis=1)
        return sets * WAYS + ways, there[np.arange(len(ids)), ways]

    async def _read(self, ids: Integers, now: int) -> tuple[NDArray[np.bool_], NDArray[np.void]]:
        """For each id whether it is a post, and its row, which is kept."""
        records = await self._objects.get_many(Kind.POST, ids.tolist())
        posts = [None if record is None else read_post(record) for record in records]
        alive = [post for post in posts if post is not None and not post.deleted]
        there = np.array([post is not None and not post.deleted for post in posts], np.bool_)
        rows = np.zeros(len(ids), _ROW)
        rows[there] = await self._rows_of(alive, now)
        slots, known = self._find(ids)
        self._ids.reshape(-1)[slots[known]] = -1  # what is not there any more is forgotten
        for post, row in zip(alive, rows[there], strict=True):
            self._keep(post.id, row)
        return there, rows

    async def _rows_of(self, posts: Sequence[Post], now: int) -> list[tuple[int | float, ...]]:
        authors = list({post.author for post in posts})
        nodes = await self._store.nodes(authors)
        limited = {author for author, node in zip(authors, nodes, strict=True) if node.labels & LIMIT}
        media = list({id_ for post in posts for id_ in post.media})
        records = await self._objects.get_many(Kind.MEDIA, media) if media else []
        prints = {record.id: read_media(record).fingerprint for record in records if record is not None}
        ids, engagement = np.array([post.id for post in posts], np.int64), np.zeros(len(posts), np.float32)
        for graph, direction, worth in self._lists:
            engagement += np.float32(worth) * await self._store.counts(graph, direction, ids)
        return [
            (
                post.author, fingerprint(post, prints), now, amount, _TYPE_NUMBERS[post.type],
                bool(post.labels & LIMIT) or post.author in limited,
            )
            for post, amount in zip(posts, engagement.tolist(), strict=True)
        ]  # fmt: skip

    def _keep(self, id_: int, row: np.void) -> None:
        """Put a post in the emptiest or oldest of its places."""
        (slot,), (known,) = self._find(np.array([id_], np.int64))
        if not known:
            first = int(slot) // WAYS * WAYS
            places = slice(first, first + WAYS)
            slot = first + np.where(self._ids.reshape(-1)[places] < 0, 0, self._rows["read_ms"][places]).argmin()
        self._ids.reshape(-1)[slot], self._rows[slot] = id_, row


def fingerprint(post: Post, prints: Mapping[int, int] = MappingProxyType({})) -> int:
    """The same for posts that show the same: media that look alike, the same link, or the same words, whatever their
    case and spacing. `prints`: the fingerprints of media by id; one that has none, or 0, is like itself alone.
    """
    if post.media:
        shown = b"media" + b"".join((prints.get(id_) or id_).to_bytes(8, "big") for id_ in post.media)
    elif post.link:
        shown = b"link" + post.link.rstrip("/").encode()
    else:
        words = post.text.casefold()
        shown = b"text" + (_BETWEEN_WORDS.sub(" ", words).strip() or words).encode()
    return int.from_bytes(hashlib.blake2b(shown, digest_size=8).digest(), "big", signed=True)
