"""Servers of Cassandra, Kafka and Redis are killed, stopped and emptied while people write to two machines of Kith.

What was answered is there, once: rows, both ends, counts, posts, names, homes. What is not answered says so, in time.
All goes on without a hand. How long until everybody gets on is printed.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from acting import Play
from network import Way, can_be_cut, network, serving_inside
from servers import API, Server, eventually, keyspace_of, named, on_cluster, serving
from three import CASSANDRA, KAFKA, KAFKAS, REDIS, REDIS_PORTS, Servers, ask_redis, masters, redis_is_whole

from kith.core.ids import made_at_ms

STOPPED_S = 10.0
Node = tuple[Servers, Callable[[], int]]
ONE: dict[str, Node] = {
    "cassandra": (CASSANDRA, lambda: 2),
    "kafka": (KAFKA, lambda: 2),
    "redis": (REDIS, lambda: masters()[0]),
}
AFFECTED = [*([name] for name in ONE), [*ONE]]
ADDRESSES = {
    "cassandra": [(f"127.0.0.{node}", CASSANDRA.port) for node in (1, 2, 3)],
    "kafka": [("127.0.0.1", KAFKA.port + at) for at in range(3)],
    "redis": [("127.0.0.1", port) for port in REDIS_PORTS],
}
CLOCK = "seconds ahead"
"""A file of the second machine, beside its data."""
AHEAD_S = 600
Ways = dict[str, list[Way]]


@pytest.fixture(scope="module")
def ways() -> Ways:
    """What leads from the second machine to each engine, where that can be cut."""
    return {}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, ways: Ways) -> Iterator[tuple[Server, Server]]:
    """Two machines that serve one community on three servers of each engine; the second in a network of its own."""
    folder = tmp_path_factory.mktemp("machines")
    with ExitStack() as opened:
        for engine, nodes in ((REDIS, []), (KAFKA, ["3"]), (CASSANDRA, ["3"])):
            opened.callback(engine.script, "down")
            engine.script("up", *nodes)
        skewed = os.pathsep.join([str(Path(__file__).parent / "skewed"), os.environ.get("PYTHONPATH", "")])
        settings = on_cluster(keyspace_of(folder)) | {
            "KITH_CASSANDRA": ",".join(f"127.0.0.{node}:{CASSANDRA.port}" for node in (1, 2, 3)),
            "KITH_KAFKA": KAFKAS,
            "KITH_REDIS": ",".join(f"127.0.0.1:{port}" for port in REDIS_PORTS),
            "KITH_CLUSTER_COPIES": "3",
        }
        one = opened.enter_context(serving(folder / "one", **settings))
        settings |= {"PYTHONPATH": skewed, "TEST_CLOCK_FILE": str(folder / "two" / CLOCK)}
        if not can_be_cut():
            yield one, opened.enter_context(serving(folder / "two", **settings))
            return
        inside, way = opened.enter_context(network([at for some in ADDRESSES.values() for at in some]))
        ways.update({engine: [way[at] for at in some] for engine, some in ADDRESSES.items()})
        yield one, opened.enter_context(serving_inside(inside, folder / "two", **settings))


@pytest.mark.parametrize("engines", AFFECTED, ids="-".join)
def test_servers_that_are_killed(machines: tuple[Server, Server], engines: list[str]) -> None:
    play = Play(machines)
    nodes = [(ONE[name][0], ONE[name][1]()) for name in engines]
    for engine, node in nodes:
        engine.send(signal.SIGKILL, node)
    took_s = play.recovered()
    for engine, node in nodes:
        engine.again(node)
    play.recovered()
    told(f"killed: {' and '.join(engines)}", took_s, play)
    play.check()
    redis_is_whole()


@pytest.mark.parametrize("engines", AFFECTED, ids="-".join)
def test_servers_that_stand_still_for_ten_seconds(machines: tuple[Server, Server], engines: list[str]) -> None:
    play = Play(machines)
    nodes = [(ONE[name][0], ONE[name][1]()) for name in engines]
    for engine, node in nodes:
        engine.send(signal.SIGSTOP, node)
    stopped_s = took_s = play.recovered()
    while stopped_s < STOPPED_S:
        stopped_s += play.recovered()
    for engine, node in nodes:
        engine.send(signal.SIGCONT, node)
    play.recovered()
    told(f"stopped: {' and '.join(engines)}", took_s, play)
    play.check()
    redis_is_whole()


@pytest.mark.parametrize("engine", ONE)
def test_a_machine_that_is_cut_off_from_an_engine(machines: tuple[Server, Server], ways: Ways, engine: str) -> None:
    if not ways:
        pytest.skip("networks are made by root, with `ip`")
    play = Play(machines)
    for way in ways[engine]:
        way.cut()
    took_s = play.recovered()
    for way in ways[engine]:
        way.mend()
    play.recovered()
    told(f"cut off from {engine}", took_s, play)
    play.check()


def test_a_broker_whose_disk_is_full(machines: tuple[Server, Server]) -> None:
    """No file of it can grow: that is what it is told where there is no room."""
    play = Play(machines)
    resource.prlimit(KAFKA.pid(2), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    took_s = play.recovered()
    KAFKA.send(signal.SIGKILL, 2)
    KAFKA.again(2)
    play.recovered()
    told("a broker's disk full", took_s, play)
    play.check()


def test_redis_that_is_emptied(machines: tuple[Server, Server]) -> None:
    play = Play(machines)
    for port in masters():
        assert ask_redis(port, "flushall").strip() == "OK"
    told("Redis emptied", play.recovered(), play)
    play.check()


def test_a_machine_whose_clock_jumps_ten_minutes_ahead(machines: tuple[Server, Server]) -> None:
    """It writes nothing, says so, and is not ready; once the clock is right it goes on by itself."""
    play, two = Play(machines), machines[1]
    clock = two.data.parent / CLOCK
    clock.write_text(str(AHEAD_S))
    took_s = play.recovered()
    assert f"clock is {AHEAD_S:+} s off" in eventually(lambda: not_ready(two))
    with two.client(acting=play.reader) as http:
        refused = http.post(f"{API}/posts", json={"content": {"text": "of a time to come"}})
        assert refused.status_code == 503
        assert f"clock is {AHEAD_S:+} s off" in refused.text
    clock.unlink()
    eventually(lambda: not not_ready(two))
    play.recovered()
    told("a clock ten minutes ahead", took_s, play)
    play.check()
    now_ms = time.time() * 1_000
    assert all(made_at_ms(post) < now_ms for actor in play.actors for post in actor.posts)


def not_ready(machine: Server) -> str:
    """Why it is not; "" where it is."""
    try:
        answer = machine.get("/readyz")
    except httpx.HTTPError as error:  # its process is just replaced
        return repr(error)
    return "" if answer.status_code == 200 else answer.text


def test_an_owner_that_is_paused_and_wakes_up(machines: tuple[Server, Server]) -> None:
    """Others take over what it owned; then two believe that they own it."""
    play = Play(machines)
    (pid,) = named("apply", machines[0].process.pid)
    os.kill(pid, signal.SIGSTOP)
    took_s = play.recovered()
    os.kill(pid, signal.SIGCONT)
    play.recovered()
    told("an owner paused", took_s, play)
    play.check()


def test_an_owner_that_is_killed(machines: tuple[Server, Server]) -> None:
    play = Play(machines)
    (pid,) = named("apply", machines[0].process.pid)
    os.kill(pid, signal.SIGKILL)
    told("an owner killed", play.recovered(), play)
    play.check()


def told(what: str, took_s: float, play: Play) -> None:
    refused, slowest_s = sum(actor.refused for actor in play.actors), max(actor.slowest_s for actor in play.actors)
    print(f"{what}: everybody gets on after {took_s:.1f} s; {refused} times 503, the slowest answer {slowest_s:.1f} s")
