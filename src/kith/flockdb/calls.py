"""Implements every method of the interface: checks the arguments, does the work, builds the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import structlog
from thriftpy2.thrift import TApplicationException

from kith.core.clock import ms_of
from kith.core.errors import BadRequest, KithError, NotFound
from kith.core.ids import NodeId
from kith.flockdb.executes import Executes, ExecuteTask, check_edges, check_position, version_at
from kith.flockdb.interface import (
    ExecuteOperation,
    Priority,
    SelectOperation,
    ThriftCall,
    read_call,
    shapes,
    write_refusal,
    write_result,
)
from kith.flockdb.jobs import Jobs
from kith.flockdb.messages import Malformed
from kith.flockdb.selects import (
    WIRE_STATES,
    PageRequest,
    SelectPage,
    Selects,
    Term,
    TermReader,
    checked_id,
    compiled,
    unpacked_ids,
)
from kith.graph.edge import Direction, Edge, State
from kith.graph.graph import Graph
from kith.graph.shapes import Ids, Listing

QUERIES_MAX = 1_000
"""Most queries in one call; above that: FlockException."""
ROWS_MAX, EDGE_ROWS_MAX = 1_000_000, 200_000
"""Most rows that the answers to the queries of one call have together: ids of `select2`, edges of `select_edges`."""
COUNTS_MAX = 100_000
"""Most nodes whose lists one call counts."""
_SECONDS_MAX = 2**31 - 1
_log = structlog.get_logger("kith.flockdb")


class Calls:
    """The service. `graphs`: the number of each graph, by the id that clients use. `now_s`: wall-clock time in
    seconds.
    """

    def __init__(
        self, graph: Graph, graphs: Mapping[int, int], jobs: Jobs, executes: Executes, ids_max: int,
        now_s: Callable[[], int],
    ) -> None:  # fmt: skip
        self._graph, self._store, self._jobs, self._executes, self._now_s = graph, graph.store, jobs, executes, now_s
        self._terms, self._selects = TermReader(graphs), Selects(graph.store, ids_max)
        self._methods: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "contains": self._contains,
            "get": self._get,
            "get_metadata": self._get_metadata,
            "contains_metadata": self._contains_metadata,
            "select2": self._select2,
            "count2": self._count2,
            "select_edges": self._select_edges,
            "execute": self._execute,
            "count": self._count,
            "select": self._select,
            "counts_of_destinations_for": self._counts_of_destinations,
            "counts_of_sources_for": self._counts_of_sources,
        }

    async def answer(self, message: bytes) -> bytes:
        """The answer to a whole message. Never raises, whatever the client sent."""
        call = read_call(message)
        if call.arguments is None:
            return write_refusal(call, TApplicationException.UNKNOWN_METHOD, f"there is no method {call.method!r}")
        try:
            return write_result(call, await self._methods[call.method](**call.arguments))
        except KithError as error:
            return write_result(call, shapes.FlockException(error.message))
        except Exception:
            _log.exception("a call failed", method=call.method)
            return write_refusal(
                call, TApplicationException.INTERNAL_ERROR, "this call failed; the server's log says why"
            )

    def refuse(self, error: Malformed) -> bytes:
        """The answer to a message that cannot be read."""
        call = ThriftCall(*error.head, None)
        return write_refusal(call, TApplicationException.PROTOCOL_ERROR, str(error))

    async def _contains(self, source_id: int, graph_id: int, destination_id: int) -> bool:
        edge = await self._edge(source_id, graph_id, destination_id)
        return edge is not None and edge.state in (State.NORMAL, State.NEGATIVE)

    async def _get(self, source_id: int, graph_id: int, destination_id: int) -> Any:
        edge = await self._edge(source_id, graph_id, destination_id)
        if edge is None:
            raise NotFound(f"Record not found: ({source_id}, {graph_id}, {destination_id})")
        return _edge(edge)

    async def _edge(self, source_id: int, graph_id: int, destination_id: int) -> Edge | None:
        pair = (checked_id(source_id, "source_id"), checked_id(destination_id, "destination_id"))
        (edge,) = await self._store.get_many(self._terms.graph(graph_id), [pair])
        return edge

    async def _get_metadata(self, source_id: int, graph_id: int) -> Any:
        metadata = await self._metadata(source_id, graph_id)
        if metadata is None:
            raise NotFound(f"Record not found: ({source_id}, {graph_id})")
        return metadata

    async def _contains_metadata(self, source_id: int, graph_id: int) -> bool:
        return await self._metadata(source_id, graph_id) is not None

    async def _metadata(self, source_id: int, graph_id: int) -> Any:
        """The metadata of a node that has edges in any state or was archived; None for other nodes."""
        graph, node = self._terms.graph(graph_id), NodeId(checked_id(source_id, "source_id"))
        counts = await self._store.count_many([Listing(graph, node, Direction.OUT, state) for state in State])
        away = await self._executes.away(graph, node, Direction.OUT)
        if away is None and not any(counts):
            return None
        is_away = away is not None and away.state is State.NORMAL
        return shapes.Metadata(
            source_id=node,
            state_id=WIRE_STATES[State.ARCHIVED if is_away else State.NORMAL],
            count=counts[State.NORMAL],
            updated_at=0 if away is None else _seconds(away),
        )

    async def _select2(self, queries: Sequence[Any]) -> list[Any]:
        answers, rows = list[Any](), 0
        async for query in _each(queries):
            page = await self._selects.page(self._compiled(query.operations), _page(query.page))
            rows += len(page.ids)
            _check_rows(rows, ROWS_MAX)
            answers.append(_results(page))
        return answers

    async def _select(self, operations: Sequence[Any], page: Any) -> Any:
        return _results(await self._selects.page(self._compiled(operations), _page(page)))

    async def _count2(self, queries: Sequence[Any]) -> bytes:
        return _packed_counts([await self._count(operations) async for operations in _each(queries)])

    async def _count(self, operations: Sequence[Any]) -> int:
        return await self._selects.count(self._compiled(operations))

    def _compiled(self, operations: Sequence[Any] | None) -> list[Term | SelectOperation]:
        return compiled(operations or (), self._terms)

    async def _select_edges(self, queries: Sequence[Any]) -> list[Any]:
        answers, rows = list[Any](), 0
        async for query in _each(queries):
            edges, following, previous = await self._selects.edges(self._terms.read(query.term), _page(query.page))
            rows += len(edges)
            _check_rows(rows, EDGE_ROWS_MAX)
            answers.append(
                shapes.EdgeResults(edges=list(map(_edge, edges)), next_cursor=following, prev_cursor=previous)
            )
        return answers

    async def _counts_of_destinations(self, source_ids: bytes, graph_id: int) -> bytes:
        return await self._counts(source_ids, graph_id, Direction.OUT)

    async def _counts_of_sources(self, destination_ids: bytes, graph_id: int) -> bytes:
        return await self._counts(destination_ids, graph_id, Direction.IN)

    async def _counts(self, packed: bytes | None, graph_id: int, direction: Direction) -> bytes:
        nodes: Ids = unpacked_ids(packed or b"")
        if len(nodes) > COUNTS_MAX:
            raise BadRequest(f"one call counts the lists of {COUNTS_MAX} nodes at most")
        if not len(nodes):
            return b""
        (counts,) = await self._store.counts([(self._terms.graph(graph_id), direction)], nodes)
        return _packed_counts(counts.tolist())

    async def _execute(self, operations: Any) -> None:
        """Run operations that name their edges and are due now; queue the others as jobs."""
        if operations is None or not operations.operations:
            raise BadRequest("execute takes at least one operation")
        at_s, now_s = operations.execute_at, self._now_s()
        priority = _priority(operations.priority)
        tasks = [self._task(raw, at_s, number) for number, raw in enumerate(operations.operations)]
        check_edges(tasks)
        at_once: list[ExecuteTask] = []
        for task in tasks:
            if task.term.others is not None and (at_s is None or at_s <= now_s) and priority is not Priority.LOW:
                at_once.append(task)
            else:
                await self._executes.edges(at_once)
                at_once = []
                await self._jobs.add(self._with_version(task), priority, 1000 * (now_s if at_s is None else at_s))
        await self._executes.edges(at_once)

    def _task(self, raw: Any, at_s: int | None, number: int) -> ExecuteTask:
        if raw.operation_type not in list(ExecuteOperation):
            raise BadRequest(f"there is no operation {raw.operation_type}")
        term = self._terms.read(raw.term)
        # named edges of one second have one version, so that the greater state wins wherever an operation stands
        version = None if at_s is None else version_at(at_s, number if term.others is None else 0)
        return ExecuteTask(ExecuteOperation(raw.operation_type), term, check_position(raw.position), version)

    def _with_version(self, task: ExecuteTask) -> ExecuteTask:
        """The operation, with the current version if it has none. So writes made before it runs are newer."""
        return task if task.version is not None else task._replace(version=self._graph.clock.next())


def _page(raw: Any) -> PageRequest:
    if raw is None or raw.count is None or raw.cursor is None:
        raise BadRequest("a page has a count and a cursor; -1 begins")
    return PageRequest(raw.count, raw.cursor)


def _priority(raw: int | None) -> Priority:
    if raw not in list(Priority):
        raise BadRequest(f"priority is 1 (low), 2 (medium) or 3 (high), not {raw}")
    return Priority(raw)


async def _each(queries: Sequence[Any] | None) -> AsyncIterator[Any]:
    """The queries of a call, one at a time, yielding to other connections in between."""
    if queries is None:
        raise BadRequest("a call has a list of queries, and this one lacks it")
    if len(queries) > QUERIES_MAX:
        raise BadRequest(f"a call has {QUERIES_MAX} queries at most")
    for query in queries:
        yield query
        await asyncio.sleep(0)


def _check_rows(rows: int, rows_max: int) -> None:
    if rows > rows_max:
        raise BadRequest(f"the answers to one call have {rows_max} rows at most; send fewer queries, or shorter pages")


def _results(rows: SelectPage) -> Any:
    return shapes.Results(ids=rows.ids.astype("<i8").tobytes(), next_cursor=rows.next, prev_cursor=rows.previous)


def _edge(edge: Edge) -> Any:
    return shapes.Edge(
        source_id=edge.source,
        destination_id=edge.destination,
        position=edge.position,
        updated_at=_seconds(edge),
        count=1,
        state_id=WIRE_STATES[edge.state],
    )


def _seconds(edge: Edge) -> int:
    return min(ms_of(edge.updated_at) // 1000, _SECONDS_MAX)


def _packed_counts(counts: Sequence[int]) -> bytes:
    return np.minimum(np.array(counts, np.int64), _SECONDS_MAX).astype("<i4").tobytes()
