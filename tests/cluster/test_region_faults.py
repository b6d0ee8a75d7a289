"""Two regions, each with a datacentre of Cassandra and an API. The first has the workers and decides all writes.

An answered write is visible in both regions. Each region reads from its own datacentre, also while the other one is
away. Meanwhile nobody can write, until an operator removes the lost region.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple
from unittest.mock import patch

import httpx
import numpy as np
import pytest
from calls import check, ids, make, ok
from cast import People, people_of
from coroutines import Run
from servers import API, Server, eventually, keyspace_of, on_cluster, serving
from three_servers import CASSANDRA, KAFKA, KAFKA_ADDRESSES, REDIS, REDIS_PORTS
from workload import UNAVAILABLE

from kith.engines.cassandra.connecting import Session, connect

FOLLOWS = 200
AWAY_S = 15.0


class Regions(NamedTuple):
    """A server in each region, and the keyspace that both use."""

    home: Server
    far: Server
    keyspace: str


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Regions]:
    folder = tmp_path_factory.mktemp("regions")
    keyspace = keyspace_of(folder)
    settings = on_cluster(keyspace) | {
        "KITH_KAFKA": KAFKA_ADDRESSES.split(",")[0],
        "KITH_REDIS": ",".join(f"127.0.0.1:{port}" for port in REDIS_PORTS),
    }
    with ExitStack() as opened, patch.dict(os.environ, KITH_CASSANDRA_DATACENTRES="2"):
        for engine, nodes in ((REDIS, []), (KAFKA, ["1"]), (CASSANDRA, ["2"])):
            opened.callback(engine.script, "down")
            engine.script("up", *nodes)
        in_region = [
            {"KITH_CASSANDRA": f"127.0.0.{number}:{CASSANDRA.port}", "KITH_CASSANDRA_DATACENTRE": f"dc{number}"}
            for number in (1, 2)
        ]
        home = opened.enter_context(serving(folder / "home", **settings | in_region[0]))
        far = opened.enter_context(serving(folder / "far", command="api", **settings | in_region[1]))
        yield Regions(home, far, keyspace)


@pytest.fixture
def people(request: pytest.FixtureRequest) -> People:
    return people_of(sum(request.node.name.encode()))


def test_each_region_has_a_copy_of_each_row(regions: Regions, run: Run) -> None:
    assert run(copies(regions.keyspace, 1)) == run(copies(regions.keyspace, 2)) == {"dc1": "1", "dc2": "1"}


def test_a_write_answered_at_home_is_read_in_the_other_region_at_once(regions: Regions, people: People) -> None:
    """The first read sees it, without a token."""
    took_ms = []
    with regions.home.client() as home, regions.far.client() as far:
        for number in range(FOLLOWS):
            follower = people.dana - 1 - number
            began_s = time.perf_counter()
            ok(home.post(f"{API}/users/{people.carol}/follow", headers={"X-Kith-User": str(follower)}))
            answered_s = time.perf_counter()
            assert check(far, "follows", follower, people.carol)
            took_ms.append([1_000 * (answered_s - began_s), 1_000 * (time.perf_counter() - began_s)])
        assert ok(far.get(f"{API}/graph/follows/{people.carol}/in/count")) == {"count": FOLLOWS}
    for event, column in (("answered", 0), ("seen in the other region", 1)):
        p50, p99 = np.percentile(np.array(took_ms)[:, column], [50, 99])
        print(f"a follow is {event} after {p50:.1f} ms (p50), {p99:.1f} ms (p99)")


@pytest.mark.parametrize("written_at", ["home", "far"])
def test_a_user_with_a_token_reads_their_writes_in_the_other_region(
    regions: Regions, people: People, written_at: str
) -> None:
    writing_region, reading_region = (
        (regions.home, regions.far) if written_at == "home" else (regions.far, regions.home)
    )
    alice, bob = (people.alice, people.bob) if written_at == "home" else (people.bob, people.alice)
    with writing_region.client(acting=alice) as http:
        answer = http.post(f"{API}/users/{bob}/follow")
        assert ok(answer)["changed"]
        post = int(make(http, f"from {written_at}"))
    with reading_region.client(acting=alice, headers={"Kith-Token": answer.headers["Kith-Token"]}) as http:
        assert ids(ok(http.get(f"{API}/users/{alice}/following"))) == [bob]
        assert ids(ok(http.get(f"{API}/users/{alice}/posts"))) == [post]
        ok(http.delete(f"{API}/users/{bob}/follow"))
    with writing_region.client(acting=alice) as http:
        assert ids(ok(http.get(f"{API}/users/{alice}/following"))) == []


def test_a_region_reads_from_its_own_datacentre_while_the_other_one_is_away(regions: Regions, people: People) -> None:
    with regions.far.client(acting=people.alice) as alice, regions.home.client(acting=people.bob) as bob:
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
        post = int(make(bob, "before"))
        CASSANDRA.send(signal.SIGSTOP, 1)
        until_s = time.monotonic() + AWAY_S
        while time.monotonic() < until_s:
            assert check(alice, "follows", people.alice, people.bob)
            assert ids(ok(alice.get(f"{API}/users/{people.bob}/followers"))) == [people.alice]
            assert ok(alice.get(f"{API}/graph/follows/{people.bob}/in/count")) == {"count": 1}
            assert ok(alice.get(f"{API}/posts/{post}"))["content"]["text"] == "before"
            assert [item["id"] for item in ok(alice.get(f"{API}/feed?type=latest"))["posts"]] == [str(post)]
        answer = alice.post(f"{API}/users/{people.carol}/follow")
        assert answer.status_code == 503, answer.text
        assert answer.json()["error"]["code"] in UNAVAILABLE
        CASSANDRA.send(signal.SIGCONT, 1)
        began_s = time.monotonic()
        eventually(lambda: alice.post(f"{API}/users/{people.dana}/follow").status_code == 200, 120)
        print(f"writes go on {time.monotonic() - began_s:.1f} s after the other region is back")
        eventually(lambda: followers(bob, people.dana) == [people.alice], 60)


def test_home_continues_without_a_removed_region(regions: Regions, people: People, run: Run) -> None:
    """Once its node is back and knows of the removal, the removed region answers nothing."""
    with regions.home.client(acting=people.alice) as alice, regions.far.client(acting=people.alice) as far:
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
        CASSANDRA.send(signal.SIGSTOP, 2)
        assert followers(alice, people.bob) == [people.alice]
        assert alice.post(f"{API}/users/{people.carol}/follow").status_code == 503
        run(replicate(regions.keyspace, "'dc1': 1"))
        began_s = time.monotonic()
        eventually(lambda: alice.post(f"{API}/users/{people.dana}/follow").status_code == 200, 120)
        print(f"writes go on {time.monotonic() - began_s:.1f} s after the lost region was taken out")
        CASSANDRA.send(signal.SIGCONT, 2)
        path = f"{API}/graph/follows/{people.alice}/{people.dana}"
        eventually(lambda: all(far.get(path).status_code == 503 for _ in range(5)), 120)


def followers(http: httpx.Client, user: int) -> list[int]:
    return ids(ok(http.get(f"{API}/users/{user}/followers")))


async def copies(keyspace: str, region: int) -> dict[str, str]:
    """{datacentre: copies of each row}, as the node of a region knows it."""
    async with session_in(keyspace, region) as session:
        statement = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?"
        ((replication,),) = await session.rows(statement, keyspace)
        return {name: number for name, number in replication.items() if name != "class"}


async def replicate(keyspace: str, in_each: str) -> None:
    """Set the copies of a keyspace in each datacentre, as an operator does."""
    async with session_in(keyspace, 1) as session:
        options = f"{{'class': 'NetworkTopologyStrategy', {in_each}}}"
        await session.define(f"ALTER KEYSPACE {keyspace} WITH replication = {options}")


@asynccontextmanager
async def session_in(keyspace: str, region: int) -> AsyncIterator[Session]:
    session = await connect(f"127.0.0.{region}:{CASSANDRA.port}", keyspace, replicas=1)
    try:
        yield session
    finally:
        await session.close()
