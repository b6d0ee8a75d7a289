"""The connection of a process to Cassandra: prepares each statement once, and translates errors of the driver.

A statement is its CQL text, with a `?` for each value. Reads need a quorum of this process's datacentre (LOCAL_QUORUM).
Writes wait for a quorum of each datacentre (EACH_QUORUM), so every datacentre reads them. Conditions are decided by a
quorum of all nodes (SERIAL).

Statements without conditions are idempotent, so the driver may retry them: writes carry their timestamp, or their order
does not matter. If a node is slow to answer such a statement, the driver also sends it to another node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import acsylla

from kith.core.deadline import Deadline
from kith.core.errors import BadRequest, StoreUnavailable
from kith.core.gathering import gather

Row = tuple[Any, ...]
PORT = 9042
ANSWER_TIMEOUT_S = 5.0
"""How long Cassandra may take to answer a statement before the driver gives up."""
_CONNECT_TIMEOUT_S = 3 * ANSWER_TIMEOUT_S
_GIVE_UP_S = 2 * ANSWER_TIMEOUT_S
"""When we stop waiting for the driver: it never answers some statements of connections that it dropped."""
_SPECULATE_AFTER_MS, _SPECULATIVE_MAX = 1_000, 2
"""An idempotent statement without an answer is also sent to another node after this pause, and to this many nodes at
most: a paused node never answers."""
_AGREE_POLLS_MAX, _AGREE_POLL_S = 100, 0.2
_HEARTBEAT_S, _IDLE_TIMEOUT_S = 1, 5
"""How often a node is sent a heartbeat, and after how much silence it counts as down."""
_RECONNECT_MS, _RECONNECT_MS_MAX = 500, 5_000
"""The first and the longest pause before reconnecting to a node that is down; it grows exponentially."""
IN_FLIGHT_MAX = 256
"""Statements in flight at once in a session; others wait."""
BATCH_STATEMENTS_MAX, _BATCH_BYTES_MAX = 16, 4_000
"""Statements and bytes of one batch request. A batch costs client and coordinator less than single requests; these
bounds keep it below the size at which Cassandra logs a warning."""
_READ, _WRITE = acsylla.Consistency.LOCAL_QUORUM, acsylla.Consistency.EACH_QUORUM
_SERIAL = acsylla.Consistency.SERIAL
_NAME_CHARS_MAX, _PAGE_ROWS = 48, 5_000
_DATACENTRES = "SELECT data_center FROM system.local", "SELECT data_center FROM system.peers"
_SCHEMA_HERE = "SELECT schema_version FROM system.local"
_SCHEMA_ELSEWHERE = "SELECT schema_version FROM system.peers"


class Session:
    """Executes statements in one keyspace. For one event loop. Errors: `StoreUnavailable`."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._prepared: dict[str, Any] = {}
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._deadline = Deadline(_GIVE_UP_S)

    async def rows(self, statement: str, *values: Any) -> list[Row]:
        """All rows that a statement selects, in memory at once: for small results."""
        result = await self._execute(statement, values, page_size=_PAGE_ROWS)
        rows = [row.as_tuple() for row in result]
        while result.has_more_pages():
            result = await self._execute(statement, values, page_size=_PAGE_ROWS, page_state=result.page_state())
            rows += [row.as_tuple() for row in result]
        return rows

    async def page(
        self, statement: str, *values: Any, size: int, after: bytes | None = None
    ) -> tuple[list[Row], bytes | None]:
        """One page of up to `size` rows, and the state of the next page (None: there is none).

        `after`: the state that the previous page returned; None: the first page. A page may be empty.
        """
        result = await self._execute(statement, values, page_size=size, page_state=after)
        return [row.as_tuple() for row in result], result.page_state() if result.has_more_pages() else None

    async def pages(self, statement: str, *values: Any, size: int) -> AsyncIterator[list[Row]]:
        """The rows that a statement selects, in pages of up to `size`; the last page may be empty."""
        rows, after = await self.page(statement, *values, size=size)
        yield rows
        while after is not None:
            rows, after = await self.page(statement, *values, size=size, after=after)
            yield rows

    async def write(self, statement: str, *values: Any) -> None:
        """Execute an idempotent statement that returns no rows."""
        await self._execute(statement, values, consistency=_WRITE)

    async def rows_serial(self, statement: str, *values: Any) -> list[Row]:
        """Read at serial consistency, which shows the last conditional write of a row."""
        return [row.as_tuple() for row in await self._execute(statement, values, consistency=_SERIAL)]

    async def conditional(self, statement: str, *values: Any) -> bool:
        """Execute a statement with a condition (IF ...); returns whether the condition held.

        The statement is never retried: after an error it may or may not have been executed.
        """
        result = await self._execute(statement, values, consistency=_WRITE, idempotent=False)
        return bool(result.first().column_value("[applied]"))

    async def write_many(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Write many statements, in any order: several per request, and up to IN_FLIGHT_MAX requests at once."""
        for statement in {statement for statement, _ in statements}:
            await self._prepare(statement)
        await gather(False, *(self._request(request) for request in _requests(statements)))

    async def write_atomically(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Write these statements of one partition atomically: all of them, or none."""
        for statement in {statement for statement, _ in statements}:
            await self._prepare(statement)
        await self._request(statements)

    async def _request(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        if len(statements) == 1:
            await self.write(statements[0][0], *statements[0][1])
            return
        batch = acsylla.create_batch_unlogged()
        batch.set_consistency(_WRITE)
        batch.set_is_idempotent(True)
        for statement, values in statements:
            batch.add_statement(self._prepared[statement].bind(list(values)))
        async with self._in_flight:
            with _translate_errors("write to Cassandra"):
                await self._deadline.within(self._session.execute_batch(batch))

    async def node_time(self) -> tuple[str, int]:
        """The id of the node that answers, and its clock in ms."""
        ((node, now_ms),) = await self.rows("SELECT host_id, to_unix_timestamp(now()) FROM system.local")
        return str(node), int(now_ms)

    async def define(self, statement: str) -> None:
        """Execute a statement that changes the schema."""
        with _translate_errors("change the schema"):
            await self._session.execute(self._session.query(statement, timeout=6 * ANSWER_TIMEOUT_S))

    async def await_schema_agreement(self) -> None:
        """Wait until the nodes of all datacentres agree on the schema: 20 s at most, as a node may be down."""
        for _ in range(_AGREE_POLLS_MAX):
            if len({*await self.rows(_SCHEMA_HERE), *await self.rows(_SCHEMA_ELSEWHERE)}) == 1:
                return
            await asyncio.sleep(_AGREE_POLL_S)

    async def close(self) -> None:
        with contextlib.suppress(Exception):
            await self._session.close()

    async def _execute(
        self,
        statement: str,
        values: Sequence[Any],
        *,
        page_size: int | None = None,
        page_state: bytes | None = None,
        consistency: Any = _READ,
        idempotent: bool = True,
    ) -> Any:
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        bound = prepared.bind(list(values), page_size=page_size, page_state=page_state, consistency=consistency)
        if idempotent:
            bound.set_is_idempotent(True)
        else:
            bound.set_serial_consistency(_SERIAL)
        async with self._in_flight:
            try:
                return await self._deadline.within(self._session.execute(bound))
            except Exception as error:
                raise _unavailable("ask Cassandra", error) from error

    async def _prepare(self, statement: str) -> Any:
        """The prepared statement. Concurrent first calls may prepare it more than once, which does no harm."""
        if statement not in self._prepared:
            with _translate_errors("prepare a statement"):
                self._prepared[statement] = await self._session.create_prepared(statement)
        return self._prepared[statement]


async def connect(
    nodes: str, keyspace: str, *, replicas: int, datacentre: str = "", username: str = "", password: str = ""
) -> Session:
    """Open a session in a keyspace. A missing keyspace is created, with `replicas` copies of each row per datacentre.

    `nodes`: some nodes of the cluster, as HOST:PORT,HOST:PORT; the driver discovers the others. `datacentre`: only its
    nodes are used; empty: the datacentre of the first node that answers.
    Errors: BadRequest for an invalid name, or too few nodes for so many copies; StoreUnavailable if no node answers.
    """
    hosts, port = _hosts(nodes)
    if not keyspace.isidentifier() or not keyspace.isascii() or len(keyspace) > _NAME_CHARS_MAX:
        raise BadRequest(f"{keyspace!r} cannot name a keyspace; use up to {_NAME_CHARS_MAX} of a-z, 0-9 and _")
    with _translate_errors(f"connect to Cassandra at {nodes}"):
        cluster = acsylla.create_cluster(
            hosts,
            port=port,
            username=username or None,
            password=password or None,
            connect_timeout=_CONNECT_TIMEOUT_S,
            request_timeout=ANSWER_TIMEOUT_S,
            consistency=_READ,
            serial_consistency=_SERIAL,
            load_balance_dc_aware=datacentre or None,
            speculative_execution_policy=acsylla.SpeculativeExecutionPolicy(_SPECULATE_AFTER_MS, _SPECULATIVE_MAX),
            heartbeat_interval_sec=_HEARTBEAT_S,
            idle_timeout_sec=_IDLE_TIMEOUT_S,
            exponential_reconnect_base_delay_ms=_RECONNECT_MS,
            exponential_reconnect_max_delay_ms=_RECONNECT_MS_MAX,
            log_level="critical",
        )
        session = Session(await cluster.create_session())
        existing = await session.rows(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace.lower()
        )
        if not existing:
            await _check_nodes(session, replicas)
            await session.define(
                f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication ="
                f" {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
            )
        await session.define(f"USE {keyspace}")
    return session


async def _check_nodes(session: Session, replicas: int) -> None:
    """Raise BadRequest if a datacentre has fewer nodes than a quorum of the copies: no write could be confirmed."""
    nodes_by_datacentre = Counter(
        [datacentre for statement in _DATACENTRES for (datacentre,) in await session.rows(statement)]
    )
    for datacentre, nodes in nodes_by_datacentre.items():
        if nodes < (quorum := replicas // 2 + 1):
            raise BadRequest(
                f"{replicas} copies of each row are asked for, of which {quorum} nodes confirm a write; the datacentre "
                f"{datacentre} has {nodes}: set `cluster_copies` to that, or add nodes first"
            )


def _hosts(nodes: str) -> tuple[list[str], int]:
    """The named hosts, and their port, which all must share."""
    hosts, ports = [], set()
    for address in nodes.split(","):
        host, _, port = address.strip().rpartition(":") if ":" in address else (address.strip(), "", str(PORT))
        if not host or not port.isdecimal():
            raise BadRequest(f"{address!r} names no node of Cassandra; write HOST:PORT,HOST:PORT")
        hosts.append(host.strip("[]"))
        ports.add(int(port))
    if len(ports) > 1:
        raise BadRequest(f"nodes of Cassandra must have one port; {nodes!r} names several")
    return hosts, ports.pop()


def _requests(statements: Sequence[tuple[str, Sequence[Any]]]) -> Iterator[list[tuple[str, Sequence[Any]]]]:
    """Group statements into requests of at most BATCH_STATEMENTS_MAX statements and about _TOGETHER_BYTES_MAX bytes."""
    request: list[tuple[str, Sequence[Any]]] = []
    size = 0
    for statement, values in statements:
        bytes_ = sum(len(value) if isinstance(value, bytes | str) else 8 for value in values)
        if request and (len(request) == BATCH_STATEMENTS_MAX or size + bytes_ > _BATCH_BYTES_MAX):
            yield request
            request, size = [], 0
        request.append((statement, values))
        size += bytes_
    if request:
        yield request


@contextlib.contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    """Turn any error of the driver into StoreUnavailable."""
    try:
        yield
    except (StoreUnavailable, BadRequest):
        raise
    except Exception as error:
        raise _unavailable(action, error) from error


def _unavailable(action: str, error: Exception) -> StoreUnavailable:
    message = f"could not {action}: {type(error).__name__} {error}"
    return StoreUnavailable(message, for_clients="a store does not answer; try again")
