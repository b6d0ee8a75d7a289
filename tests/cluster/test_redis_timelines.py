"""Home timelines in a Redis Cluster, through a server that people would run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from calls import home, make, ok
from cast import People, people_of
from cluster_engines import NODES
from coroutines import Run
from servers import API, Server, eventually, serving

from kith.core.clock import wall_ms
from kith.engines.redis.connecting import connect
from kith.engines.redis.timeline_store import RedisTimelines
from kith.home.timelines import RATE_MAX


@pytest.fixture
def people() -> People:
    return people_of(7)


def timelines(server: Server) -> int:
    """How many the server says that it keeps."""
    (line,) = [line for line in server.get("/metrics").text.splitlines() if line.startswith("kith_timelines ")]
    return int(float(line.split()[1]))


def test_posts_come_home_through_redis_and_again_after_it_was_emptied(tmp_path: Path, people: People, run: Run) -> None:
    keyspace = f"tests_{wall_ms()}"
    with (
        serving(tmp_path, KITH_REDIS=NODES, KITH_CASSANDRA_KEYSPACE=keyspace) as server,
        server.client(acting=people.alice) as alice,
        server.client(acting=people.bob) as bob,
    ):
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
        first = int(make(bob, "one"))
        eventually(lambda: home(alice) == [first])
        eventually(lambda: home(alice) and timelines(server) >= 1)
        second = int(make(bob, "two"))
        eventually(lambda: home(alice) == [second, first])
        assert run(emptied(keyspace)) > 0
        assert timelines(server) == 0
        third = int(make(bob, "three"))
        eventually(lambda: home(alice) == [third, second, first])
        eventually(lambda: home(alice) and timelines(server) >= 1)
        eventually(lambda: ok(alice.get(f"{API}/feed"))["meta"]["degraded"] == [])


async def emptied(keyspace: str) -> int:
    """Delete all keys of a server, as if nodes were emptied, and none of what other tests do there; how many."""
    cluster = connect(NODES)
    keys = [key async for key in cluster.scan_iter(match=f"{keyspace}:*", count=10_000)]
    for key in keys:
        await cluster.unlink(key)
    await cluster.aclose()
    return len(keys)


def test_homes_are_read_from_outboxes_while_redis_is_away(tmp_path: Path, people: People) -> None:
    with (
        serving(tmp_path, KITH_REDIS="127.0.0.1:1") as server,
        server.client(acting=people.alice) as alice,
        server.client(acting=people.bob) as bob,
    ):
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
        post = int(make(bob, "one"))
        assert home(alice) == [post]
        assert ok(alice.get(f"{API}/feed"))["meta"]["degraded"]


def test_users_of_many_buckets_get_what_those_of_one_get(run: Run) -> None:
    users = np.random.default_rng(1).permutation(np.arange(1, 5_001))

    async def scene() -> None:
        cluster = connect(NODES)
        store = RedisTimelines(cluster, slots=100_000, now_ms=wall_ms, prefix=f"tests-{wall_ms()}")
        for user in users[:300].tolist():
            assert await store.put(user, np.array([user], np.int64), await store.begin(user))
        assert await store.push(7, users) == 300
        habits = await store.habits(users)
        assert (habits.reads >= 0).sum() == 300
        assert set(users[habits.lacks_from == RATE_MAX].tolist()) == set(users[:300].tolist())
        await store.withhold(5, users)
        for user in users[:300].tolist():
            found = await store.read(user)
            assert found is not None
            assert (found.ids.tolist(), found.lacks_from) == ([7, user], 5)
        assert await store.read(int(users[300])) is None
        assert await store.count() == 300
        assert await store.drop(users[100:]) == 200
        assert await store.evict(wall_ms() + 1) == 100
        assert await store.count() == 0
        await cluster.aclose()

    run(scene())
