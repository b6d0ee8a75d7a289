"""PostgreSQL as a peer: a table of edges with a primary key, indexed both ways, queried by asyncpg.

The server is temporary. Functions return None if PostgreSQL is not installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Data, free_port
from bench.peers import asked_rate, edges_of

_CONNECTIONS = 16
_INSERT_CONNECTIONS = 64


@contextlib.contextmanager
def server() -> Iterator[int | None]:
    """Run a temporary server with default durability. PostgreSQL refuses to run as root, so root uses another user."""
    programs = binaries()
    if programs is None:
        yield None
        return
    user = _unprivileged()
    folder = tempfile.mkdtemp(prefix="kith-bench-pg-")
    if user is not None:
        os.chown(folder, user, -1)
    port = free_port()

    def run(*command: str, check: bool = True) -> None:
        subprocess.run(
            command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd=folder
        )

    store = f"{folder}/data"
    try:
        run(str(programs / "initdb"), "-D", store, "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-p {port} -k {folder} -h 127.0.0.1 -c shared_buffers=1GB -c max_connections=200"
        try:
            run(str(programs / "pg_ctl"), "-D", store, "-w", "-l", f"{folder}/log", "-o", options, "start")
            yield port
        finally:  # after an interrupted start too, because the server runs in a session of its own
            run(str(programs / "pg_ctl"), "-D", store, "-m", "immediate", "stop", check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def binaries() -> Path | None:
    """The folder of `initdb` and `postgres`, of the newest version."""
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
    """A connection to that server."""
    import asyncpg

    return await asyncpg.connect(host="127.0.0.1", port=port, user="postgres", database="postgres")


@contextlib.asynccontextmanager
async def connected(port: int, count: int) -> AsyncIterator[list[Any]]:
    """Open `count` connections."""
    opened = [await connect(port) for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            await one.close()


async def _fill(port: int, data: Data) -> None:
    connection = await connect(port)
    await connection.execute("create table f (s bigint, d bigint, at timestamptz default now(), primary key (s, d))")
    await connection.copy_records_to_table("f", records=edges_of(data).tolist(), columns=["s", "d"])
    await connection.execute("create index on f (d, at)")
    await connection.execute("analyze f")
    await connection.close()


def restore(edges: Collection[tuple[int, int]]) -> float | None:
    """Edges a second that pg_restore loads from a dump: rows, then a primary key and an index for each end."""
    programs = binaries()
    with server() as port, tempfile.TemporaryDirectory() as folder:
        if port is None or programs is None:
            return None
        asyncio.run(_dumpable(port, edges))
        named, dump = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"], f"{folder}/dump"
        subprocess.run([str(programs / "pg_dump"), *named, "-Fc", "-f", dump, "postgres"], check=True)
        started = time.perf_counter()
        subprocess.run([str(programs / "pg_restore"), *named, "-d", "again", dump], check=True)
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


def checks(data: Data, pairs: list[tuple[int, int]]) -> float | None:
    """The checks on PostgreSQL through asyncpg, prepared."""
    return reads(data, [("select 1 from f where s = $1 and d = $2", pair) for pair in pairs])


def reads(data: Data, asked: Sequence[tuple[str, tuple[int, ...]]]) -> float | None:
    """Statements a second: (statement, arguments) in a loop, prepared, through asyncpg.

    They may read `f` (s, d, at), indexed both ways by time, and the counts `outs` (s, n) and `ins` (d, n).
    """
    with server() as port:
        if port is None:
            return None

        async def run() -> float:
            await _fill(port, data)
            connection = await connect(port)
            await connection.execute(f"{_TABLES}; create index on f (s, at)")
            await connection.execute("vacuum analyze")
            await connection.close()
            numbers = itertools.count()

            def asking(prepared: dict[str, Any]) -> Callable[[], Awaitable[object]]:
                def ask() -> Awaitable[object]:
                    statement, arguments = asked[next(numbers) % len(asked)]
                    return prepared[statement].fetch(*arguments)  # type: ignore[no-any-return]

                return ask

            texts = {text for text, _ in asked}
            async with connected(port, _CONNECTIONS) as connections:
                ready = [{text: await one.prepare(text) for text in texts} for one in connections]
                return await asked_rate([asking(prepared) for prepared in ready])

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


def follows(data: Data, users: int) -> float | None:
    """Durable follows a second among `users` users, drawn at random, one per transaction, with default settings."""

    def arguments(chosen: np.random.Generator) -> tuple[int, ...]:
        return tuple(chosen.integers(1, users + 1, 2).tolist())

    return _writes(data, _FOLLOW, _INSERT_CONNECTIONS, arguments)


def bulk_edges(data: Data) -> float | None:
    """Durable edges a second, EDGES_A_REQUEST per transaction, with default settings."""

    def arguments(chosen: np.random.Generator) -> tuple[list[int], list[int]]:
        sources = chosen.integers(82_168, 10**6, EDGES_A_REQUEST).tolist()
        return sources, chosen.integers(0, 82_168, EDGES_A_REQUEST).tolist()

    rate = _writes(data, _EDGES, _BULK_CONNECTIONS, arguments)
    return None if rate is None else rate * EDGES_A_REQUEST


def _writes(
    data: Data, statement: str, connections: int, arguments: Callable[[np.random.Generator], tuple[Any, ...]]
) -> float | None:
    """Statements a second over a number of connections; None without PostgreSQL."""
    with server() as port:
        if port is None:
            return None

        async def run() -> float:
            await _fill(port, data)
            connection = await connect(port)
            await connection.execute(_TABLES)
            await connection.close()

            def asking(prepared: Any, chosen: np.random.Generator) -> Callable[[], Awaitable[object]]:
                return lambda: prepared.fetch(*arguments(chosen))

            async with connected(port, connections) as opened:
                ready = [await one.prepare(statement) for one in opened]
                chosen = map(np.random.default_rng, range(connections))
                return await asked_rate([asking(*both) for both in zip(ready, chosen, strict=True)])

        return asyncio.run(run())
