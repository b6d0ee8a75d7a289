"""Whose posts make a home feed, and where they come from: outboxes, which are lists of the graph `authored`.

A timeline is a cache of this: what `outboxes` would find for all whom a user follows, kept up by fan-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.graph.shapes import Ids, Listing
from kith.home.fanout import deliveries
from kith.home.fanout.deliveries import Delivery
from kith.home.fanout.withheld import Withheld

_FIRST = 4
"""Posts that are read of each outbox in the first round."""
_AUTHORS_A_TURN = 200
"""Outboxes that are read at a stretch, in about 2 ms; then other requests have their turn."""
_LOOKUPS_MAX = 100
"""For up to so many authors each follow is looked up; for more, the reader's whole list of follows is read."""
_WITHHELD_NOTE = "feed/withheld"
DELIVERIES_NOTE = "feed/deliveries"
TIMELINES_NOTE = "feed/timelines"


class Sources:
    """Reads whose posts a user sees at home."""

    def __init__(self, graph: Graph) -> None:
        self._store = graph.store
        self._follows, self._authored = graph.graphs.number(FOLLOWS), graph.graphs.number(AUTHORED)

    async def authors(self, user: NodeId) -> Ids:
        """Whom the user follows, and the user."""
        followed = await self._store.ids(Listing(self._follows, user, Direction.OUT))
        return np.append(followed, np.int64(user))

    async def outboxes(self, authors: Iterable[int], limit: int, after: Mark | None = None) -> list[Mark]:
        """The newest posts of these authors beyond `after`, newest first, at most `limit`.

        Reads a few posts of each author, then in further rounds more of those who may have more among the newest. That
        is about _FIRST posts an author and twice `limit` a round, in log2 of `limit` rounds: not `limit` an author.
        """
        places: dict[int, Mark | None] = dict.fromkeys(map(int, authors), after)
        found: list[Mark] = []
        size = min(limit, max(_FIRST, 2 * limit // max(1, len(places))))
        while places:
            further: dict[int, Mark] = {}
            for number, (author, place) in enumerate(places.items(), 1):
                page = await self._store.page(Listing(self._authored, author, Direction.OUT), Window(size, after=place))
                found += page.items
                if page.more_after:
                    further[author] = page.items[-1]
                if not number % _AUTHORS_A_TURN:
                    found = _newest(found, limit)
                    await asyncio.sleep(0)  # others do not wait for one who follows 10,000
            found = _newest(found, limit)
            oldest = found[-1] if len(found) == limit else None
            places = {author: mark for author, mark in further.items() if oldest is None or mark > oldest}
            size = min(limit, 2 * size)
        return found

    async def followers(self, author: int) -> Ids:
        """Who follows the author."""
        return await self._store.ids(Listing(self._follows, author, Direction.IN))

    async def follower_count(self, author: int) -> int:
        """How many follow the author."""
        (count,) = await self._store.count_many([Listing(self._follows, author, Direction.IN)])
        return count

    async def newest(self, author: int, count: int) -> Ids:
        """The author's newest posts."""
        return await self._store.ids(Listing(self._authored, author, Direction.OUT), count)

    async def withheld(self) -> Withheld:
        """The authors whose posts were withheld from some timelines."""
        return Withheld.unpack(await self._store.get_note(_WITHHELD_NOTE))

    async def note_withheld(self, rates: Mapping[int, int]) -> None:
        """Add authors whose posts are withheld from some timelines, with their rates."""
        known = await self.withheld()
        raised = known.raised(rates)
        if raised is not known:
            await self._store.put_note(_WITHHELD_NOTE, raised.pack())

    async def deliveries(self) -> list[Delivery]:
        """The deliveries under way, the oldest first."""
        return deliveries.unpack(await self._store.get_note(DELIVERIES_NOTE))

    async def delivering(self) -> Ids:
        """The authors of the deliveries under way."""
        return deliveries.authors_of(await self._store.get_note(DELIVERIES_NOTE))

    async def note_deliveries(self, under_way: Sequence[Delivery]) -> None:
        """Save the deliveries under way, with their checkpoints, in place of those saved before."""
        await self._store.put_note(DELIVERIES_NOTE, deliveries.pack(under_way) if under_way else None)

    async def timelines_name(self) -> int | None:
        """The name of the timelines that fan-out keeps for this store; None before it ever did."""
        note = await self._store.get_note(TIMELINES_NOTE)
        return None if note is None else int(note)

    async def note_timelines(self, name: int) -> None:
        """Save the name of the timelines that fan-out keeps for this store."""
        await self._store.put_note(TIMELINES_NOTE, str(name).encode())

    async def authors_lacked(self, user: NodeId, lowest: int, delivering: Ids | None = None) -> list[int]:
        """Whose posts the user's timeline may lack: of the authors withheld at a rate of `lowest` or more, and of those
        `delivering`, the ones whom the user follows; perhaps the user too.
        """
        authors = (await self.withheld()).at_least(lowest)
        if delivering is not None and len(delivering):
            authors = np.union1d(authors, delivering)
        if len(authors) <= _LOOKUPS_MAX:
            return await self.followed_of(user, authors.tolist())
        followed = await self.authors(user)
        places = np.minimum(np.searchsorted(authors, followed), len(authors) - 1)
        found: list[int] = followed[authors[places] == followed].tolist()
        return found

    async def followed_of(self, user: NodeId, authors: list[int]) -> list[int]:
        """Those of the authors whom the user follows, or is."""
        follows = await self._store.exists_many(self._follows, [(user, author) for author in authors])
        return [author for author, followed in zip(authors, follows, strict=True) if followed or author == user]


def _newest(marks: list[Mark], limit: int) -> list[Mark]:
    return sorted(marks, reverse=True)[:limit]
