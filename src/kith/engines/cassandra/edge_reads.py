"""Reads edges, lists and counts from Cassandra. Queries of one call run concurrently.

Reads filter out expired edges that are not removed yet. An edge's row and entries hold `expires_ms`, and the counts of
a list say how many of its entries expire.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kith.core.gathering import gather
from kith.core.paging import Mark, Page, Window
from kith.engines.cassandra.list_reader import BATCHED_ENTRIES_MAX, BETWEEN, ListStretch, NewestReader
from kith.engines.cassandra.parts import HIGHEST, LOWEST, UNDIVIDED, ListParts, Span, parts_row, read_parts
from kith.engines.cassandra.row_batch import edge_row, read_edge, read_node
from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.rows import CassandraRows, listed
from kith.graph.edge import Direction, Edge, State, as_of
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Chunk, EdgeKey, IdLists, Ids, Listing, Node, Pair, Side

_PAGE_ROWS = 5_000
_MARK = struct.Struct(">qq")
_LISTED = "graph = ? AND node = ? AND direction = ? AND state = ?"
_OLDEST_FIRST = " ORDER BY position ASC, other ASC"
_COUNT_EXPIRED = f"SELECT COUNT(*) FROM ending WHERE {_LISTED} AND expires_ms <= ?"
_PARTS_AT_ONCE = 2
_DIVIDED_MAX = 10_000
"""Lists whose division is cached; each takes 0.2 KB, and 8 bytes per part."""
T = TypeVar("T")


def span_of(window: Window) -> Span:
    """The span of a list that a window covers."""
    above = LOWEST if window.since is None else Mark(window.since, -1)
    top = HIGHEST if window.until is None else Mark(window.until, -1)
    return Span(above, top)


class EdgeReads:
    """The reading half of `graph.store.Edges`."""

    transactional = immediate = False

    def __init__(self, rows: CassandraRows, now_ms: Callable[[], int]) -> None:
        self._rows, self._session, self._now_ms = rows, rows.session, now_ms
        self._newest = NewestReader(rows.session)
        self._known_parts: dict[Listing, ListParts] = {}  # as last read

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        return [edge is not None and edge.state is State.NORMAL for edge in await self.get_many(graph, pairs)]

    async def get_many(self, graph: int, pairs: Sequence[Pair]) -> list[Edge | None]:
        return await self._edges([(graph, *pair) for pair in pairs])

    async def _edges(self, keys: Sequence[EdgeKey]) -> list[Edge | None]:
        """Edges of any graphs, as of now."""
        now_ms = self._now_ms()
        rows = await self._rows.get([edge_row(*key) for key in keys])
        return [
            None if row is None else as_of(read_edge(*key, row), now_ms) for key, row in zip(keys, rows, strict=True)
        ]

    async def answer(self, questions: Questions) -> Answers:
        towards = [[(graph, source, to) for to in ends] for graph, source, ends in questions.asked_towards]
        reads: list[Coroutine[Any, Any, Any]] = [  # those with most steps first: more reads share a statement
            *(self.contains(listing, ids) for listing, ids in questions.asked_members),
            *(self.page(listing, window) for listing, window in questions.asked_pages),
            self._edges([*questions.asked_states, *chain.from_iterable(towards)]),
            self.nodes(questions.asked_nodes),
            self.count_many(questions.asked_counts),
        ]
        *lists, edges, nodes, counts = await gather(False, *reads)
        states = iter([None if edge is None else edge.state for edge in edges])
        return Answers(
            list(islice(states, len(questions.asked_states))),
            [list(islice(states, len(keys))) for keys in towards],
            lists[: len(questions.asked_members)],
            nodes,
            counts,
            lists[len(questions.asked_members) :],
        )

    async def nodes(self, nodes: Sequence[int]) -> list[Node]:
        return [read_node(values) for values in await self._rows.get([Key("nodes", (node,)) for node in nodes])]

    async def contains(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        graph, node, direction, state = listing
        out = direction is Direction.OUT
        keys = [(graph, node, other) if out else (graph, other, node) for other in ids.tolist()]
        return np.array([edge is not None and edge.state is state for edge in await self._edges(keys)], np.bool_)

    async def page(self, listing: Listing, window: Window) -> Page:
        return await self._in_parts(listing, lambda parts: self._page(listing, window, parts))

    async def _in_parts(self, listing: Listing, read: Callable[[ListParts], Coroutine[Any, Any, T]]) -> T:
        """Read a list that may be divided.

        The list is read by its cached division, or as undivided (most lists are), while the division is looked up. If
        that guess was wrong, it is read again.
        """
        guess = self._known_parts.get(listing, UNDIVIDED)
        reads: tuple[list[Values | None], T] = await gather(False, self._rows.get([parts_row(listing)]), read(guess))
        (row,), result = reads
        if (parts := read_parts(row)) == guess:
            return result
        if len(self._known_parts) >= _DIVIDED_MAX:
            self._known_parts.clear()
        self._known_parts[listing] = parts
        return await read(parts)

    async def _page(self, listing: Listing, window: Window, parts: ListParts) -> Page:
        above, top = span_of(window)
        count = window.limit + 1
        if window.before is not None:
            newer, older = await gather(
                False,
                self._marks(listing, Span(max(above, window.before), top), count, parts, oldest_first=True),
                self._marks(listing, Span(above, min(top, window.before)), 1, parts),
            )
            return Page(newer[: window.limit][::-1], bool(older), len(newer) > window.limit)
        if window.after is None:
            items = await self._marks(listing, Span(above, top), count, parts)
            return Page(items[: window.limit], len(items) > window.limit, False)
        after, below = window.after, Mark(window.after.position, window.after.id - 1)
        if not window.looks_back or not above < after <= top:
            items, is_newer = await gather(
                False,
                self._marks(listing, Span(above, min(top, below)), count, parts),
                self._newer(listing, Span(max(above, below), top), parts, looks_back=window.looks_back),
            )
            return Page(items[: window.limit], len(items) > window.limit, is_newer)
        items = await self._marks(listing, Span(above, after), count + 1, parts)
        if items[:1] == [after]:  # mostly the cursor's entry still exists: so a newer one does, with no second read
            items = items[1:]
            return Page(items[: window.limit], len(items) > window.limit, True)
        is_newer = await self._newer(listing, Span(below, top), parts)
        return Page(items[: window.limit], len(items) > window.limit, is_newer)

    async def _newer(self, listing: Listing, span: Span, parts: ListParts, *, looks_back: bool = True) -> bool:
        """Whether a span has an entry; False without a read unless `looks_back`."""
        return looks_back and bool(await self._marks(listing, span, 1, parts, oldest_first=True))

    async def _marks(
        self, listing: Listing, span: Span, limit: int, parts: ListParts, *, oldest_first: bool = False
    ) -> list[Mark]:
        """The first `limit` entries of a span, in this order. _PARTS_AT_ONCE parts are read at once."""
        if span.above >= span.top or limit <= 0:
            return []
        within = parts.within(span)[:: -1 if oldest_first else 1]
        result: list[Mark] = []
        for start in range(0, len(within), _PARTS_AT_ONCE):
            places = within[start : start + _PARTS_AT_ONCE]
            for marks in await gather(
                False, *(self._marks_in_parts(listing, *place, limit, oldest_first) for place in places)
            ):
                result += sorted(marks, reverse=not oldest_first)[:limit]
            if len(result) >= limit:
                break
        return result[:limit]

    async def _marks_in_parts(
        self, listing: Listing, places: Sequence[int], span: Span, limit: int, oldest_first: bool
    ) -> set[Mark]:
        """The first entries of a span that may be in two parts. The part that entries move from is read first."""
        marks: set[Mark] = set()
        for part in reversed(places):
            marks.update(await self._marks_in_part(listing, part, span, limit, oldest_first))
        return marks

    async def _marks_in_part(
        self, listing: Listing, part: int, span: Span, limit: int, oldest_first: bool
    ) -> Sequence[Mark]:
        """The first entries of one part of a list."""
        now_ms, marks = self._now_ms(), list[Mark]()
        if not oldest_first and limit <= BATCHED_ENTRIES_MAX:
            rows = await self._newest.of(ListStretch(listing, part, *span, limit))
            marks = [Mark(position, other_end) for position, other_end, ends in rows if not ends or ends > now_ms]
            if len(marks) == len(rows) or len(rows) < limit:
                return marks[:limit]
            marks = []  # some had expired: read page by page
        statement = BETWEEN + (_OLDEST_FIRST if oldest_first else "")
        size = min(limit, _PAGE_ROWS)
        async for rows in self._session.pages(statement, *listed(listing), part, *span.above, *span.top, size=size):
            marks += [Mark(position, other_end) for position, other_end, ends in rows if not ends or ends > now_ms]
            if len(marks) >= limit:
                break
        return marks

    async def count_many(self, listings: Sequence[Listing]) -> list[int]:
        cells = await self._rows.cells(listings)
        expiring = dict.fromkeys(
            listing for listing, counts in zip(listings, cells, strict=True) if any(ends for *_, ends in counts)
        )
        expired = dict(zip(expiring, await gather(False, *map(self._count_expired, expiring)), strict=True))
        return [
            max(0, sum(length for _, length, _ in counts) - expired.get(listing, 0))
            for listing, counts in zip(listings, cells, strict=True)
        ]

    async def _count_expired(self, listing: Listing) -> int:
        """The number of a list's entries that have expired and are not removed yet."""
        ((count,),) = await self._session.rows(_COUNT_EXPIRED, *listed(listing), self._now_ms())
        return int(count)

    async def counts(self, sides: Sequence[Side], nodes: Ids) -> Ids:
        listings = [Listing(graph, node, direction) for graph, direction in sides for node in nodes.tolist()]
        return np.array(await self.count_many(listings), np.int64).reshape(len(sides), len(nodes))

    async def ids(self, listing: Listing, newest: int) -> Ids:
        return _ids(
            await self._in_parts(listing, lambda parts: self._marks(listing, Span(LOWEST, HIGHEST), newest, parts))
        )

    async def ids_many(self, listings: Sequence[Listing], newest: int) -> IdLists:
        lists = await gather(False, *(self.ids(listing, newest) for listing in listings))
        lengths = np.array([len(ids) for ids in lists], np.int64)
        return IdLists(np.concatenate([np.empty(0, np.int64), *lists]), lengths)

    async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
        top = HIGHEST
        if after is not None:
            position, other_end = _MARK.unpack(after)
            top = Mark(position, other_end - 1)
        span = Span(LOWEST, top)
        marks = await self._in_parts(listing, lambda parts: self._marks(listing, span, limit + 1, parts))
        next_chunk = _MARK.pack(*marks[limit - 1]) if len(marks) > limit else None
        return Chunk(_ids(marks[:limit]), next_chunk)


def _ids(marks: Iterable[Mark]) -> Ids:
    return np.array([mark.id for mark in marks], np.int64)
