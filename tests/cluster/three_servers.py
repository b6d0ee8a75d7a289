"""Three servers of each engine, for tests that kill some. Their ports are 100 above those for other tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from servers import eventually

CLUSTER = Path(__file__).parents[2] / "cluster"


class Servers:
    """The servers of one engine, managed by `cluster/ENGINE.sh`."""

    def __init__(self, engine: str, port: int) -> None:
        self._engine, self._variable = engine, f"KITH_{engine.upper()}_PORT"
        self.port = int(os.environ.get(self._variable, port)) + 100

    def script(self, *arguments: str) -> None:
        variables = os.environ | {self._variable: str(self.port)}
        subprocess.run([CLUSTER / f"{self._engine}.sh", *arguments], env=variables, check=True)

    def pid(self, node: int) -> int:
        """The process id of a server. `node`: its number; for Redis its port."""
        return int((CLUSTER / "run" / f"{self._engine}-{self.port}" / str(node) / "pid").read_text())

    def send(self, number: signal.Signals, node: int) -> None:
        """Send a signal to a server, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(node), number)

    def restart(self, node: int) -> None:
        """Restart a killed server, and wait until it is ready."""
        self.script("start", str(node))
        self.script("until_ready", str(node))


CASSANDRA, KAFKA, REDIS = Servers("cassandra", 19042), Servers("kafka", 19092), Servers("redis", 17001)
KAFKA_ADDRESSES = ",".join(f"127.0.0.1:{KAFKA.port + at}" for at in range(3))
REDIS_PORTS = range(REDIS.port, REDIS.port + 6)


def ask_redis(port: int, *command: str) -> str:
    """The answer of a Redis node; empty if it does not answer within 5 s."""
    arguments = ["timeout", "5", "redis-cli", "-p", str(port), *command]
    return subprocess.run(arguments, check=False, capture_output=True, text=True).stdout


def masters(ports: Iterable[int] = REDIS_PORTS) -> list[int]:
    """The ports of the Redis nodes that are primaries now."""
    return [port for port in ports if ask_redis(port, "role").startswith("master")]


def wait_for_replicas() -> None:
    """Wait until each primary has a replica that follows it, so that any of them may be killed."""

    def whole() -> bool:
        infos = [ask_redis(port, "cluster", "info") for port in REDIS_PORTS]
        followed = [ask_redis(port, "role").split("\n")[2:3] not in ([], [""]) for port in masters()]
        return all("cluster_state:ok" in info for info in infos) and followed == [True] * 3

    eventually(whole, 120)
