"""A client of FlockDB's interface: encodes calls and decodes answers in the Thrift protocol."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from coroutines import Run
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from kith.flockdb.calls import Calls
from kith.flockdb.interface import shapes

ADD, REMOVE, ARCHIVE, NEGATE = 1, 2, 3, 4
LOW, MEDIUM, HIGH = 1, 2, 3
POSITIVE, REMOVED, ARCHIVED, NEGATIVE = 0, 1, 2, 3
SIMPLE, INTERSECTION, UNION, DIFFERENCE = 1, 2, 3, 4


class Selected(NamedTuple):
    """A page of ids, and the cursors of the next and the previous page."""

    ids: list[int]
    next: int
    previous: int


def packed(ids: Sequence[int]) -> bytes:
    """Ids as clients pack them."""
    return struct.pack(f"<{len(ids)}q", *ids)


def term(
    source: int, graph: int = 1, *, forward: bool = True, others: Sequence[int] | None = None, states: Any = None
) -> Any:
    """A QueryTerm."""
    return shapes.QueryTerm(
        source_id=source,
        graph_id=graph,
        is_forward=forward,
        destination_ids=None if others is None else packed(others),
        state_ids=states,
    )


def simple(*args: Any, **kwargs: Any) -> Any:
    """The operation that pushes a term."""
    return shapes.SelectOperation(operation_type=SIMPLE, term=term(*args, **kwargs))


def combining(kind: int) -> Any:
    """The operation that combines the two results before it."""
    return shapes.SelectOperation(operation_type=kind)


def page(count: int, cursor: int = -1) -> Any:
    """A Page."""
    return shapes.Page(count=count, cursor=cursor)


def selected(results: Any) -> Selected:
    """The page in a Results."""
    ids = results.ids.encode() if isinstance(results.ids, str) else results.ids
    return Selected(np.frombuffer(ids, "<i8").tolist(), results.next_cursor, results.prev_cursor)


def message(method: str, *, sequence: int = 1, strict: bool = True, **arguments: Any) -> bytes:
    """A call as bytes."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer, strict_write=strict)
    protocol.write_message_begin(method, TMessageType.CALL, sequence)
    protocol.write_struct(getattr(shapes.FlockDB, f"{method}_args")(**arguments))
    return bytes(buffer.getvalue())


def read_answer(method: str, raw: bytes) -> Any:
    """The result in an answer. Raises a FlockException as it is, and a TApplicationException as a RuntimeError."""
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(raw), decode_response=False)
    _, kind, _ = protocol.read_message_begin()
    if kind == TMessageType.EXCEPTION:
        error = TApplicationException()
        protocol.read_struct(error)
        raise RuntimeError(error.message.decode())
    result = getattr(shapes.FlockDB, f"{method}_result")()
    protocol.read_struct(result)
    if getattr(result, "ex", None) is not None:
        description = result.ex.description
        raise shapes.FlockException(description.decode() if isinstance(description, bytes) else description)
    return getattr(result, "success", None)


class FlockDbClient:
    """Calls the service directly, without a connection."""

    def __init__(self, calls: Calls, run: Run) -> None:
        self._calls, self._run = calls, run

    def call(self, method: str, **arguments: Any) -> Any:
        """Make one call; returns its result."""
        return read_answer(method, self._run(self._calls.answer(message(method, **arguments))))

    def execute(
        self, change: int, term: Any, *, position: int | None = None, at: int | None = None, priority: int = HIGH
    ) -> None:
        """Execute one operation."""
        self.execute_all((change, term, position), at=at, priority=priority)

    def execute_all(
        self, *operations: tuple[int, Any, int | None], at: int | None = None, priority: int = HIGH
    ) -> None:
        """Execute operations in one call: (change, term, position) each."""
        said = [
            shapes.ExecuteOperation(operation_type=change, term=term, position=position)
            for change, term, position in operations
        ]
        self.call("execute", operations=shapes.ExecuteOperations(operations=said, execute_at=at, priority=priority))

    def select(self, operations: Sequence[Any], count: int, cursor: int = -1) -> Selected:
        """A page of one query."""
        (results,) = self.call("select2", queries=[shapes.SelectQuery(operations=operations, page=page(count, cursor))])
        return selected(results)

    def ids(self, *args: Any, **kwargs: Any) -> list[int]:
        """All ids of a list."""
        return self.select([simple(*args, **kwargs)], 10_000).ids

    def contains(self, source: int, destination: int, graph: int = 1) -> bool:
        """Whether there is an edge."""
        return bool(self.call("contains", source_id=source, graph_id=graph, destination_id=destination))

    def edge(self, source: int, destination: int, graph: int = 1) -> Any:
        """A stored edge."""
        return self.call("get", source_id=source, graph_id=graph, destination_id=destination)

    def count(self, *args: Any, **kwargs: Any) -> int:
        """The length of a list."""
        (count,) = np.frombuffer(self.call("count2", queries=[[simple(*args, **kwargs)]]), "<i4").tolist()
        return int(count)
