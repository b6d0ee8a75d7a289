"""The source of a home feed: the outboxes of followed authors. An outbox is a list of the graph `authored`.

A timeline caches the result of `outboxes` for all authors whom a user follows; fan-out keeps it up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from kith.core.ids import NodeId
from kith.core.paging import Mark, Page, Window
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.graph.questions import Questions
from kith.graph.shapes import Chunk, Ids, Listing
from kith.graph.walk import read_whole_list

_FIRST = 4
"""Posts read from each outbox in the first round."""
_AUTHORS_A_TURN = 200
"""Outboxes that an embedded engine reads at a stretch, in about 2 ms, before it yields to other requests."""
_AT_ONCE_MAX = 16
"""For up to this many authors, outboxes are read in the same call that looks up whether they are followed."""
_LOOKUPS_MAX = 100
"""For up to this many authors, follows are looked up one by one; for more, the reader's whole list is read."""


class Sources:
    """Reads followed authors and their outboxes."""

    def __init__(self, graph: Graph) -> None:
        self._store = graph.store
        self._follows, self._authored = graph.graphs.number(FOLLOWS), graph.graphs.number(AUTHORED)

    async def authors(self, user: NodeId) -> Ids:
        """The accounts that the user follows, and the user."""
        followed = await read_whole_list(self._store, Listing(self._follows, user, Direction.OUT))
        return np.append(followed, np.int64(user))

    async def outboxes(self, authors: Iterable[int], limit: int, after: Mark | None = None) -> list[Mark]:
        """The newest posts of these authors beyond `after`, newest first, at most `limit`.

        The first round reads a few posts of each author; further rounds read more of the authors who may have more
        among the newest. That takes about _FIRST posts an author and twice `limit` a round, in log2(`limit`) rounds,
        instead of `limit` posts an author. A round is one call; on an immediate engine one call for each
        _AUTHORS_A_TURN authors.
        """
        places: dict[int, Mark | None] = dict.fromkeys(map(int, authors), after)
        return await self._read_on([], places, _first_size(len(places), limit), limit)

    async def outboxes_of_followed(
        self, user: NodeId, authors: Ids, limit: int, after: Mark | None = None
    ) -> list[Mark]:
        """As `outboxes`, for those of `authors` whom the user follows, or is.

        For few authors with short outboxes it takes one call.
        """
        if len(authors) > _LOOKUPS_MAX:
            followed: list[int] = np.intersect1d(await self.authors(user), authors).tolist()
            return await self.outboxes(followed, limit, after)
        if len(authors) > _AT_ONCE_MAX:
            followed = await self.followed_of(user, authors.tolist())
            return await self.outboxes(followed, limit, after)
        candidates, questions = authors.tolist(), Questions()
        size = _first_size(len(candidates), limit)
        follows = questions.states((self._follows, user, author) for author in candidates)
        pages = [
            questions.page(self._outbox(author), Window(size, after=after, looks_back=False)) for author in candidates
        ]
        answers = await self._store.answer(questions)
        read = {
            author: answers.pages[page]
            for author, state, page in zip(candidates, answers.states[follows], pages, strict=True)
            if state == State.NORMAL or author == user
        }
        found, further = _joined([], read, limit)
        return await self._read_on(found, further, min(limit, 2 * size), limit)

    async def _read_on(self, found: list[Mark], places: Mapping[int, Mark | None], size: int, limit: int) -> list[Mark]:
        """Read pages of `size` from these places until the newest `limit` posts are found."""
        while places:
            further: dict[int, Mark] = {}
            left = iter(places.items())
            while chunk := dict(islice(left, _AUTHORS_A_TURN if self._store.immediate else None)):
                questions = Questions()
                for author, place in chunk.items():
                    questions.page(self._outbox(author), Window(size, after=place, looks_back=False))
                answers = await self._store.answer(questions)
                found, more = _joined(found, dict(zip(chunk, answers.pages, strict=True)), limit)
                further |= more
                if len(chunk) == _AUTHORS_A_TURN:
                    await asyncio.sleep(0)  # so a reader who follows 10,000 does not block other requests
            oldest = found[-1] if len(found) == limit else None
            places = {author: mark for author, mark in further.items() if oldest is None or mark > oldest}
            size = min(limit, 2 * size)
        return found

    def _outbox(self, author: int) -> Listing:
        return Listing(self._authored, author, Direction.OUT)

    async def followers(self, author: int) -> Ids:
        """All followers of the author."""
        return await read_whole_list(self._store, Listing(self._follows, author, Direction.IN))

    async def followers_chunk(self, author: int, after: bytes | None, limit: int) -> Chunk:
        """A chunk of the author's followers, see `EdgeStore.chunk`."""
        return await self._store.chunk(Listing(self._follows, author, Direction.IN), after, limit)

    async def follower_count(self, author: int) -> int:
        """The author's number of followers."""
        (count,) = await self._store.count_many([Listing(self._follows, author, Direction.IN)])
        return count

    async def newest(self, author: int, count: int, after: Mark | None = None) -> Ids:
        """The author's newest posts beyond `after`."""
        if after is None:
            return await self._store.ids(self._outbox(author), count)
        page = await self._store.page(self._outbox(author), Window(count, after=after, looks_back=False))
        return np.array([mark.id for mark in page.items], np.int64)

    async def followed_of(self, user: NodeId, authors: Sequence[int]) -> list[int]:
        """Those of `authors` whom the user follows, or is."""
        follows = await self._store.exists_many(self._follows, [(user, author) for author in authors])
        return [author for author, followed in zip(authors, follows, strict=True) if followed or author == user]


def _first_size(authors: int, limit: int) -> int:
    """Posts to read of each author in the first round."""
    return min(limit, max(_FIRST, 2 * limit // max(1, authors)))


def _joined(found: list[Mark], read: Mapping[int, Page], limit: int) -> tuple[list[Mark], dict[int, Mark]]:
    """The newest `limit` posts of `found` and these pages, and by author where an outbox continues if it does."""
    further: dict[int, Mark] = {}
    for author, page in read.items():
        found += page.items
        if page.more_after:
            further[author] = page.items[-1]
    return sorted(found, reverse=True)[:limit], further
