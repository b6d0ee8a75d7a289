"""The connection of a process to Cassandra: statements are prepared once, and errors of the driver become ours.

A statement is its CQL text, with a `?` for each value. Reads ask a quorum of this process's datacentre (LOCAL_QUORUM);
writes wait for a quorum of each (EACH_QUORUM), so what was written is read everywhere; conditions are decided by a
quorum of all nodes (SERIAL). Statements without conditions are idempotent, so the driver may repeat them: writes
carry their timestamp, or it does not matter. If a node is slow to answer, they are also sent to another one.
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
from kith.core.together import together

Row = tuple[Any, ...]
PORT = 9042
ANSWERED_S = 5.0
"""How long Cassandra may take to answer a statement."""
_CONNECTED_S = 3 * ANSWERED_S
_GIVEN_UP_S = 2 * ANSWERED_S
"""When we stop to wait for the driver, which never answers some statements that were on connections it gave up."""
_ASKED_ANOTHER_MS, _OTHERS_MAX = 1_000, 2
"""After how long a repeatable statement is also sent to another node, and to how many at most: a stopped node never
answers."""
_AGREED_LOOKS, _LOOKED_S = 100, 0.2
_BEAT_S, _SILENT_S = 1, 5
"""How often a node is sent a heartbeat, and after how long without an answer it counts as down."""
_AGAIN_MS, _AGAIN_MS_MAX = 500, 5_000
"""The first and the longest pause before a node that is down is tried again."""
IN_FLIGHT_MAX = 256
"""Statements of a process that are under way at once; others wait."""
TOGETHER_MAX, _TOGETHER_BYTES_MAX = 16, 4_000
"""The bounds of writes sent as one request, which costs client and coordinator less, and stays below the size that
Cassandra warns of."""
_READ, _WRITTEN = acsylla.Consistency.LOCAL_QUORUM, acsylla.Consistency.EACH_QUORUM
_SERIAL = acsylla.Consistency.SERIAL
_NAME_CHARS_MAX, _PAGE_ROWS = 48, 5_000
_PLACES = "SELECT data_center FROM system.local", "SELECT data_center FROM system.peers"
_SCHEMA_HERE = "SELECT schema_version FROM system.local"
_SCHEMA_ELSEWHERE = "SELECT schema_version FROM system.peers"


class Session:
    """Statements in one keyspace. One event loop uses it. Errors: `StoreUnavailable`."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._prepared: dict[str, Any] = {}
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._deadline = Deadline(_GIVEN_UP_S)

    async def rows(self, statement: str, *values: Any) -> list[Row]:
        """All rows that a statement selects; for those that are few."""
        result = await self._execute(statement, values, page_size=_PAGE_ROWS)
        found = [row.as_tuple() for row in result]
        while result.has_more_pages():
            result = await self._execute(statement, values, page_size=_PAGE_ROWS, page_state=result.page_state())
            found += [row.as_tuple() for row in result]
        return found

    async def page(
        self, statement: str, *values: Any, size: int, after: bytes | None = None
    ) -> tuple[list[Row], bytes | None]:
        """Up to `size` rows that a statement selects: the first, or those `after` a page; and where the next one
        begins, None where there is none. It may be empty.
        """
        result = await self._execute(statement, values, page_size=size, page_state=after)
        return [row.as_tuple() for row in result], result.page_state() if result.has_more_pages() else None

    async def pages(self, statement: str, *values: Any, size: int) -> AsyncIterator[list[Row]]:
        """The rows that a statement selects, `size` at a time; the last page may be empty."""
        rows, after = await self.page(statement, *values, size=size)
        yield rows
        while after is not None:
            rows, after = await self.page(statement, *values, size=size, after=after)
            yield rows

    async def write(self, statement: str, *values: Any) -> None:
        """Execute a statement that answers nothing."""
        await self._execute(statement, values, consistency=_WRITTEN)

    async def serial(self, statement: str, *values: Any) -> list[Row]:
        """Read a row that is written under conditions, at the serial consistency that shows the last such write."""
        return [row.as_tuple() for row in await self._execute(statement, values, consistency=_SERIAL)]

    async def conditional(self, statement: str, *values: Any) -> bool:
        """Execute a statement with a condition (IF ...); whether it held. It is never repeated: after an error it may
        or may not have been executed."""
        result = await self._execute(statement, values, consistency=_WRITTEN, idempotent=False)
        return bool(result.first().column_value("[applied]"))

    async def together(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Write many, in any order: several in a request, and as many requests at once as allowed."""
        for statement in {statement for statement, _ in statements}:
            await self._prepare(statement)
        await together(False, *(self._request(some) for some in _requests(statements)))

    async def whole(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Write all of these, of one partition, or none."""
        for statement in {statement for statement, _ in statements}:
            await self._prepare(statement)
        await self._request(statements)

    async def _request(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        if len(statements) == 1:
            await self.write(statements[0][0], *statements[0][1])
            return
        batch = acsylla.create_batch_unlogged()
        batch.set_consistency(_WRITTEN)
        batch.set_is_idempotent(True)
        for statement, values in statements:
            batch.add_statement(self._prepared[statement].bind(list(values)))
        async with self._in_flight:
            with _translated("write to Cassandra"):
                await self._deadline.within(self._session.execute_batch(batch))

    async def node_time(self) -> tuple[str, int]:
        """The node that answers, and its time in ms."""
        ((node, now_ms),) = await self.rows("SELECT host_id, to_unix_timestamp(now()) FROM system.local")
        return str(node), int(now_ms)

    async def define(self, statement: str) -> None:
        """Execute a statement that changes the schema."""
        with _translated("change the schema"):
            await self._session.execute(self._session.query(statement, timeout=6 * ANSWERED_S))

    async def agreed(self) -> None:
        """Wait until all nodes, of other datacentres too, know the schema that was defined; for some seconds at most,
        as one may be away."""
        for _ in range(_AGREED_LOOKS):
            if len({*await self.rows(_SCHEMA_HERE), *await self.rows(_SCHEMA_ELSEWHERE)}) == 1:
                return
            await asyncio.sleep(_LOOKED_S)

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
        """A prepared statement. It is prepared once, or a few times by calls that come at the same moment."""
        if statement not in self._prepared:
            with _translated("prepare a statement"):
                self._prepared[statement] = await self._session.create_prepared(statement)
        return self._prepared[statement]


async def connect(
    nodes: str, keyspace: str, *, replicas: int, datacentre: str = "", username: str = "", password: str = ""
) -> Session:
    """A session in a keyspace. Where it is not there it is made, with `replicas` copies of each row in each datacentre.

    `nodes`: some of the cluster's, as HOST:PORT,HOST:PORT; the others are found by them. `datacentre`: only its nodes
    are asked; empty: that of the one that answers first. BadRequest for names that are none, or too few nodes for so
    many copies; StoreUnavailable where none of them answers.
    """
    hosts, port = _hosts(nodes)
    if not keyspace.isidentifier() or not keyspace.isascii() or len(keyspace) > _NAME_CHARS_MAX:
        raise BadRequest(f"{keyspace!r} cannot name a keyspace; use up to {_NAME_CHARS_MAX} of a-z, 0-9 and _")
    with _translated(f"connect to Cassandra at {nodes}"):
        cluster = acsylla.create_cluster(
            hosts,
            port=port,
            username=username or None,
            password=password or None,
            connect_timeout=_CONNECTED_S,
            request_timeout=ANSWERED_S,
            consistency=_READ,
            serial_consistency=_SERIAL,
            load_balance_dc_aware=datacentre or None,
            speculative_execution_policy=acsylla.SpeculativeExecutionPolicy(_ASKED_ANOTHER_MS, _OTHERS_MAX),
            heartbeat_interval_sec=_BEAT_S,
            idle_timeout_sec=_SILENT_S,
            exponential_reconnect_base_delay_ms=_AGAIN_MS,
            exponential_reconnect_max_delay_ms=_AGAIN_MS_MAX,
            log_level="critical",
        )
        session = Session(await cluster.create_session())
        known = await session.rows(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace.lower()
        )
        if not known:
            await _check_nodes(session, replicas)
            await session.define(
                f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication ="
                f" {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
            )
        await session.define(f"USE {keyspace}")
    return session


async def _check_nodes(session: Session, replicas: int) -> None:
    """BadRequest where a datacentre has no quorum for so many copies: no write would ever be confirmed there."""
    places = Counter([place for asked in _PLACES for (place,) in await session.rows(asked)])
    for place, nodes in places.items():
        if nodes < (quorum := replicas // 2 + 1):
            raise BadRequest(
                f"{replicas} copies of each row are asked for, of which {quorum} nodes confirm a write; the datacentre "
                f"{place} has {nodes}: set `cluster_copies` to that, or add nodes first"
            )


def _hosts(nodes: str) -> tuple[list[str], int]:
    """The hosts that are named, and their port, which is that of all."""
    hosts, ports = [], set()
    for named in nodes.split(","):
        host, _, port = named.strip().rpartition(":") if ":" in named else (named.strip(), "", str(PORT))
        if not host or not port.isdecimal():
            raise BadRequest(f"{named!r} names no node of Cassandra; write HOST:PORT,HOST:PORT")
        hosts.append(host.strip("[]"))
        ports.add(int(port))
    if len(ports) > 1:
        raise BadRequest(f"nodes of Cassandra must have one port; {nodes!r} names several")
    return hosts, ports.pop()


def _requests(statements: Sequence[tuple[str, Sequence[Any]]]) -> Iterator[list[tuple[str, Sequence[Any]]]]:
    """Statements, some together: few, and of few bytes, as Cassandra wants them."""
    some: list[tuple[str, Sequence[Any]]] = []
    size = 0
    for statement, values in statements:
        bytes_ = sum(len(value) if isinstance(value, bytes | str) else 8 for value in values)
        if some and (len(some) == TOGETHER_MAX or size + bytes_ > _TOGETHER_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append((statement, values))
        size += bytes_
    if some:
        yield some


@contextlib.contextmanager
def _translated(action: str) -> Iterator[None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except (StoreUnavailable, BadRequest):
        raise
    except Exception as error:
        raise _unavailable(action, error) from error


def _unavailable(action: str, error: Exception) -> StoreUnavailable:
    said = f"could not {action}: {type(error).__name__} {error}"
    return StoreUnavailable(said, for_clients="a store does not answer; try again")
