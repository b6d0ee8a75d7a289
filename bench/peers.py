"""Peers: what a user would use instead of Kith, measured in the same run on the same pairs.

Redis: a set of destinations per source (SISMEMBER), the usual choice. SQLite: a table with a primary key both ways, in
process. PostgreSQL is in `postgresql`. A peer that is not installed returns None, and has no line in the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.figures import SECONDS, Data, free_port
from kith.commands.transfer.formats import read

_PAGE_CONNECTIONS = 16
_CONNECTIONS = 16
_WARM_S = 1.0


class RedisChecks(NamedTuple):
    """Checks a second: through the client a Python app uses, and by redis-benchmark in C."""

    client: float | None
    benchmark: float | None


def edges_of(data: Data) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sources and destinations of a data set, a row each."""
    return np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[int | None]:
    binary = shutil.which("redis-server")
    if binary is None:
        yield None
        return
    port = free_port()
    command = [binary, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen([*command, "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield port
    finally:
        process.terminate()
        process.wait()


def _fill_redis(port: int, data: Data, *, backward: bool = False) -> None:
    import redis

    client = redis.Redis(port=port)
    edges = edges_of(data)
    node, other = (1, 0) if backward else (0, 1)
    edges = edges[np.argsort(edges[:, node], kind="stable")]
    borders = np.flatnonzero(np.diff(edges[:, node])) + 1
    pipe = client.pipeline(transaction=False)
    for index, part in enumerate(np.split(edges, borders)):
        for at in range(0, len(part), 10_000):
            pipe.sadd(f"f:{part[0, node]}", *part[at : at + 10_000, other].tolist())
        if index % 1000 == 0:
            pipe.execute()
    pipe.execute()


def redis_checks(folder: Path, data: Data, pairs: list[tuple[int, int]]) -> RedisChecks:
    """The checks on Redis sets."""
    with redis_server(folder) as port:
        if port is None:
            return RedisChecks(None, None)
        _fill_redis(port, data)
        return RedisChecks(asyncio.run(_redis_client(port, pairs)), _redis_benchmark(port, pairs[0]))


async def asked_rate(asks: Sequence[Callable[[], Awaitable[object]]]) -> float:
    """Calls a second of these functions, each called in a loop beside the others, over open connections. As in
    `load.run`, a warm-up is not counted.
    """

    async def calls(seconds: float) -> float:
        started, done = time.perf_counter(), 0

        async def again(ask: Callable[[], Awaitable[object]]) -> None:
            nonlocal done
            while time.perf_counter() - started < seconds:
                await ask()
                done += 1

        await asyncio.gather(*map(again, asks))
        return done / (time.perf_counter() - started)

    await calls(_WARM_S)
    return await calls(SECONDS)


async def _redis_rate(port: int, connections: int, ask: Callable[[Any, int], Awaitable[object]]) -> float:
    """Calls of `ask(client, number)` a second; no two clients use the same numbers."""
    from redis import asyncio as redis

    clients = [redis.Redis(port=port, single_connection_client=True) for _ in range(connections)]
    numbers = itertools.count()

    def asking(client: Any) -> Callable[[], Awaitable[object]]:
        return lambda: ask(client, next(numbers))

    try:
        return await asked_rate([asking(client) for client in clients])
    finally:
        for client in clients:
            await client.aclose()


async def _redis_client(port: int, pairs: list[tuple[int, int]]) -> float:
    def ask(client: Any, number: int) -> Awaitable[object]:
        source, destination = pairs[number % len(pairs)]
        return client.sismember(f"f:{source}", str(destination))  # type: ignore[no-any-return]

    return await _redis_rate(port, _CONNECTIONS, ask)


def _redis_benchmark(port: int, pair: tuple[int, int]) -> float | None:
    binary = shutil.which("redis-benchmark")
    if binary is None:
        return None
    command = [binary, "-p", str(port), "-c", str(_CONNECTIONS), "-n", "300000", "--csv", "-q"]
    answer = subprocess.run(
        [*command, "sismember", f"f:{pair[0]}", str(pair[1])], check=True, capture_output=True, text=True
    )
    return float(answer.stdout.strip().splitlines()[-1].split('","')[1].strip('"'))


def redis_pages(folder: Path, posts: Sequence[tuple[int, int]], homes: Mapping[int, Sequence[int]]) -> float | None:
    """Pages of 20 a second from a sorted set per reader and a hash per post, as in hand-rolled feeds: no rules, no
    ranking, no HTTP. `posts`: (id, author); `homes`: ids for each reader.
    """
    import redis

    with redis_server(folder) as port:
        if port is None:
            return None
        client = redis.Redis(port=port)
        for chunk in (posts[at : at + 1_000] for at in range(0, len(posts), 1_000)):
            pipe = client.pipeline(transaction=False)
            for id_, author in chunk:
                counts: dict[Any, Any] = dict.fromkeys(("likes", "comments", "shares", "views"), 3)
                pipe.hset(f"post:{id_}", mapping={"author": author, "text": "a post " * 6, **counts})
            pipe.execute()
        for reader, ids in homes.items():
            client.zadd(f"feed:{reader}", {str(id_): id_ >> 22 for id_ in ids})
        return asyncio.run(_redis_pages(port, list(homes)))


async def _redis_pages(port: int, readers: Sequence[int]) -> float:
    async def ask(client: Any, number: int) -> None:
        ids: Any = await client.zrevrange(f"feed:{readers[number % len(readers)]}", 0, 19)
        pipe = client.pipeline(transaction=False)
        for id_ in ids:
            pipe.hgetall(b"post:" + id_)
        await pipe.execute()

    return await _redis_rate(port, _PAGE_CONNECTIONS, ask)


def redis_intersection(folder: Path, data: Data) -> float | None:
    """Milliseconds to count the followers that users 1 and 2 share."""
    import redis

    with redis_server(folder) as port:
        if port is None:
            return None
        client = redis.Redis(port=port)
        edges = edges_of(data)
        for node in (1, 2):
            followers = edges[edges[:, 1] == node, 0]
            for at in range(0, len(followers), 10_000):
                client.sadd(f"f:{node}", *followers[at : at + 10_000].tolist())
        started = time.perf_counter()
        if int(client.info("server")["redis_version"].split(".")[0]) >= 7:
            client.sintercard(2, ["f:1", "f:2"])
        else:
            client.sinter(["f:1", "f:2"])
        return (time.perf_counter() - started) * 1000


def sqlite_checks(folder: Path, data: Data, pairs: list[tuple[int, int]]) -> float:
    """The checks on a SQLite table in this process."""
    connection = sqlite3.connect(folder / f"peer-{data.file.name}.sqlite")
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table if not exists f (s integer, d integer, primary key (s, d)) without rowid")
    connection.executemany("insert or ignore into f values (?, ?)", edges_of(data).tolist())
    connection.commit()
    started = time.perf_counter()
    for pair in pairs:
        connection.execute("select 1 from f where s = ? and d = ?", pair).fetchone()
    took = time.perf_counter() - started
    connection.close()
    return len(pairs) / took
