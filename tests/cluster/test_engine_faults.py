"""Servers of Cassandra, Kafka and Redis are killed, stopped and emptied while users write to two machines of Kith.

Every answered write is stored once: rows, both ends, counts, posts, names, homes. Requests that cannot be served fail
in time. Everything recovers without an operator. The tests print the time until all users progress again.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import acsylla
import httpx
import pytest
from calls import ok
from network import Way, can_be_cut, network, serving_inside
from servers import API, Server, eventually, keyspace_of, named, on_cluster, serving
from three_servers import (
    CASSANDRA,
    KAFKA,
    KAFKA_ADDRESSES,
    REDIS,
    REDIS_PORTS,
    Servers,
    ask_redis,
    masters,
    wait_for_replicas,
)
from workload import Workload

from kith.checks.snapshots import Snapshots
from kith.core.ids import made_at_ms
from kith.engines.blobs.archives import FolderArchive
from kith.engines.cassandra.connecting import ANSWER_TIMEOUT_S, connect

STOPPED_S = 10.0
REDELIVERIES, READS = 6, 300
Node = tuple[Servers, Callable[[], int]]
ONE: dict[str, Node] = {
    "cassandra": (CASSANDRA, lambda: 2),
    "kafka": (KAFKA, lambda: 2),
    "redis": (REDIS, lambda: masters()[0]),
}
AFFECTED = [*([name] for name in ONE), [*ONE]]
NODES = ",".join(f"127.0.0.{node}:{CASSANDRA.port}" for node in (1, 2, 3))
ADDRESSES = {
    "cassandra": [(f"127.0.0.{node}", CASSANDRA.port) for node in (1, 2, 3)],
    "kafka": [("127.0.0.1", KAFKA.port + at) for at in range(3)],
    "redis": [("127.0.0.1", port) for port in REDIS_PORTS],
}
CLOCK, STEP = "seconds ahead", "step"
"""Names of control files of the second machine, beside its data; see `broken/sitecustomize.py`."""
AHEAD_S = 600
STEPS = ("taken", "decided", "journalled", "half written", "written", "told")
CROWD, OTHERS = 32, 900_000_000
SNAPSHOTS = "snapshots"
Ways = dict[str, list[Way]]


@pytest.fixture(scope="module")
def ways() -> Ways:
    """The links from the second machine to each engine. Empty where links cannot be cut."""
    return {}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, ways: Ways) -> Iterator[tuple[Server, Server]]:
    """Two machines that serve one community on three servers of each engine. The second has its own network."""
    folder = tmp_path_factory.mktemp("machines")
    with ExitStack() as opened:
        for engine, nodes in ((REDIS, []), (KAFKA, ["3"]), (CASSANDRA, ["3"])):
            opened.callback(engine.script, "down")
            engine.script("up", *nodes)
        broken = os.pathsep.join([str(Path(__file__).parent / "broken"), os.environ.get("PYTHONPATH", "")])
        settings = on_cluster(keyspace_of(folder)) | {
            "KITH_CASSANDRA": NODES,
            "KITH_KAFKA": KAFKA_ADDRESSES,
            "KITH_REDIS": ",".join(f"127.0.0.1:{port}" for port in REDIS_PORTS),
            "KITH_CLUSTER_COPIES": "3",
            "KITH_CHECKS_SNAPSHOTS": str(folder / SNAPSHOTS),
        }
        first = opened.enter_context(serving(folder / "one", **settings))
        breaking = {
            f"TEST_{name}_FILE": str(folder / "two" / file) for name, file in (("CLOCK", CLOCK), ("STEP", STEP))
        }
        settings |= breaking | {"PYTHONPATH": broken}
        if not can_be_cut():
            yield first, opened.enter_context(serving(folder / "two", **settings))
            return
        inside, way = opened.enter_context(network([at for some in ADDRESSES.values() for at in some]))
        ways.update({engine: [way[at] for at in some] for engine, some in ADDRESSES.items()})
        yield first, opened.enter_context(serving_inside(inside, folder / "two", **settings))


@pytest.mark.parametrize("engines", AFFECTED, ids="-".join)
def test_servers_that_are_killed(machines: tuple[Server, Server], engines: list[str]) -> None:
    play = Workload(machines)
    nodes = [(ONE[name][0], ONE[name][1]()) for name in engines]
    for engine, node in nodes:
        engine.send(signal.SIGKILL, node)
    took_s = play.recovered()
    for engine, node in nodes:
        engine.restart(node)
    play.recovered()
    report(f"killed: {' and '.join(engines)}", took_s, play)
    play.check()
    wait_for_replicas()


@pytest.mark.parametrize("engines", AFFECTED, ids="-".join)
def test_servers_that_stand_still_for_ten_seconds(machines: tuple[Server, Server], engines: list[str]) -> None:
    play = Workload(machines)
    nodes = [(ONE[name][0], ONE[name][1]()) for name in engines]
    for engine, node in nodes:
        engine.send(signal.SIGSTOP, node)
    stopped_s = took_s = play.recovered()
    while stopped_s < STOPPED_S:
        stopped_s += play.recovered()
    for engine, node in nodes:
        engine.send(signal.SIGCONT, node)
    play.recovered()
    report(f"stopped: {' and '.join(engines)}", took_s, play)
    play.check()
    wait_for_replicas()


@pytest.mark.parametrize("engine", ONE)
def test_a_machine_that_is_cut_off_from_an_engine(machines: tuple[Server, Server], ways: Ways, engine: str) -> None:
    if not ways:
        pytest.skip("making networks needs root and `ip`")
    play = Workload(machines)
    for way in ways[engine]:
        way.cut()
    took_s = play.recovered()
    for way in ways[engine]:
        way.mend()
    play.recovered()
    report(f"cut off from {engine}", took_s, play)
    play.check()


def test_a_broker_whose_disk_is_full(machines: tuple[Server, Server]) -> None:
    """No file of the broker can grow: its writes fail as on a full disk."""
    play = Workload(machines)
    resource.prlimit(KAFKA.pid(2), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    took_s = play.recovered()
    KAFKA.send(signal.SIGKILL, 2)
    KAFKA.restart(2)
    play.recovered()
    report("a broker's disk full", took_s, play)
    play.check()


def test_redis_that_is_emptied(machines: tuple[Server, Server]) -> None:
    play = Workload(machines)
    for port in masters():
        assert ask_redis(port, "flushall").strip() == "OK"
    report("Redis emptied", play.recovered(), play)
    play.check()


def test_a_machine_whose_clock_jumps_ten_minutes_ahead(machines: tuple[Server, Server], ways: Ways) -> None:
    """It writes nothing, says why, and is not ready. Once the clock is right, it resumes without help."""
    if not ways:
        pytest.skip("only a machine in its own network has its own clock")
    play, two = Workload(machines), machines[1]
    clock = two.data.parent / CLOCK
    clock.write_text(str(AHEAD_S))
    took_s = play.recovered()
    assert f"clock is {AHEAD_S:+} s off" in eventually(lambda: why_not_ready(two))
    with two.client(acting=play.reader) as http:
        answer = http.post(f"{API}/posts", json={"content": {"text": "of a time to come"}})
        assert answer.status_code == 503
        assert f"clock is {AHEAD_S:+} s off" in answer.text
    play.expect_cuts()  # its API process is replaced
    clock.unlink()
    eventually(lambda: not why_not_ready(two))
    play.recovered()
    report("a clock ten minutes ahead", took_s, play)
    play.check()
    now_ms = time.time() * 1_000
    assert all(made_at_ms(post) < now_ms for actor in play.actors for post in actor.posts)


def why_not_ready(machine: Server) -> str:
    """Why the machine is not ready; "" if it is."""
    try:
        answer = machine.get("/readyz")
    except httpx.HTTPError as error:  # its process is being replaced
        return repr(error)
    return "" if answer.status_code == 200 else answer.text


def test_an_owner_that_is_paused_and_wakes_up(machines: tuple[Server, Server]) -> None:
    """Others take over its partitions; then two processes believe that they own them."""
    play = Workload(machines)
    (pid,) = named("apply", machines[0].process.pid)
    os.kill(pid, signal.SIGSTOP)
    took_s = play.recovered()
    os.kill(pid, signal.SIGCONT)
    play.recovered()
    report("an owner paused", took_s, play)
    play.check()


def test_an_owner_that_is_killed(machines: tuple[Server, Server]) -> None:
    play = Workload(machines)
    (pid,) = named("apply", machines[0].process.pid)
    os.kill(pid, signal.SIGKILL)
    report("an owner killed", play.recovered(), play)
    play.check()


def follow_at_once(server: Server) -> None:
    """Send concurrent follows of otherwise unused users: so many that owners decide several in a batch."""

    def follow(user: int) -> None:
        with server.client(acting=user) as http:
            http.post(f"{API}/users/{user + 1}/follow")

    with ThreadPoolExecutor(CROWD) as pool:
        list(pool.map(follow, range(OTHERS, OTHERS + 2 * CROWD)))


@pytest.mark.parametrize("step", STEPS)
def test_an_owner_that_dies_at_a_step(machines: tuple[Server, Server], ways: Ways, step: str) -> None:
    """The owner dies between two steps of a batch. The batch is decided once, whichever owner continues it."""
    if not ways:
        pytest.skip("only a machine in its own network can be told to die at a step")
    play, two = Workload(machines), machines[1]
    step_file = two.data.parent / STEP
    if step == "taken":  # this step comes when an owner takes partitions again
        (pid,) = named("apply", two.process.pid)
        os.kill(pid, signal.SIGKILL)
    step_file.write_text(step)
    eventually(lambda: follow_at_once(machines[0]) or not step_file.exists(), 60)
    took_s = play.recovered()
    eventually(lambda: named("apply", two.process.pid), 60)
    report(f"an owner dies: {step}", took_s, play)
    play.check()


def test_reads_do_not_wait_for_a_paused_node(machines: tuple[Server, Server]) -> None:
    """Until the node is known to be down, an unanswered read is also sent to another node."""

    async def scene() -> list[float]:
        session = await connect(NODES, "reads", replicas=3)
        await session.define("CREATE TABLE IF NOT EXISTS numbers (number bigint PRIMARY KEY, square bigint)")
        await session.await_schema_agreement()
        await session.write_many(
            [("INSERT INTO numbers (number, square) VALUES (?, ?)", (n, n * n)) for n in range(READS)]
        )
        # prepares the statement, which one node does once
        await session.rows("SELECT square FROM numbers WHERE number = ?", 0)
        CASSANDRA.send(signal.SIGSTOP, 2)
        took_s = []
        for number in range(READS):
            began_s = time.monotonic()
            assert await session.rows("SELECT square FROM numbers WHERE number = ?", number) == [(number**2,)]
            took_s.append(time.monotonic() - began_s)
        CASSANDRA.send(signal.SIGCONT, 2)
        await session.define("DROP KEYSPACE reads")
        await session.close()
        return took_s

    took_s = asyncio.run(scene())
    print(
        f"a node stands still: the slowest read {max(took_s):.1f} s, "
        f"{sum(seconds > 0.5 for seconds in took_s)} above 0.5 s"
    )
    assert max(took_s) < ANSWER_TIMEOUT_S / 2


def test_reads_are_sent_to_a_node_that_has_the_row(machines: tuple[Server, Server]) -> None:
    """With one copy of each row, the reads that a node coordinates are exactly the reads that it serves locally."""

    async def read(node: int, table: str) -> int:
        """The number of reads of our table that a node counted."""
        only = acsylla.create_cluster([f"127.0.0.{node}"], port=CASSANDRA.port, whitelist_hosts=f"127.0.0.{node}")
        session = await only.create_session()
        counts = await session.query(f"SELECT keyspace_name, table_name, count FROM system_views.{table}")
        await session.close()
        return sum(row.count for row in counts if (row.keyspace_name, row.table_name) == ("copies", "numbers"))

    async def scene() -> list[tuple[int, int]]:
        session = await connect(NODES, "copies", replicas=1)
        await session.define("CREATE TABLE IF NOT EXISTS numbers (number bigint PRIMARY KEY)")
        await session.await_schema_agreement()
        await session.write_many([("INSERT INTO numbers (number) VALUES (?)", (n,)) for n in range(READS)])
        for number in range(READS):
            assert await session.rows("SELECT number FROM numbers WHERE number = ?", number) == [(number,)]
        shares = [
            (await read(node, "coordinator_read_latency"), await read(node, "local_read_latency")) for node in (1, 2, 3)
        ]
        await session.define("DROP KEYSPACE copies")
        await session.close()
        return shares

    shares = asyncio.run(scene())
    assert sum(local for _, local in shares) == READS
    assert all(coordinated == local for coordinated, local in shares), shares


def test_workers_that_get_events_again(machines: tuple[Server, Server]) -> None:
    """A worker killed before it saves its position gets the same events again. Posts still come home once."""
    play, killed = Workload(machines), 0
    for number in range(REDELIVERIES):
        machine = machines[number % 2]
        for worker in ("fanout", "webhooks"):
            for pid in named(worker, machine.process.pid):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        took_s = play.recovered()
        eventually(
            lambda machine=machine: all(
                named(name_of_worker, machine.process.pid) for name_of_worker in ("fanout", "webhooks")
            ),
            60,
        )
    report(f"{killed} workers killed", took_s, play)
    play.check()
    with machines[0].client() as http:
        for star in play.stars:
            http.headers["X-Kith-User"] = str(star)
            told_of = [
                (name_of_worker["type"], name_of_worker["actors"][0]["id"])
                for name_of_worker in ok(http.get(f"{API}/notifications?limit=50"))["items"]
            ]
            assert len(set(told_of)) == len(told_of), told_of


def test_damaged_snapshots_of_the_filter(machines: tuple[Server, Server]) -> None:
    """A process that starts does without them and answers right. The worker makes a new snapshot."""
    play, one = Workload(machines), machines[0]
    folder = one.data.parent.parent / SNAPSHOTS
    snapshots = Snapshots(FolderArchive(folder))
    assert eventually(snapshots.newest, 60)
    spoilt = sorted(folder.rglob("*.bloom"))
    for number, file in enumerate(spoilt):
        stored = bytearray(file.read_bytes())
        stored[len(stored) // 2] ^= 1
        file.write_bytes(stored[: -1 if number % 2 else None])
    assert snapshots.newest() is None
    play.expect_cuts()
    for machine in machines:
        for pid in named("api", machine.process.pid):
            os.kill(pid, signal.SIGKILL)
    took_s = play.recovered()
    assert all("a snapshot of the filter cannot be used" in machine.output() for machine in machines)
    play.check()
    for machine in machines:
        for pid in named("checks", machine.process.pid):
            os.kill(pid, signal.SIGKILL)
    assert eventually(snapshots.newest, 60)
    report("snapshots spoilt", took_s, play)


def report(fault: str, took_s: float, play: Workload) -> None:
    refusals, slowest_s = sum(actor.refused for actor in play.actors), max(actor.slowest_s for actor in play.actors)
    print(
        f"{fault}: everybody gets on after {took_s:.1f} s; {refusals} times 503, the slowest answer {slowest_s:.1f} s"
    )
