"""Home timelines in a real Redis Cluster, through a server and directly."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from calls import home, make, ok
from cast import People, people_of
from cluster_engines import NODES
from coroutines import Run
from redis import Redis
from redis.crc import key_slot
from servers import API, Server, eventually, serving

from kith.core.clock import wall_ms
from kith.core.errors import StoreUnavailable
from kith.engines.redis.connecting import connect
from kith.engines.redis.timeline_store import RedisTimelines
from kith.home.timelines import RATE_MAX


@pytest.fixture
def people() -> People:
    return people_of(7)


def timelines(server: Server) -> int:
    """The number of timelines by the server's metric."""
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
    """Delete all keys of one server, as if the nodes were emptied; keys of other tests stay. Return their number."""
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


def test_calls_over_many_buckets_reach_all_users(run: Run) -> None:
    users = np.random.default_rng(1).permutation(np.arange(1, 5_001))

    async def scene() -> None:
        cluster = connect(NODES)
        store = RedisTimelines(cluster, slots=100_000, now_ms=wall_ms, prefix=f"tests-{wall_ms()}")
        for user in users[:300].tolist():
            assert await store.put(user, np.array([user], np.int64), await store.begin(user))
        assert await store.push(7, users) == 300
        habits = await store.habits(users)
        assert (habits.reads >= 0).sum() == 300
        assert set(users[habits.withheld_rate_min == RATE_MAX].tolist()) == set(users[:300].tolist())
        await store.withhold(5, users)
        for user in users[:300].tolist():
            timeline = await store.read(user)
            assert timeline is not None
            assert (timeline.ids.tolist(), timeline.withheld_rate_min) == ([7, user], 5)
        assert await store.read(int(users[300])) is None
        assert await store.count() == 300
        assert await store.drop(users[100:]) == 200
        assert await store.evict(wall_ms() + 1) == 100
        assert await store.count() == 0
        await cluster.aclose()

    run(scene())


@pytest.mark.parametrize("first", ["reads", "timelines"])
def test_a_push_while_its_slot_moves_is_retried_and_not_lost(run: Run, first: str) -> None:
    """During `redis-cli --cluster reshard`, some keys of a slot are already on the other node."""

    async def scene() -> None:
        prefix = f"tests_{{{wall_ms()}}}"  # a slot that no other test uses
        cluster, users = connect(NODES), np.arange(1, 9, dtype=np.int64)
        store = RedisTimelines(cluster, slots=1_000, now_ms=wall_ms, buckets=1, prefix=prefix)
        for user in users.tolist():
            assert await store.put(user, np.array([99, 98], np.int64), await store.begin(user))
        with moving(prefix) as slot:
            slot.move(lambda key: key.endswith(b":reads") == (first == "reads"))
            with pytest.raises(StoreUnavailable):
                await store.push(200, users)
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(StoreUnavailable):
                    assert await store.push(200, users) == len(users)
                    break
                await asyncio.sleep(0.1)
        for user in users.tolist():
            timeline = await store.read(user)
            assert timeline is not None
            assert timeline.ids.tolist() == [200, 99, 98]
        await cluster.aclose()

    run(scene())


class Moving:
    """A slot that is being moved from one node to another."""

    def __init__(self, slot: int, source: Redis, target: Redis) -> None:
        self._slot, self._source, self._target = slot, source, target

    def move(self, is_selected: Callable[[bytes], bool]) -> None:
        """Move the keys for which `is_selected` is true."""
        keys = [
            key
            for key in self._source.execute_command("CLUSTER", "GETKEYSINSLOT", self._slot, 1_000)
            if is_selected(key)
        ]
        if keys:
            host, port = self._target.get_connection_kwargs()["host"], self._target.get_connection_kwargs()["port"]
            self._source.execute_command("MIGRATE", host, port, "", 0, 5_000, "KEYS", *keys)


@contextlib.contextmanager
def moving(key: str) -> Iterator[Moving]:
    """The slot of a key while it is moved. At the end the move is complete."""
    host, port = NODES.split(",")[0].split(":")
    slot = key_slot(key.encode())
    rows = Redis(host, int(port)).execute_command("CLUSTER", "SLOTS")
    nodes = {name.decode(): Redis(ip.decode(), node_port) for _, _, (ip, node_port, name, *_), *_ in rows}
    (owner,) = (primary[2].decode() for first, last, primary, *_ in rows if first <= slot <= last)
    target = next(name for name in nodes if name != owner)
    nodes[target].execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", owner)
    nodes[owner].execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
    slot_move = Moving(slot, nodes[owner], nodes[target])
    try:
        yield slot_move
    finally:
        slot_move.move(lambda _: True)
        for node in (nodes[target], nodes[owner]):
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target)
