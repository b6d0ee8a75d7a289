"""Inboxes on Cassandra: one node, started for the measure (`cluster/cassandra.sh`), on the same cores as the client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.figures import SECONDS, Figure, free_port
from kith.core.clock import wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.engines.cassandra.connecting import connect
from kith.engines.cassandra.schema import create
from kith.engines.cassandra.small_stores import SMALL_TABLES, CassandraInboxes
from kith.notifications.inbox import InboxRow

_SCRIPT = Path(__file__).parents[1] / "cluster" / "cassandra.sh"
_CHUNK, _BITS = 100_000, 62
_AT_ONCE, _ROWS_A_PAGE, _PAGES = 64, 20, 300
_WARM_S = 10.0


@contextlib.contextmanager
def cassandra(datacentres: int = 1) -> Iterator[int | None]:
    """Run a node in each datacentre meanwhile; their port, or None if they do not start."""
    port = free_port()
    environment = {
        **os.environ, "KITH_CASSANDRA_PORT": str(port), "KITH_CASSANDRA_DATACENTRES": str(datacentres),
    }  # fmt: skip
    try:
        started = subprocess.run([_SCRIPT, "up", str(datacentres)], env=environment, check=False, stdout=sys.stderr)
        yield None if started.returncode else port
    finally:
        subprocess.run([_SCRIPT, "down"], env=environment, check=False, stdout=sys.stderr)


def inbox(folder: Path) -> list[Figure]:
    """Rows of a mention, in chunks of 100,000 users; rows that are written one by one; and pages."""
    with cassandra() as port:
        return [] if port is None else asyncio.run(_inbox(port))


async def _inbox(port: int) -> list[Figure]:
    session = await connect(f"127.0.0.1:{port}", "kith_bench", replicas=1)
    await create(session, "kith_bench", SMALL_TABLES)
    store = CassandraInboxes(session)
    await _single_rows(store, _WARM_S / 2)
    await _chunks(store, _WARM_S / 2)
    rate, users = await _chunks(store, SECONDS)
    single = await _single_rows(store, SECONDS)
    took_ms = []
    for user in users[:: len(users) // _PAGES][:_PAGES]:
        started = time.perf_counter()
        await store.page(user, limit=_ROWS_A_PAGE)
        took_ms.append((time.perf_counter() - started) * 1_000)
    await session.close()
    says = f"ids of {_BITS} random bits; node and client on the same cores"
    page = f"{len(took_ms)} one after the other, {says}"
    return [
        Figure("cluster-inbox", rate, "rows/s", ">= 10,000", data=f"chunks of {_CHUNK:,} users, {says}"),
        Figure("cluster-inbox-single", single, "rows/s", "", data=f"a row a call, {_AT_ONCE} at once, {says}"),
        Figure("cluster-inbox-page", float(np.percentile(took_ms, 50)), "ms, p50", "", data=page),
        Figure("cluster-inbox-page-p99", float(np.percentile(took_ms, 99)), "ms, p99", "", data=page),
    ]


async def _chunks(store: CassandraInboxes, within_s: float) -> tuple[float, list[int]]:
    """Rows a second, and the users of the last chunk."""
    chance, rows, users = np.random.default_rng(13), 0, np.empty(0, np.int64)
    started = time.perf_counter()
    while time.perf_counter() - started < within_s:
        users = np.unique(chance.integers(1, 1 << _BITS, _CHUNK))
        rows += await store.add_for_all(_notice(rows), users)
    return rows / (time.perf_counter() - started), users.tolist()


async def _single_rows(store: CassandraInboxes, within_s: float) -> float:
    started = time.perf_counter()

    async def tell() -> int:
        rows = 0
        while time.perf_counter() - started < within_s:
            rows += sum(await store.add([InboxRow(random.getrandbits(_BITS), _notice(rows))]))
        return rows

    rows = sum(await asyncio.gather(*(tell() for _ in range(_AT_ONCE))))
    return rows / (time.perf_counter() - started)


def _notice(number: int) -> int:
    return (wall_ms() - EPOCH_MS) << TIME_SHIFT | number & ((1 << TIME_SHIFT) - 1)
