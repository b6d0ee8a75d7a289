"""Opens the stores of distributed engines: Cassandra, Kafka and Redis Cluster, which many machines share.

The clients of these engines are an optional extra. So only this file imports them, and it is imported only when needed.
The data folder holds what belongs to one machine: its metrics, and its log of served pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from kith.access.credentials import CredentialStore
from kith.core.clock import HybridClock, wall_ms
from kith.core.errors import BadRequest, StoreUnavailable
from kith.core.stopping import stop
from kith.engines.cassandra.clock_watch import ClockWatch
from kith.engines.cassandra.closed_store import CassandraClosing
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.connecting import Session, connect
from kith.engines.cassandra.contents import CassandraContents
from kith.engines.cassandra.divider import Divider
from kith.engines.cassandra.edge_store import CassandraEdges
from kith.engines.cassandra.metadata import Metadata
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.record_store import CassandraRecords
from kith.engines.cassandra.rows import CassandraRows
from kith.engines.cassandra.schema import TABLES, create
from kith.engines.cassandra.small_stores import (
    SMALL_TABLES,
    CassandraCredentials,
    CassandraFanoutState,
    CassandraInboxes,
    CassandraLeases,
    CassandraSuggestions,
)
from kith.engines.kafka.connecting import Kafka
from kith.engines.kafka.engine import KafkaEngine
from kith.engines.kafka.retention import PartitionBounds
from kith.engines.redis import connecting as redis
from kith.engines.redis.activity_store import RedisActivity
from kith.engines.redis.connecting import LinkedCluster
from kith.engines.redis.set_store import RedisSets
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN, Graphs, UserEnds
from kith.home.fanout import consumer as fanout
from kith.leases.holding import Leases
from kith.log.runner import begin
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.deciding import APPLY
from kith.run.measures.gauges import gauges
from kith.run.measures.metrics import Metrics
from kith.run.measures.observed import observed
from kith.run.opening.checks import keeping, layered_stores
from kith.run.opening.folders import metrics_folder
from kith.run.opening.stores import OpenStores, WriteDecisions
from kith.run.serving.processes import end_with_parent

_WORKER_PAUSE_S = 0.05
"""Pause of a worker after each read of the log. API processes do not pause, because they feed streams."""
_GRAPH_POLL_S = 3.0
"""Seconds between two polls for graphs that other machines declared."""
_RUN_WHILE_CLOSED = (APPLY, "chore", "move")
"""Kinds of process that may run while these engines are closed to writes."""
_READ_ON_WRONG_CLOCK = ("api", "flockdb", "chore", "move")
"""Kinds of process that keep reading while this machine's clock is wrong; workers exit."""


class _Engines(NamedTuple):
    """What a process has open of the three engines. `edges` decides no write; it sends each to its owner."""

    session: Session
    rows: CassandraRows
    kafka: KafkaEngine
    owners: Owners
    edges: CassandraEdges
    redis: LinkedCluster
    clock: ClockWatch


@contextlib.asynccontextmanager
async def open_stores(
    settings: Settings, process: str, permit: int = 0, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[OpenStores]:
    """Connect to the engines. See `wiring.open_stores`. `permit`: of a move, which may write while they are closed.

    Errors: StoreUnavailable where an engine does not answer; StoreMismatch where this machine's clock is wrong, or
    while a store moves into or out of these engines.
    """
    async with _connected(settings, permit, process, on_fatal) as engines:
        if process not in _RUN_WHILE_CLOSED:
            await _closing(engines).refuse_closed()
        metrics = Metrics(metrics_folder(settings), lambda: 0, lambda: gauges(settings, stores), process)
        graphs = dict(await engines.edges.declare([*BUILT_IN, *settings.graphs]))
        polling = asyncio.create_task(_poll_graphs(graphs, engines))
        metrics.start()
        try:
            stores = await _stores(settings, engines, metrics, graphs)
            sets = RedisSets(engines.redis, prefix=settings.cassandra_keyspace)
            stores = stores._replace(keeping=keeping(settings, stores, sets))
            if process == "api":
                async with layered_stores(settings, stores, sets) as served:
                    yield served
            else:
                yield stores
        finally:
            await stop(polling)
            metrics.close()


@contextlib.asynccontextmanager
async def credentials(settings: Settings) -> AsyncIterator[CredentialStore]:
    """Keys and secrets alone, for a command."""
    session = await _session(settings)
    try:
        await create(session, settings.cassandra_keyspace, SMALL_TABLES)
        yield CassandraCredentials(session)
    finally:
        await session.close()


def prepare(settings: Settings) -> None:
    """Create missing tables and topics, and the consumers' positions in the log.

    Runs in its own process: this one forks later, and must not have drivers' threads then.
    """
    _check(settings)
    if settings.backup_to:
        raise BadRequest("`backup_to` is for a data folder; on a cluster, back up Cassandra, and leave it empty")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        executor.submit(_prepare, settings, os.getpid()).result()


def _check(settings: Settings) -> None:
    missing = [name for name in ("cassandra", "kafka", "redis") if not getattr(settings, name)]
    if missing:
        raise BadRequest(f"`engine = cluster` needs {' and '.join(missing)} too; see docs/cluster.md")


def _prepare(settings: Settings, parent: int) -> None:
    end_with_parent(parent)

    async def made() -> None:
        async with _connected(settings) as engines:
            await create(engines.session, settings.cassandra_keyspace, (*TABLES, *SMALL_TABLES))
            await Metadata(engines.session).check_partitions(settings.cluster_partitions)
            await engines.edges.declare([*BUILT_IN, *settings.graphs])
            await begin(engines.kafka.log, [name for name, consumer in CONSUMERS.items() if consumer.has_position])
            await _closing(engines).refuse_closed()

    asyncio.run(made())


async def make(settings: Settings, graphs: Iterable[str]) -> None:
    """Create missing tables, and declare these graphs first, in order, so they keep the numbers of their old store."""
    _check(settings)
    session = await _session(settings)
    try:
        await create(session, settings.cassandra_keyspace, (*TABLES, *SMALL_TABLES))
        metadata = Metadata(session)
        await metadata.check_partitions(settings.cluster_partitions)
        await metadata.declare([*graphs, *BUILT_IN, *settings.graphs])
    finally:
        await session.close()


async def _session(settings: Settings) -> Session:
    return await connect(
        settings.cassandra,
        settings.cassandra_keyspace,
        replicas=settings.cluster_copies,
        datacentre=settings.cassandra_datacentre,
        username=settings.cassandra_username,
        password=settings.cassandra_password,
    )


@contextlib.asynccontextmanager
async def _connected(
    settings: Settings, permit: int = 0, process: str = "", on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[_Engines]:
    async with contextlib.AsyncExitStack() as closing:
        session = await _session(settings)
        closing.push_async_callback(session.close)
        compare = Metadata(session).check_clock
        await compare()
        clock = ClockWatch(compare, on_fatal, reads_on=process in _READ_ON_WRONG_CLOCK)
        watching = asyncio.create_task(clock.run())
        closing.callback(watching.cancel)
        broker = Kafka(
            settings.kafka,
            prefix=settings.cassandra_keyspace,
            partitions=settings.cluster_partitions,
            copies=settings.cluster_copies,
            rest_s=0.0 if process == "api" else _WORKER_PAUSE_S,
        )
        closing.push_async_callback(broker.close)
        bounds = PartitionBounds(settings.log_events_max, settings.log_lease_hours * 3_600_000)
        kafka = KafkaEngine(broker, Partitions(broker.partitions).of_node, keep=bounds)
        closing.push_async_callback(kafka.close)
        cluster = redis.connect(settings.redis, settings.redis_password)
        closing.push_async_callback(cluster.aclose)
        rows, owners = CassandraRows(session), Owners(kafka.commands, kafka.log.joined, permit, clock.check)
        yield _Engines(session, rows, kafka, owners, CassandraEdges(rows, owners, wall_ms), cluster, clock)


async def _poll_graphs(graphs: dict[str, int], engines: _Engines) -> None:
    """Keep adding the graphs that other machines declare."""
    metadata = Metadata(engines.session)
    while True:
        await asyncio.sleep(_GRAPH_POLL_S)
        with contextlib.suppress(StoreUnavailable):
            graphs |= await metadata.graphs()


async def _stores(settings: Settings, engines: _Engines, metrics: Metrics, declared: Mapping[str, int]) -> OpenStores:
    session, edges = engines.session, observed(engines.edges, "edges", metrics)
    log, records = engines.kafka.log, CassandraRecords(engines.rows, engines.owners, engines.edges)
    graphs = Graphs(declared, lambda: declared)
    return OpenStores(
        store=edges,
        checked=edges,
        records=observed(records, "records", metrics),
        log=observed(log, "log", metrics),
        graph=Graph(edges, graphs, HybridClock(), walk_max=settings.walk_max),
        suggestions=observed(CassandraSuggestions(session), "suggestions", metrics),
        fanout_state=observed(CassandraFanoutState(session, log, fanout.NAME), "fanout", metrics),
        inboxes=observed(CassandraInboxes(session), "inboxes", metrics),
        activity=observed(RedisActivity(engines.redis, prefix=settings.cassandra_keyspace), "activity", metrics),
        leases=Leases(CassandraLeases(session)),
        credentials=CassandraCredentials(session),
        contents=CassandraContents(session),
        metrics=metrics,
        folder=None,
        write_decisions=_deciding(engines, graphs.user_ends),
        refusal=lambda: engines.clock.wrong,
        check_clock=engines.clock.check,
    )


def _deciding(engines: _Engines, user_ends: UserEnds) -> WriteDecisions:
    owner = CassandraOwner(engines.rows, engines.owners.partitions, user_ends)

    @contextlib.asynccontextmanager
    async def own() -> AsyncIterator[Callable[[], bool]]:
        runner = await engines.kafka.start_owner(owner)
        try:
            yield lambda: runner.is_ready
        finally:
            await runner.close()

    waiting = engines.kafka.commands.waiting
    divide_long = Divider(engines.rows, engines.owners).divide_long
    return WriteDecisions(own, waiting, engines.edges.end_expired, divide_long, _closing(engines))


def _closing(engines: _Engines) -> CassandraClosing:
    return CassandraClosing(engines.rows, engines.owners)
