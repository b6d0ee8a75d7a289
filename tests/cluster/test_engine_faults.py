"""Servers of Cassandra, Kafka and Redis are killed, stopped and emptied while people write to two machines of Kith.

What was answered is there, once: rows, both ends, counts, posts, names, homes. What is not answered says so, in time.
All goes on without a hand. How long until everybody gets on is printed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from acting import Play
from servers import Server, keyspace_of, named, on_cluster, serving
from three import CASSANDRA, KAFKA, KAFKAS, REDIS, REDIS_PORTS, Servers, ask_redis, masters, redis_is_whole

STOPPED_S = 10.0
Node = tuple[Servers, Callable[[], int]]
ONE: dict[str, Node] = {
    "cassandra": (CASSANDRA, lambda: 2),
    "kafka": (KAFKA, lambda: 2),
    "redis": (REDIS, lambda: masters()[0]),
}
AFFECTED = [*([name] for name in ONE), [*ONE]]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two machines that serve one community on three servers of each engine."""
    folder = tmp_path_factory.mktemp("machines")
    with ExitStack() as opened:
        for engine, nodes in ((REDIS, []), (KAFKA, ["3"]), (CASSANDRA, ["3"])):
            opened.callback(engine.script, "down")
            engine.script("up", *nodes)
        settings = on_cluster(keyspace_of(folder)) | {
            "KITH_CASSANDRA": ",".join(f"127.0.0.{node}:{CASSANDRA.port}" for node in (1, 2, 3)),
            "KITH_KAFKA": KAFKAS,
            "KITH_REDIS": ",".join(f"127.0.0.1:{port}" for port in REDIS_PORTS),
            "KITH_CLUSTER_COPIES": "3",
        }
        yield (
            opened.enter_context(serving(folder / "one", **settings)),
            opened.enter_context(serving(folder / "two", **settings)),
        )


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


def test_redis_that_is_emptied(machines: tuple[Server, Server]) -> None:
    play = Play(machines)
    for port in masters():
        assert ask_redis(port, "flushall").strip() == "OK"
    told("Redis emptied", play.recovered(), play)
    play.check()


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
