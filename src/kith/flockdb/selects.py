"""FlockDB's queries: programs in postfix, and pages whose cursors are numbers from the rows.

A single list is paged by position, newest first. A query that names destination ids, or combines others, is paged by
destination id, greatest first. Cursor -1 starts. A positive cursor continues down from that row, a negative one back up
from it. A cursor of 0 in an answer means that there is no more on that side; on a page without rows it says nothing. By
destination id, a page that came down from a cursor offers a way back even if nothing is there. Source: FlockDB's
documentation of paging.

A position cannot tell rows apart that share it. So a page ends after the last row of its position, and may have up to
TIES_MAX rows more than requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kith.core.errors import BadRequest, ProgramTooComplex
from kith.core.ids import ID_MAX
from kith.core.paging import Mark, Window
from kith.flockdb.interface import SelectOperation
from kith.graph import programs
from kith.graph.edge import POSITION_MAX, Direction, Edge, State
from kith.graph.ordered_lists import OrderedLists
from kith.graph.programs import PARTS_MAX, Difference, Evaluator, GivenIds, Intersect, Leaf, Program, Union
from kith.graph.shapes import Ids, Listing, Pair
from kith.graph.store import Edges

COUNT_MAX = 50_000
"""Most rows of a page; above that: FlockException."""
TIES_MAX = 10_000
START, END = -1, 0
_STATES = {0: State.NORMAL, 1: State.REMOVED, 2: State.ARCHIVED, 3: State.NEGATIVE}
"""The numbers of states on the wire."""
WIRE_STATES = {state: number for number, state in _STATES.items()}
_COMBINING: Mapping[int, Callable[[tuple[Program, ...]], Program]] = {
    SelectOperation.INTERSECTION: Intersect,
    SelectOperation.UNION: Union,
    SelectOperation.DIFFERENCE: Difference,
}


class Term(NamedTuple):
    """The edges of a node in one direction, in some states; with `others`, only the edges with these other ends."""

    graph: int
    node: int
    direction: Direction
    states: tuple[State, ...]
    others: Ids | None

    @property
    def listings(self) -> tuple[Listing, ...]:
        """Its lists, one per state."""
        return tuple(Listing(self.graph, self.node, self.direction, state) for state in self.states)

    def pairs(self, other_ids: Sequence[int]) -> list[Pair]:
        """(source, destination) of the edges with these other ends."""
        return [
            (self.node, other_id) if self.direction is Direction.OUT else (other_id, self.node)
            for other_id in other_ids
        ]


class PageRequest(NamedTuple):
    """How many rows, and the cursor to start at."""

    rows: int
    cursor: int


class SelectPage(NamedTuple):
    """A page of other ends, and the cursors to both sides."""

    ids: Ids
    next: int
    previous: int


class TermReader:
    """Reads terms. `graphs`: the number of each graph, by the id that clients use."""

    def __init__(self, graphs: Mapping[int, int]) -> None:
        self._graphs = graphs

    def graph(self, graph_id: int | None) -> int:
        """The number of a graph. BadRequest if no graph has this id."""
        number = None if graph_id is None else self._graphs.get(graph_id)
        if number is None:
            raise BadRequest(
                f"there is no graph {graph_id}; name it in the setting `flockdb_graphs`, as `{graph_id}=follows`"
            )
        return number

    def read(self, raw: Any) -> Term:
        """Read a QueryTerm from a client. BadRequest."""
        if raw is None:
            raise BadRequest("an operation lacks its term")
        states = [_STATES.get(number) for number in raw.state_ids or [0]]
        if None in states:
            raise BadRequest(f"states are 0 (positive), 1 (removed), 2 (archived), 3 (negative), not {raw.state_ids}")
        return Term(
            self.graph(raw.graph_id),
            checked_id(raw.source_id, "source_id"),
            Direction.OUT if raw.is_forward else Direction.IN,
            tuple(dict.fromkeys(state for state in states if state is not None)),
            None if raw.destination_ids is None else unpacked_ids(raw.destination_ids),
        )


def checked_id(raw: int | None, name: str) -> int:
    """A valid id from a client; BadRequest for others."""
    if raw is None or not 0 <= raw <= ID_MAX:
        raise BadRequest(f"{name} must be a number from 0 to {ID_MAX}")
    return raw


def unpacked_ids(raw: bytes | str) -> Ids:
    """Ids from their packed form. BadRequest."""
    data = raw.encode() if isinstance(raw, str) else raw  # the decoder returns text if the bytes happen to be text
    if len(data) % 8:
        raise BadRequest("ids are packed as 8 bytes each, little-endian")
    ids = np.frombuffer(data, "<i8").astype(np.int64)
    if (ids < 0).any():
        raise BadRequest(f"an id must be a number from 0 to {ID_MAX}")
    return ids


def compiled(operations: Sequence[Any], terms: TermReader) -> list[Term | SelectOperation]:
    """A program in postfix, with its terms read. BadRequest unless it leaves exactly one result."""
    program: list[Term | SelectOperation] = []
    results = lists = 0
    for operation in operations:
        if operation.operation_type == SelectOperation.SIMPLE_QUERY:
            program.append(terms.read(operation.term))
            results, lists = results + 1, lists + 1
        elif operation.operation_type in _COMBINING:
            if results < 2:
                raise BadRequest("an operation combines two results before it, and there are fewer")
            program.append(SelectOperation(operation.operation_type))
            results -= 1
        else:
            raise BadRequest(f"there is no operation {operation.operation_type}")
    if results != 1:
        raise BadRequest(f"a program must leave one result, this one leaves {results}")
    if lists > PARTS_MAX:
        raise ProgramTooComplex(f"a program may name {PARTS_MAX} lists at most", maxLists=PARTS_MAX)
    return program


class Selects:
    """Answers queries over a store. `ids_max`: how many ids a program may read into memory."""

    def __init__(self, store: Edges, ids_max: int) -> None:
        self._store, self._ids_max = store, ids_max
        self._lists = OrderedLists(store)

    async def page(self, program: Sequence[Term | SelectOperation], request: PageRequest) -> SelectPage:
        """A page of the ids that a program selects."""
        _check(request)
        (first, *rest) = program
        if not rest and isinstance(first, Term) and first.others is None:
            marks, following, previous = await self.listed(first, request)
            return SelectPage(np.array([mark.id for mark in marks], np.int64), following, previous)
        tree = await self._tree(program)
        evaluator = Evaluator(self._store, self._lists, self._ids_max)
        if request.cursor < START:
            return await self._upwards(evaluator, tree, request)
        below = request.cursor if request.cursor > END else None
        ids, checked_to = await evaluator.page(tree, below, request.rows + 1)
        rows = ids[: request.rows]
        following = int(rows[-1]) if len(ids) > request.rows else checked_to or END
        has_previous = below is not None and len(rows) > 0
        return SelectPage(rows, following, -int(rows[0]) if has_previous else END)

    async def _upwards(self, evaluator: Evaluator, tree: Program, request: PageRequest) -> SelectPage:
        """The page before a cursor."""
        above = -request.cursor
        ids, checked_to = await evaluator.page(tree, above, request.rows + 1, down=False)
        rows = ids[: request.rows][::-1]
        previous = -int(rows[0]) if len(ids) > request.rows else -checked_to if checked_to else END
        if not len(rows):
            return SelectPage(rows, END, previous)
        below = await evaluator.page(tree, None if above == ID_MAX else above + 1, 1)
        return SelectPage(rows, int(rows[-1]) if len(below.ids) or below.checked_to else END, previous)

    async def count(self, program: Sequence[Term | SelectOperation]) -> int:
        """How many ids a program selects, exactly."""
        return await Evaluator(self._store, self._lists, self._ids_max).count(await self._tree(program))

    async def edges(self, term: Term, request: PageRequest) -> tuple[list[Edge], int, int]:
        """A page of a term's edges, and the cursors to both sides."""
        _check(request)
        if term.others is None:
            marks, following, previous = await self.listed(term, request)
            ids = [mark.id for mark in marks]
        else:
            rows = await self.page([term], request)
            ids, following, previous = rows.ids.tolist(), rows.next, rows.previous
        stored = await self._store.get_many(term.graph, term.pairs(ids))
        return [edge for edge in stored if edge is not None], following, previous

    async def listed(self, term: Term, request: PageRequest) -> tuple[list[Mark], int, int]:
        """A page of lists by position: entries newest first, and the cursors to both sides."""
        backward = request.cursor < START
        window = Window(request.rows + 1)
        if backward:
            window = window._replace(before=Mark(-request.cursor, ID_MAX))
        elif request.cursor > END:
            window = window._replace(after=Mark(request.cursor, 0))
        entries: list[Mark] = []
        for listing in term.listings:
            entries += (await self._store.page(listing, window)).items
        entries.sort(reverse=True)
        marks = entries[-request.rows :] if backward else entries[: request.rows]
        if not marks:
            return [], END, END
        has_more = len(entries) > request.rows
        last = marks[0] if backward else marks[-1]
        tied = has_more and entries[-request.rows - 1 if backward else request.rows].position == last.position
        if tied:
            marks = await self._with_ties(term, marks, last, backward=backward)
        goes_on = has_more and not tied
        is_older = goes_on and not backward
        if not is_older and (backward or has_more):
            is_older = await self._is_beyond(term, marks[-1].position, newer=False)
        is_newer = goes_on and backward
        if not is_newer and (has_more if backward else request.cursor != START):
            is_newer = await self._is_beyond(term, marks[0].position, newer=True)
        if (is_older and marks[-1].position < 1) or (is_newer and marks[0].position < 1):
            raise BadRequest("positions below 1 cannot be paged by this interface; use Kith's own API for this list")
        return marks, marks[-1].position if is_older else END, -marks[0].position if is_newer else END

    async def _with_ties(self, term: Term, marks: list[Mark], last: Mark, *, backward: bool) -> list[Mark]:
        """The page with every entry that shares the position of its last row."""
        until = last.position + 1 if last.position < POSITION_MAX else None
        window = Window(TIES_MAX + 1, since=last.position, until=until)
        tied = [mark for listing in term.listings for mark in (await self._store.page(listing, window)).items]
        if len(tied) > TIES_MAX:
            raise BadRequest(
                f"more than {TIES_MAX} edges have the position {last.position}, so no cursor stands between them; "
                "use Kith's own API for this list"
            )
        rest = [mark for mark in marks if mark.position != last.position]
        tied.sort(reverse=True)
        return tied + rest if backward else rest + tied

    async def _is_beyond(self, term: Term, position: int, *, newer: bool) -> bool:
        """Whether there are entries with a greater (`newer`) or lesser position."""
        window = Window(1, before=Mark(position, ID_MAX)) if newer else Window(1, after=Mark(position, 0))
        for listing in term.listings:
            if (await self._store.page(listing, window)).items:
                return True
        return False

    async def _tree(self, program: Sequence[Term | SelectOperation]) -> Program:
        stack: list[Program] = []
        for part in program:
            if isinstance(part, Term):
                stack.append(Leaf(part.listings) if part.others is None else await self._among(part, part.others))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(_COMBINING[part]((left, right)))
        return stack[0]

    async def _among(self, term: Term, other_ids: Ids) -> GivenIds:
        """Which of these ids are other ends of edges in the term's states."""
        pairs = term.pairs(other_ids.tolist())
        edges = await self._store.get_many(term.graph, pairs)
        selected = [edge is not None and edge.state in term.states for edge in edges]
        return programs.given(other_ids[np.array(selected, np.bool_)])


def _check(request: PageRequest) -> None:
    if not 0 < request.rows <= COUNT_MAX:
        raise BadRequest(f"a page has 1 to {COUNT_MAX} rows, not {request.rows}")
    if request.cursor < -ID_MAX:
        raise BadRequest(f"a cursor is {-ID_MAX} or more, not {request.cursor}; -1 begins")
