"""Kith on distributed engines over HTTP: API, owners, workers and one node of each engine, all on the same cores.

The engines are those that KITH_TEST_CASSANDRA, KITH_TEST_KAFKA and KITH_TEST_REDIS name (`make cluster-up`); without
them there is no figure. Each measure has a keyspace and topics of its own, and starts its own `kith serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bench.figures import KEY, SECONDS, Figure, free_port, serving, wait_for
from bench.lists import put_edges
from bench.load import request, run
from bench.routes import API, client, expected
from bench.town import put_posts, spread
from kith.core.clock import wall_ms
from kith.engines.cassandra.connecting import connect
from kith.engines.cassandra.parts import ListParts, parts_row, parts_values
from kith.engines.cassandra.rows import CassandraRows, RowChange, cell_row, listed
from kith.engines.redis.connecting import connect as connect_redis
from kith.engines.redis.timeline_store import RedisTimelines
from kith.graph.edge import POSITION_MIN, Direction
from kith.graph.graphs import FOLLOWS, MUTES
from kith.graph.shapes import Listing
from kith.posts.post import Draft
from kith.run.config import Settings
from kith.run.services import Services, open_services

PARTITIONS = 4
"""Partitions of the logs. Each partition has batches of its own, so fewer partitions mean larger batches."""
_ENGINES = ("CASSANDRA", "KAFKA", "REDIS")
HANDED_DOWN = (
    "engine", "cassandra", "cassandra_datacentre", "kafka", "redis", "cassandra_keyspace", "cluster_copies",
    "cluster_partitions", "request_timeout_ms", "checks_snapshots",
)  # fmt: skip
"""Settings of the server that are not on its command line."""
_STARTED_S, _CAUGHT_UP_S = 120.0, 300.0
_CONNECTIONS, WRITE_CONNECTIONS = 16, 64
_TARGETS = {"follow": 1_000, "filter": 25_000, "cache": 8_000, "store": 5_000, "home": 150}
_SAYS = f"one node of each engine and {PARTITIONS} partitions on the cores of the client"


@contextlib.contextmanager
def cluster(
    folder: Path, name: str, cassandra: str = "", datacentre: str = "", workers: int = 1
) -> Iterator[Settings | None]:
    """Run a server on the engines; yields its settings once it is ready, or None if no engines are named.

    `cassandra`: nodes to use instead of the named ones.
    """
    with named(folder, name, cassandra, datacentre, workers) as settings:
        if settings is None:
            yield None
            return
        with ready(settings):
            yield settings


@contextlib.contextmanager
def named(
    folder: Path, name: str, cassandra: str = "", datacentre: str = "", workers: int = 1
) -> Iterator[Settings | None]:
    """Settings for the engines, with a keyspace that is dropped afterwards; None if no engines are named."""
    there, kafka, redis = (os.environ.get(f"KITH_TEST_{engine}", "") for engine in _ENGINES)
    cassandra = cassandra or there
    if not (cassandra and kafka and redis):
        yield None
        return
    settings = Settings(
        data=str(folder / name), port=free_port(), api_keys=(KEY,), workers=workers, engine="cluster", cluster_copies=1,
        cassandra=cassandra, kafka=kafka, redis=redis, cassandra_keyspace=f"kith_bench_{secrets.token_hex(6)}",
        cassandra_datacentre=datacentre, cluster_partitions=PARTITIONS, request_timeout_ms=20_000,
        checks_snapshots=str(folder / f"{name}-snapshots"),
    )  # fmt: skip
    try:
        yield settings
    finally:
        asyncio.run(_drop(settings))


@contextlib.contextmanager
def ready(settings: Settings, command: str = "serve") -> Iterator[None]:
    """Run a server with these settings; yields once it is ready."""
    environment = {f"KITH_{setting.upper()}": str(getattr(settings, setting)) for setting in HANDED_DOWN}
    with patch.dict(os.environ, environment), serving(settings, command):
        wait_for(f"http://127.0.0.1:{settings.port}/readyz", _STARTED_S)
        yield


async def _drop(settings: Settings) -> None:
    session = await connect(settings.cassandra, settings.cassandra_keyspace, replicas=1)
    await session.define(f"DROP KEYSPACE {settings.cassandra_keyspace}")
    await session.close()


def fill(settings: Settings, graph: str, rows: Sequence[tuple[int, int]]) -> None:
    """Write edges into the store of a server."""
    _filled(settings, lambda services: put_edges(services, graph, rows))


def _filled(settings: Settings, fill: Callable[[Services], Awaitable[None]]) -> None:
    async def filled() -> None:
        async with open_services(settings) as services:
            await fill(services)

    asyncio.run(filled())


# --- follows ---------------------------------------------------------------------------------------------

_USERS, _FOLLOWS, _LISTED = 1 << 40, 60_000, 100


def follow(folder: Path) -> list[Figure]:
    """Durable follows: the rate over 64 connections, latencies at half of the target rate, and the time until the
    destination's list shows a follow.
    """
    with cluster(folder, "cluster-follow") as settings:
        if settings is None:
            return []
        loaded = functools.partial(run, settings.port, connections=WRITE_CONNECTIONS, seconds=SECONDS, once=True)
        full = loaded(functools.partial(follows, 1), warm_s=SECONDS / 2)
        half = loaded(functools.partial(follows, 2), arrivals=_TARGETS["follow"] / 2)
        listed_ms = np.percentile([_shown_ms(settings, number) for number in range(_LISTED)], 99)
    arriving = f"{_TARGETS['follow'] // 2} arrive a second; {_SAYS}"
    return [
        Figure("cluster-follow", full.rate, "follows/s", f">= {_TARGETS['follow']:,}", data=f"64 connections; {_SAYS}"),
        Figure("cluster-follow-p50", half.p50_ms, "ms", "< 30", data=arriving),
        Figure("cluster-follow-p99", half.p99_ms, "ms", "< 150", data=arriving),
        Figure("cluster-follow-listed-p99", float(listed_ms), "ms", "< 500", data=f"{_LISTED} in a row; {_SAYS}"),
    ]


def follows(seed: int) -> list[bytes]:
    """Follows among so many users that few repeat."""
    chosen = random.Random(seed)
    pairs = ((chosen.randrange(1, _USERS), chosen.randrange(1, _USERS)) for _ in range(_FOLLOWS))
    return [request("POST", f"{API}/users/{whom}/follow", KEY, user=who) for who, whom in pairs]


def _shown_ms(settings: Settings, number: int) -> float:
    """Milliseconds from a follow until the destination's list shows it."""
    who, whom, started = 2 * _USERS + number, 3 * _USERS + number, time.perf_counter()
    with client(settings, who) as http:
        http.post(f"/users/{whom}/follow").raise_for_status()
        while not http.get(f"/graph/follows/{whom}/in").raise_for_status().json()["items"]:
            pass
    return (time.perf_counter() - started) * 1_000


# --- checks ----------------------------------------------------------------------------------------------

_EDGES, _SOURCES, _CHECKS = 4_000, 400, 20_000
_WARM_S = 2.0


def check(folder: Path) -> list[Figure]:
    """Checks: the highest rate of each layer, and of a mix 65/25/10; and the mix's latency at half of its rate."""
    with cluster(folder, "cluster-check") as settings:
        if settings is None:
            return []
        for graph in (FOLLOWS, MUTES):
            fill(settings, graph, edges())
        with client(settings) as http:
            for who, whom in edges()[:_LISTED]:
                expected(http.get(f"/graph/follows/{who}/{whom}").json(), {"exists": True}, "a check")
        wait_until(settings, "kith_filter_edges", lambda found: found >= _EDGES)
        wait_until(settings, "kith_notifications_lag_events", lambda events: events == 0)  # all writes are done
        loaded = functools.partial(run, settings.port, connections=_CONNECTIONS, seconds=SECONDS, warm_s=_WARM_S)
        figures = []
        for layer in ("filter", "cache", "store"):
            before = _answered(settings)
            full = loaded(functools.partial(checks, [layer]))
            after = _answered(settings)
            share = (after[layer] - before[layer]) / max(1, sum(after.values()) - sum(before.values()))
            says = f"{share:.1%} answered by it; 16 connections; {_SAYS}"
            figures.append(
                Figure(f"cluster-check-{layer}", full.rate, "checks/s", f">= {_TARGETS[layer]:,}", data=says)
            )
        mix = functools.partial(checks, [*["filter"] * 13, *["cache"] * 5, *["store"] * 2])
        arrivals = loaded(mix).rate / 2
        mixed = loaded(mix, arrivals=arrivals)
    says = f"65/25/10 by filter, cache and store; {arrivals:,.0f} arrive a second; {_SAYS}"
    return [*figures, Figure("cluster-check-p99", mixed.p99_ms, "ms", "< 5", data=says)]


def edges() -> list[tuple[int, int]]:
    """The same number of edges for each source."""
    chosen = random.Random(3)
    sources = [chosen.randrange(1, _USERS) for _ in range(_SOURCES)]
    return [(sources[at % _SOURCES], chosen.randrange(1, _USERS)) for at in range(_EDGES)]


def checks(layers: Sequence[str]) -> list[bytes]:
    """Requests for missing follows, existing follows, and mutes, which only the store has."""
    chosen, there = random.Random(4), edges()
    asked = []
    for number in range(_CHECKS):
        layer, (who, whom) = layers[number % len(layers)], chosen.choice(there)
        graph = "mutes" if layer == "store" else "follows"
        asked.append(request("GET", f"{API}/graph/{graph}/{who}/{whom + (layer == 'filter')}", KEY))
    return asked


def _answered(settings: Settings) -> dict[str, float]:
    """How many checks each layer has answered so far."""
    counted = dict.fromkeys(("filter", "cache", "store"), 0.0)
    time.sleep(1)  # a process publishes its counts every half second
    with client(settings) as http:
        for line in http.get(f"http://127.0.0.1:{settings.port}/metrics").text.splitlines():
            if line.startswith("kith_checks_total{"):
                labels, value = line.removeprefix("kith_checks_total").split()
                counted[labels.partition('layer="')[2].partition('"')[0]] += float(value)
    return counted


# --- pages of a long list --------------------------------------------------------------------------------

_FOLLOWERS = int(os.environ.get("KITH_BENCH_FOLLOWERS", "1000000"))
_PART, _WRITTEN_AT_ONCE, _CELEBRITY, _PAGE_RATE = 100_000, 5_000, 7, 100


def page(folder: Path) -> list[Figure]:
    """Pages of 20 at random depths of a list of KITH_BENCH_FOLLOWERS followers, divided into parts as usual."""
    with cluster(folder, "cluster-page") as settings:
        if settings is None:
            return []
        _filled(settings, lambda services: _put_followers(settings, services.stores.graph.graphs.number(FOLLOWS)))
        cursors = list(_cursors(settings))
        load = run(
            settings.port, functools.partial(_pages, cursors), connections=_CONNECTIONS, seconds=SECONDS,
            arrivals=_PAGE_RATE, least_bytes=_PAGE_BYTES_MIN,
        )  # fmt: skip
    says = f"{_FOLLOWERS:,} followers, {len(cursors):,} depths; {_PAGE_RATE} arrive a second; {_SAYS}"
    return [
        Figure("cluster-page", load.p50_ms, "ms p50", "", data=says),
        Figure("cluster-page-p99", load.p99_ms, "ms", "< 15", data=says),
    ]


_PAGE_BYTES_MIN = 500


async def _put_followers(settings: Settings, graph: int) -> None:
    """Write the entries of the list, in parts, and its length. Nothing else writes the list meanwhile."""
    listing = Listing(graph, _CELEBRITY, Direction.IN)
    begins = (POSITION_MIN, *range(_PART, _FOLLOWERS, _PART))
    session = await connect(settings.cassandra, settings.cassandra_keyspace, replicas=1)
    rows, parts = CassandraRows(session), ListParts(begins)
    for at in range(0, _FOLLOWERS, _WRITTEN_AT_ONCE):
        places = range(at, min(at + _WRITTEN_AT_ONCE, _FOLLOWERS))
        keys = [(*listed(listing), parts.of(place), place, 1_000 + place) for place in places]
        await rows.write([RowChange("list_entries", key, (0,), 1) for key in keys])
    await rows.write([
        RowChange(*parts_row(listing), parts_values(parts), 1), RowChange(*cell_row(listing, 0), (_FOLLOWERS, 0), 1)
    ])  # fmt: skip
    await session.close()


def _cursors(settings: Settings) -> Iterator[str]:
    """Cursors all over the list."""
    cursor, listed_ = "", 0
    with client(settings) as http:
        while cursor is not None:
            path = f"/users/{_CELEBRITY}/followers?limit=1000" + (f"&cursor={cursor}" if cursor else "")
            answer = http.get(path).raise_for_status().json()
            listed_, cursor = listed_ + len(answer["items"]), answer["pagination"]["nextCursor"]
            if cursor is not None:
                yield cursor
    expected(listed_, _FOLLOWERS, "the list")


def _pages(cursors: Sequence[str]) -> list[bytes]:
    chosen = random.Random(5)
    paths = [f"{API}/users/{_CELEBRITY}/followers?cursor={chosen.choice(cursors)}" for _ in range(4_000)]
    return [request("GET", path, KEY, user=1) for path in paths]


# --- home ------------------------------------------------------------------------------------------------

_AUTHORS, _FOLLOWED, _POSTS, _FRESH = range(1_000, 1_300), 60, 2_000, 10_000
_READERS, _HOME_BYTES_MIN, _FRESH_RATE, _BURSTS_MAX = 300, 1_000, 20, 5


def home(folder: Path) -> list[Figure]:
    """Ranked first pages of readers who follow 60 others: with a timeline, and without."""
    with cluster(folder, "cluster-home") as settings:
        if settings is None:
            return []
        rate, half = _TARGETS["home"] / 2, _READERS // 2
        readers, fresh = range(1, _READERS + 1), range(_FRESH, _FRESH + int(_FRESH_RATE * SECONDS) + 1)
        _filled(settings, lambda services: _put_readers(services, [*readers, *fresh]))
        loaded = functools.partial(run, settings.port, connections=_CONNECTIONS, warm_s=0, once=True)
        there = 0.0
        wait_until(settings, "kith_fanout_lag_events", lambda events: events == 0)
        for _ in range(_BURSTS_MAX):  # a read requests a timeline, unless fan-out is behind
            if there >= len(readers):
                break
            loaded(functools.partial(_homes, readers, "latest"), seconds=60)
            wait_until(settings, "kith_fanout_lag_events", lambda events: events == 0)
            there = gauges(settings)["kith_timelines"]
        expected(there >= len(readers), True, "timelines of all readers")
        pages = functools.partial(loaded, least_bytes=_HOME_BYTES_MIN)
        full = pages(functools.partial(_homes, readers[:half], "ranked"), seconds=SECONDS)
        calm_s = min(SECONDS, half / rate)
        calm = pages(functools.partial(_homes, readers[half:], "ranked"), seconds=calm_s, arrivals=rate)
        new = pages(functools.partial(_homes, fresh, "ranked"), seconds=SECONDS, arrivals=_FRESH_RATE)
    says = f"{_FOLLOWED} follows each, {_POSTS:,} posts; {_SAYS}"
    return [
        Figure("cluster-home", full.rate, "pages/s", f">= {_TARGETS['home']}", data=f"{says}; 16 connections"),
        Figure("cluster-home-p99", calm.p99_ms, "ms", "< 80", data=f"{says}; {rate:g} arrive a second"),
        Figure("cluster-home-fresh-p99", new.p99_ms, "ms", "< 150", data=f"{says}; {_FRESH_RATE} arrive a second"),
    ]


async def _put_readers(services: Services, readers: Sequence[int]) -> None:
    """Write posts of the authors, and follows of the readers."""
    chosen = random.Random(6)
    posts = spread(chosen, chosen.choices(_AUTHORS, k=_POSTS))
    await put_posts(services, posts, lambda post: Draft(text=f"the river was quiet this morning: {post}"))
    rows = [(reader, author) for reader in readers for author in chosen.sample(_AUTHORS, _FOLLOWED)]
    await put_edges(services, FOLLOWS, rows)


def _homes(readers: Sequence[int], kind: str) -> list[bytes]:
    return [request("GET", f"{API}/feed?type={kind}", KEY, user=reader) for reader in readers]


def wait_until(settings: Settings, gauge: str, is_so: Callable[[float], bool]) -> None:
    """Wait until a gauge of the server meets a condition. RuntimeError if it does not in time."""
    deadline = time.monotonic() + _CAUGHT_UP_S
    while time.monotonic() < deadline:
        now = gauges(settings)
        if gauge in now and is_so(now[gauge]):
            return
        time.sleep(0.2)
    raise RuntimeError(f"{gauge} is not as it must be")


def gauges(settings: Settings) -> dict[str, float]:
    """Metrics of the server without labels, by name."""
    with client(settings) as http:
        lines = http.get(f"http://127.0.0.1:{settings.port}/metrics").text.splitlines()
    pairs = (line.split() for line in lines if line and line[0] != "#" and "{" not in line)
    return {name: float(value) for name, value in pairs}


# --- timelines -------------------------------------------------------------------------------------------

_TIMELINES, _GIVEN_AT_ONCE, _IDS = 20_000, 200, 100


def fanout(folder: Path) -> list[Figure]:
    """Posts to 20,000 users who have a timeline in Redis Cluster, from one process."""
    nodes = os.environ.get("KITH_TEST_REDIS")
    return asyncio.run(_pushed(nodes)) if nodes else []


async def _pushed(nodes: str) -> list[Figure]:
    async with _timelines(nodes) as store:
        users = np.arange(1, _TIMELINES + 1)
        ids = np.arange(_IDS, 0, -1)

        async def give(user: int) -> None:
            await store.put(user, ids, await store.begin(user))

        for at in range(0, _TIMELINES, _GIVEN_AT_ONCE):
            await asyncio.gather(*map(give, users[at : at + _GIVEN_AT_ONCE].tolist()))
        deliveries, post, started = 0, _IDS, time.perf_counter()
        while (took_s := time.perf_counter() - started) < SECONDS:
            post += 1
            deliveries += await store.push(post, users)
    says = f"{_TIMELINES:,} timelines, {post - _IDS:,} posts to all; six processes of Redis on the cores of the client"
    return [Figure("cluster-fanout", deliveries / took_s, "deliveries/s", ">= 200,000", data=says)]


@contextlib.asynccontextmanager
async def _timelines(nodes: str) -> AsyncIterator[RedisTimelines]:
    connected = connect_redis(nodes)
    store = RedisTimelines(connected, slots=2 * _TIMELINES, now_ms=wall_ms, prefix=f"bench-{secrets.token_hex(6)}")
    try:
        yield store
        await store.clear()
    finally:
        await connected.aclose()
