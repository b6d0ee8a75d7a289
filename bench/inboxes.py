"""Inboxes: the rate of durable rows, a chunk of users per notice; and how many bytes of the disk a row takes.

The peers write the same rows: PostgreSQL by COPY and by one INSERT per row, Redis into a list of 50 per user.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np

from bench import postgresql
from bench.figures import SECONDS, Figure, with_peer
from bench.peers import redis_server
from kith.core.clock import wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.notifications.activity import Users

_PEOPLE, _CHUNK, _CHUNKS = 3_000_000, 100_000, 40
_INSERT_CONNECTIONS = 64
_REDIS_CAP = 50
_BYTES_MAX = 1 << 40
_SPREAD = 0x9E3779B97F4A7C15 & (2**62 - 1)  # odd: a permutation of ids below 2^62


def inbox(folder: Path) -> list[Figure]:
    """Write forty notices, each for 100,000 of 3 M users: with consecutive ids, and with ids spread over 62 bits."""
    figures = []
    for name, spread, says in (("", False, "ids by counting"), ("-spread", True, "ids of 62 random bits")):
        chunks = _chunks(spread=spread)
        rows = sum(map(len, chunks))
        place = folder / f"inboxes{name}"
        store = EmbeddedInboxes(place, bytes_max=_BYTES_MAX)
        started, burnt = time.perf_counter(), time.process_time()
        asyncio.run(_fill(store, chunks))
        took_s, cpu_s = time.perf_counter() - started, time.process_time() - burnt
        store.close()
        size = sum(file.stat().st_size for file in place.glob("*.mdb"))
        data = f"{rows:,} rows, {len(chunks)} notices for 100,000 of {_PEOPLE:,} users each, {says}"
        rate = Figure(f"inbox{name}", rows / took_s, "rows/s", ">= 100,000 a core", data=data)
        if not spread:
            copied, inserted = _postgres(chunks)
            redis = _redis(folder, chunks)
            figures.append(with_peer(rate, "PostgreSQL, a COPY a notice", copied))
            figures.append(with_peer(rate, f"PostgreSQL, an INSERT a row, {_INSERT_CONNECTIONS} connections", inserted))
            figures.append(with_peer(rate, f"Redis lists of {_REDIS_CAP}, pipelined, not durable", redis))
        else:
            figures.append(rate)
        figures.append(Figure(f"inbox{name}-cpu", rows / cpu_s, "rows/s of CPU", ">= 100,000", data=data))
        figures.append(Figure(f"inbox{name}-bytes", size / rows, "bytes a row, of the file", "<= 24", data=data))
    return figures


def _chunks(*, spread: bool) -> list[Users]:
    chance = np.random.default_rng(13)
    drawn = [np.unique(chance.integers(1, _PEOPLE, _CHUNK)) for _ in range(_CHUNKS)]
    return [np.sort(one * _SPREAD & (2**62 - 1)) for one in drawn] if spread else drawn


def _notices(count: int) -> list[int]:
    return [(wall_ms() - EPOCH_MS + number) << TIME_SHIFT for number in range(count)]


async def _fill(store: EmbeddedInboxes, chunks: list[Users]) -> None:
    for notice, users in zip(_notices(len(chunks)), chunks, strict=True):
        await store.add_for_all(notice, users)


def _postgres(chunks: list[Users]) -> tuple[float | None, float | None]:
    """Rows a second, by COPY and by single INSERTs."""
    with postgresql.server() as port:
        if port is None:
            return None, None

        async def copied(connection: Any) -> int:
            for notice, users in zip(_notices(len(chunks)), chunks, strict=True):
                rows = [(user, notice) for user in users.tolist()]
                await connection.copy_records_to_table("inbox", records=rows, columns=["recipient", "notice"])
            return sum(map(len, chunks))

        async def main() -> tuple[float, float]:
            connection = await postgresql.connect(port)
            await connection.execute(
                "create table inbox (recipient bigint, notice bigint, primary key (recipient, notice))"
            )
            copy_rate = await _rate(lambda: copied(connection))
            await connection.execute("truncate inbox")
            connections = [await postgresql.connect(port) for _ in range(_INSERT_CONNECTIONS)]
            insert_rate = await _rate(lambda: _inserted(connections, chunks))
            for one in (connection, *connections):
                await one.close()
            return copy_rate, insert_rate

        return asyncio.run(main())


async def _inserted(connections: list[Any], chunks: list[Users]) -> int:
    ends = time.perf_counter() + SECONDS

    async def insert(connection: Any, users: list[int], notice: int) -> int:
        statement = await connection.prepare("insert into inbox values ($1, $2) on conflict do nothing")
        for done, user in enumerate(users):
            if time.perf_counter() > ends:
                return done
            await statement.fetch(user, notice)
        return len(users)

    parts = np.array_split(np.concatenate(chunks), len(connections))
    notices = _notices(len(connections))
    jobs = [insert(*job) for job in zip(connections, [part.tolist() for part in parts], notices, strict=True)]
    return sum(await asyncio.gather(*jobs))


async def _rate(work: Callable[[], Coroutine[Any, Any, int]]) -> float:
    started = time.perf_counter()
    rows = await work()
    return rows / (time.perf_counter() - started)


def _redis(folder: Path, chunks: list[Users]) -> float | None:
    with redis_server(folder) as port:
        if port is None:
            return None
        import redis

        client = redis.Redis(port=port)
        rows, started = 0, time.perf_counter()
        for notice, users in zip(_notices(len(chunks)), chunks, strict=True):
            for at in range(0, len(users), 10_000):
                pipe = client.pipeline(transaction=False)
                for user in users[at : at + 10_000].tolist():
                    pipe.lpush(f"inbox:{user}", notice)
                    pipe.ltrim(f"inbox:{user}", 0, _REDIS_CAP - 1)
                pipe.execute()
                rows += len(users[at : at + 10_000])
            if time.perf_counter() - started > SECONDS:
                break
        return rows / (time.perf_counter() - started)
