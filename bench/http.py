"""Rates of the API over HTTP: one API process, with the load from another process on the second core."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from bench import peers, postgresql
from bench.figures import KEY, SECONDS, Figure, copied, generated, imported, pairs_of, real_graph, server, with_peer
from bench.load import request, run

_API = "/api/v1"
_USERS, _FOLLOWS, _ASKED_FOLLOWS = 330_000, 3_300_000, 250_000
_BODIES = 2_000


def _checks(pairs: list[tuple[int, int]]) -> list[bytes]:
    return [request("GET", f"{_API}/graph/follows/{s}/{d}", KEY) for s, d in pairs]


def _batches(pairs: list[tuple[int, int]]) -> list[bytes]:
    bodies = []
    for at in range(0, len(pairs) - 999, 1000):
        rows = ",".join(f'["{s}","{d}"]' for s, d in pairs[at : at + 1000])
        bodies.append(request("POST", f"{_API}/graph/follows/check", KEY, f'{{"pairs":[{rows}]}}'.encode()))
    return bodies


def _follows() -> list[bytes]:
    pairs = np.random.default_rng(11).integers(1, _USERS + 1, (_ASKED_FOLLOWS, 2)).tolist()
    return [request("POST", f"{_API}/users/{to}/follow", KEY, user=who) for who, to in pairs if who != to]


def _edges() -> list[bytes]:
    chosen = np.random.default_rng(12)

    def body() -> bytes:
        sources, destinations = chosen.integers(82_168, 10**6, 1000), chosen.integers(0, 82_168, 1000)
        rows = ",".join(
            f'{{"op":"add","source":"{source}","destination":"{destination}"}}'
            for source, destination in zip(sources.tolist(), destinations.tolist(), strict=True)
        )
        return f'{{"edges":[{rows}]}}'.encode()

    return [request("POST", f"{_API}/graph/follows/edges", KEY, body()) for _ in range(_BODIES)]


def check_http(folder: Path) -> list[Figure]:
    """Single checks, 16 connections; beside them the same checks on Redis, PostgreSQL and SQLite."""
    data = real_graph(folder)
    pairs = pairs_of(data, 40_000)
    with server(imported(folder, data)) as settings:
        load = run(settings.port, functools.partial(_checks, pairs), connections=16, seconds=SECONDS)
    redis = peers.redis_checks(folder, data, pairs)
    rate = Figure("check-http", load.rate, "checks/s", ">= 30,000", data=data.says)
    figures = [with_peer(rate, "Redis SISMEMBER, redis-py asyncio, 16 connections", redis.client)]
    if redis.benchmark is not None:
        figures.append(with_peer(rate, "Redis SISMEMBER, redis-benchmark in C, 16 connections", redis.benchmark))
    figures.append(with_peer(rate, "PostgreSQL, asyncpg, prepared, 16 connections", postgresql.checks(data, pairs)))
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
        batches = functools.partial(_batches, pairs_of(data, 200_000))
        load = run(settings.port, batches, connections=4, seconds=SECONDS)
    return [Figure("check-batch", load.rate * 1000, "pairs/s", ">= 400,000", data=data.says)]


def follow_http(folder: Path) -> list[Figure]:
    """Durable follows, one per request, 64 connections; beside them PostgreSQL's inserts, 64 connections.

    Both users of a follow are drawn from all users, so the pages that are written are all over the file.
    """
    data = generated(folder, _USERS, _FOLLOWS)
    with server(copied(imported(folder, data), "follow-http")) as settings:
        load = run(settings.port, _follows, connections=64, seconds=SECONDS, once=True)
    figure = Figure("follow-http", load.rate, "follows/s", ">= 10,000, >= 1.2 times PostgreSQL", data=data.says)
    says = "PostgreSQL, the same in one statement (blocks, limit, counts, event), asyncpg, 64 connections"
    return [
        with_peer(figure, says, postgresql.follows(data, _USERS)),
        Figure("follow-http-p99", load.p99_ms, "ms", "< 25", data=data.says),
    ]


def edges_http(folder: Path) -> list[Figure]:
    """Bulk edges, 1,000 per request, no request twice, 4 connections."""
    data = real_graph(folder)
    with server(copied(imported(folder, data), "edges-http")) as settings:
        load = run(settings.port, _edges, connections=4, seconds=SECONDS, once=True)
    figure = Figure("edges-http", load.rate * 1000, "edges/s", ">= 50,000, >= PostgreSQL", data=data.says)
    says = "PostgreSQL, the same in one statement (counts, events), asyncpg, 4 connections"
    return [with_peer(figure, says, postgresql.bulk_edges(data))]
