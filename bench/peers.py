"""What a user would pick instead, measured in the same run on the same pairs, where it is installed.

Redis: a set of destinations per source (SISMEMBER), the usual choice. PostgreSQL: a table with a primary key
both ways. SQLite: the same in process. A peer that is not installed gives None and no line in the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.figures import SECONDS, Data, free_port
from kith.commands.transfer.formats import read

_PAGE_CONNECTIONS = 16
_CONNECTIONS = 16
_INSERT_CONNECTIONS = 64


class RedisChecks(NamedTuple):
    """Checks a second: through the client a Python app uses, and by redis-benchmark in C."""

    client: float | None
    benchmark: float | None


def _edges(data: Data) -> np.ndarray[Any, np.dtype[np.int64]]:
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
    edges = _edges(data)
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


async def _redis_client(port: int, pairs: list[tuple[int, int]]) -> float:
    from redis import asyncio as redis

    deadline, done = time.perf_counter() + SECONDS, 0

    async def worker(start: int) -> None:
        nonlocal done
        client = redis.Redis(port=port, single_connection_client=True)
        at = start
        while time.perf_counter() < deadline:
            source, destination = pairs[at % len(pairs)]
            await client.sismember(f"f:{source}", str(destination))
            at += _CONNECTIONS
            done += 1
        await client.aclose()

    await asyncio.gather(*(worker(start) for start in range(_CONNECTIONS)))
    return done / SECONDS


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
    """Pages of 20 a second from a sorted set a reader and a hash a post, as hand-rolled feeds have them: no rules, no
    ranking, no HTTP. `posts`: (id, author); `homes`: ids a reader.
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
    from redis import asyncio as redis

    deadline, done = time.perf_counter() + SECONDS, 0

    async def worker(start: int) -> None:
        nonlocal done
        client = redis.Redis(port=port, single_connection_client=True)
        at = start
        while time.perf_counter() < deadline:
            ids: Any = await client.zrevrange(f"feed:{readers[at % len(readers)]}", 0, 19)
            pipe = client.pipeline(transaction=False)
            for id_ in ids:
                pipe.hgetall(b"post:" + id_)
            await pipe.execute()
            at += _PAGE_CONNECTIONS
            done += 1
        await client.aclose()

    await asyncio.gather(*(worker(start) for start in range(_PAGE_CONNECTIONS)))
    return done / SECONDS


def redis_intersection(folder: Path, data: Data) -> float | None:
    """Milliseconds of counting the followers that users 1 and 2 share."""
    import redis

    with redis_server(folder) as port:
        if port is None:
            return None
        client = redis.Redis(port=port)
        edges = _edges(data)
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
    connection.executemany("insert or ignore into f values (?, ?)", _edges(data).tolist())
    connection.commit()
    started = time.perf_counter()
    for pair in pairs:
        connection.execute("select 1 from f where s = ? and d = ?", pair).fetchone()
    took = time.perf_counter() - started
    connection.close()
    return len(pairs) / took


@contextlib.contextmanager
def postgres() -> Iterator[int | None]:
    """A throw-away cluster with default durability. PostgreSQL refuses to run as root, so root borrows a user."""
    binaries = postgres_binaries()
    if binaries is None:
        yield None
        return
    user = _unprivileged()
    folder = tempfile.mkdtemp(prefix="kith-bench-pg-")
    if user is not None:
        os.chown(folder, user, -1)
    port = free_port()

    def run(*command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd=folder)

    store = f"{folder}/data"
    try:
        run(str(binaries / "initdb"), "-D", store, "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-p {port} -k {folder} -h 127.0.0.1 -c shared_buffers=1GB -c max_connections=200"
        run(str(binaries / "pg_ctl"), "-D", store, "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield port
        finally:
            run(str(binaries / "pg_ctl"), "-D", store, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def postgres_binaries() -> Path | None:
    """Where `initdb` and `postgres` are, the newest version."""
    found = shutil.which("pg_ctl")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in [*places, *([Path(found).resolve().parent] if found else [])]:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    return None


def _unprivileged() -> int | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    return None


async def connect(port: int) -> Any:
    """A connection to that cluster."""
    import asyncpg

    return await asyncpg.connect(host="127.0.0.1", port=port, user="postgres", database="postgres")


async def _fill_postgres(port: int, data: Data) -> None:
    connection = await connect(port)
    await connection.execute("create table f (s bigint, d bigint, at timestamptz default now(), primary key (s, d))")
    await connection.copy_records_to_table("f", records=_edges(data).tolist(), columns=["s", "d"])
    await connection.execute("create index on f (d, at)")
    await connection.execute("analyze f")
    await connection.close()


def postgres_restore(edges: Collection[tuple[int, int]]) -> float | None:
    """Edges a second that pg_restore brings back from a dump: rows, then a primary key and an index for each end."""
    binaries = postgres_binaries()
    with postgres() as port, tempfile.TemporaryDirectory() as folder:
        if port is None or binaries is None:
            return None
        asyncio.run(_dumpable(port, edges))
        named, dump = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"], f"{folder}/dump"
        subprocess.run([str(binaries / "pg_dump"), *named, "-Fc", "-f", dump, "postgres"], check=True)
        started = time.perf_counter()
        subprocess.run([str(binaries / "pg_restore"), *named, "-d", "again", dump], check=True)
        return len(edges) / (time.perf_counter() - started)


async def _dumpable(port: int, edges: Collection[tuple[int, int]]) -> None:
    connection = await connect(port)
    await connection.execute(
        "create table f (s bigint, d bigint, state smallint, position bigint, version bigint, primary key (s, d))"
    )
    rows = [(source, destination, 0, at, at) for at, (source, destination) in enumerate(edges)]
    await connection.copy_records_to_table("f", records=rows)
    await connection.execute("create index on f (s, position)")
    await connection.execute("create index on f (d, position)")
    await connection.execute("create database again")
    await connection.close()


def postgres_checks(data: Data, pairs: list[tuple[int, int]]) -> float | None:
    """The checks on PostgreSQL through asyncpg, prepared."""
    return postgres_reads(data, [("select 1 from f where s = $1 and d = $2", pair) for pair in pairs])


def postgres_reads(data: Data, asked: Sequence[tuple[str, tuple[int, ...]]]) -> float | None:
    """Statements a second, of (statement, arguments) over and over, through asyncpg, prepared.

    They may read `f` (s, d, at), indexed both ways by time, and the counts `outs` (s, n) and `ins` (d, n).
    """
    with postgres() as port:
        if port is None:
            return None

        async def run() -> float:
            await _fill_postgres(port, data)
            connection = await connect(port)
            await connection.execute(f"{_TABLES}; create index on f (s, at)")
            await connection.execute("vacuum analyze")
            await connection.close()
            deadline, done = time.perf_counter() + SECONDS, 0

            async def worker(start: int) -> None:
                nonlocal done
                connection = await connect(port)
                prepared = {text: await connection.prepare(text) for text in {text for text, _ in asked}}
                at = start
                while time.perf_counter() < deadline:
                    statement, arguments = asked[at % len(asked)]
                    await prepared[statement].fetch(*arguments)
                    at += _CONNECTIONS
                    done += 1
                await connection.close()

            await asyncio.gather(*(worker(start) for start in range(_CONNECTIONS)))
            return done / SECONDS

        return asyncio.run(run())


_FOLLOW = """
with allowed as (
    select 1 where not exists (select 1 from b where (s, d) in (($1, $2), ($2, $1)))
               and coalesce((select n from outs where s = $1), 0) < 10000
), added as (
    insert into f (s, d) select $1, $2 from allowed on conflict do nothing returning s, d
), one as (
    insert into outs (s, n) select s, 1 from added on conflict (s) do update set n = outs.n + 1
), other as (
    insert into ins (d, n) select d, 1 from added on conflict (d) do update set n = ins.n + 1
)
insert into events (s, d) select s, d from added
"""
"""A follow as Kith does it: blocks, limit, both directions, both counts and the event, in one transaction."""


_EDGES = """
with added as (
    insert into f (s, d) select s, d from unnest($1::bigint[], $2::bigint[]) as e (s, d) order by s, d
    on conflict do nothing returning s, d
), one as (
    insert into outs (s, n) select s, count(*) from added group by s order by s
    on conflict (s) do update set n = outs.n + excluded.n
), other as (
    insert into ins (d, n) select d, count(*) from added group by d order by d
    on conflict (d) do update set n = ins.n + excluded.n
)
insert into events (s, d) select s, d from added
"""
"""Many edges as Kith writes them: both directions, both counts and the events, in one transaction."""
EDGES_A_REQUEST = 1000
_BULK_CONNECTIONS = 4
_TABLES = """
create table b (s bigint, d bigint, primary key (s, d));
create table outs (s bigint primary key, n bigint); create table ins (d bigint primary key, n bigint);
insert into outs select s, count(*) from f group by s;
insert into ins select d, count(*) from f group by d;
create table events (id bigserial primary key, s bigint, d bigint, at timestamptz default now())
"""


def postgres_follows(data: Data, users: int) -> float | None:
    """Durable follows among so many users, drawn at random, one a transaction, with default settings."""

    def arguments(chosen: np.random.Generator) -> tuple[int, ...]:
        return tuple(chosen.integers(1, users + 1, 2).tolist())

    return _postgres_writes(data, _FOLLOW, _INSERT_CONNECTIONS, arguments)


def postgres_edges(data: Data) -> float | None:
    """Durable edges, EDGES_A_REQUEST a transaction, with default settings."""

    def arguments(chosen: np.random.Generator) -> tuple[list[int], list[int]]:
        sources = chosen.integers(82_168, 10**6, EDGES_A_REQUEST).tolist()
        return sources, chosen.integers(0, 82_168, EDGES_A_REQUEST).tolist()

    rate = _postgres_writes(data, _EDGES, _BULK_CONNECTIONS, arguments)
    return None if rate is None else rate * EDGES_A_REQUEST


def _postgres_writes(
    data: Data, statement: str, connections: int, arguments: Callable[[np.random.Generator], tuple[Any, ...]]
) -> float | None:
    """Statements a second on so many connections; None without PostgreSQL."""
    with postgres() as port:
        if port is None:
            return None

        async def run() -> float:
            await _fill_postgres(port, data)
            connection = await connect(port)
            await connection.execute(_TABLES)
            await connection.close()
            started, done = time.perf_counter(), 0

            async def worker(seed: int) -> None:
                nonlocal done
                chosen, connection = np.random.default_rng(seed), await connect(port)
                prepared = await connection.prepare(statement)
                while time.perf_counter() < started + SECONDS:
                    await prepared.fetch(*arguments(chosen))
                    done += 1
                await connection.close()

            await asyncio.gather(*(worker(seed) for seed in range(connections)))
            return done / (time.perf_counter() - started)

        return asyncio.run(run())
