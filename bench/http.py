"""What the API does over HTTP: one API process, the load from another process on the second core."""

from __future__ import annotations

import functools
import random
from pathlib import Path

from bench import peers
from bench.figures import KEY, Figure, imported, pairs_of, real_graph, server, with_peer
from bench.load import Load, request, run

SECONDS = 6.0
_API = "/api/v1"


def _checks(pairs: list[tuple[int, int]]) -> list[bytes]:
    return [request("GET", f"{_API}/graph/follows/{s}/{d}", KEY) for s, d in pairs]


def _batches(pairs: list[tuple[int, int]]) -> list[bytes]:
    bodies = []
    for at in range(0, len(pairs) - 999, 1000):
        rows = ",".join(f'["{s}","{d}"]' for s, d in pairs[at : at + 1000])
        bodies.append(request("POST", f"{_API}/graph/follows/check", KEY, f'{{"pairs":[{rows}]}}'.encode()))
    return bodies


def _follows(count: int) -> list[bytes]:
    chosen = random.Random(11)
    return [
        request("POST", f"{_API}/users/{chosen.randrange(82_168)}/follow", KEY, user=chosen.randrange(82_168, 10**6))
        for _ in range(count)
    ]


def _edges(count: int) -> list[bytes]:
    chosen = random.Random(12)

    def body() -> bytes:
        rows = ",".join(
            f'{{"op":"add","source":"{chosen.randrange(82_168, 10**6)}","destination":"{chosen.randrange(82_168)}"}}'
            for _ in range(1000)
        )
        return f'{{"edges":[{rows}]}}'.encode()

    return [request("POST", f"{_API}/graph/follows/edges", KEY, body()) for _ in range(count)]


def check_http(folder: Path) -> list[Figure]:
    """Single checks, 16 connections; beside them the same checks on Redis, PostgreSQL and SQLite."""
    data = real_graph(folder)
    pairs = pairs_of(data, 40_000)
    with server(imported(folder, data)) as settings:
        load = _run(settings.port, functools.partial(_checks, pairs), 16)
    redis = peers.redis_checks(folder, data, pairs)
    rate = Figure("check-http", load.rate, "checks/s", ">= 30,000", data=data.says)
    figures = [with_peer(rate, "Redis SISMEMBER, redis-py asyncio, 16 connections", redis.client)]
    if redis.benchmark is not None:
        figures.append(with_peer(rate, "Redis SISMEMBER, redis-benchmark in C, 16 connections", redis.benchmark))
    figures.append(with_peer(rate, "PostgreSQL, asyncpg, prepared, 16 connections", peers.postgres_checks(data, pairs)))
    figures.append(with_peer(rate, "SQLite, in process", peers.sqlite_checks(folder, data, pairs)))
    figures = [figure for figure in figures if figure.peer] or [rate]
    return [
        *figures,
        Figure("check-http-p50", load.p50_ms, "ms", "< 0.5", data=data.says),
        Figure("check-http-p99", load.p99_ms, "ms", "< 1", data=data.says),
    ]


def check_batch(folder: Path) -> list[Figure]:
    """Batches of 1,000 pairs, 4 connections."""
    data = real_graph(folder)
    with server(imported(folder, data)) as settings:
        load = _run(settings.port, functools.partial(_batches, pairs_of(data, 200_000)), 4)
    return [Figure("check-batch", load.rate * 1000, "pairs/s", ">= 400,000", data=data.says)]


def follow_http(folder: Path) -> list[Figure]:
    """Durable follows, one a request, 64 connections; beside them PostgreSQL's inserts, 64 connections."""
    data = real_graph(folder)
    with server(imported(folder, data)) as settings:
        load = _run(settings.port, functools.partial(_follows, 120_000), 64)
    figure = Figure("follow-http", load.rate, "follows/s", ">= 10,000", data=data.says)
    says = "PostgreSQL, the same in one statement (blocks, limit, counts, event), asyncpg, 64 connections"
    return [
        with_peer(figure, says, peers.postgres_follows(data)),
        Figure("follow-http-p99", load.p99_ms, "ms", "", data=data.says),
    ]


def edges_http(folder: Path) -> list[Figure]:
    """Bulk edges, 1,000 a request, 4 connections."""
    data = real_graph(folder)
    with server(imported(folder, data)) as settings:
        load = _run(settings.port, functools.partial(_edges, 600), 4)
    figure = Figure("edges-http", load.rate * 1000, "edges/s", ">= 50,000", data=data.says)
    says = "PostgreSQL, the same in one statement (counts, events), asyncpg, 4 connections"
    return [with_peer(figure, says, peers.postgres_edges(data))]


def _run(port: int, make: functools.partial[list[bytes]], connections: int) -> Load:
    load = run(port, make, connections=connections, seconds=SECONDS)
    if load.errors:
        raise RuntimeError(f"{load.errors} of {load.requests} answers were errors")
    return load
