"""Three servers of each engine for tests that kill some of them, beside those of other tests: at ports 100 higher."""

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
    """The servers of one engine, by `cluster/ENGINE.sh`."""

    def __init__(self, engine: str, port: int) -> None:
        self._engine, self._variable = engine, f"KITH_{engine.upper()}_PORT"
        self.port = int(os.environ.get(self._variable, port)) + 100

    def script(self, *arguments: str) -> None:
        variables = os.environ | {self._variable: str(self.port)}
        subprocess.run([CLUSTER / f"{self._engine}.sh", *arguments], env=variables, check=True)

    def pid(self, node: int) -> int:
        """The process of a server: by its number, or of Redis by its port."""
        return int((CLUSTER / "run" / f"{self._engine}-{self.port}" / str(node) / "pid").read_text())

    def send(self, number: signal.Signals, node: int) -> None:
        """Send a signal to a server. Nothing to one that has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(node), number)

    def again(self, node: int) -> None:
        """Start one that was killed, and wait until it is ready."""
        self.script("start", str(node))
        self.script("until_ready", str(node))


CASSANDRA, KAFKA, REDIS = Servers("cassandra", 19042), Servers("kafka", 19092), Servers("redis", 17001)
KAFKAS = ",".join(f"127.0.0.1:{KAFKA.port + at}" for at in range(3))
REDIS_PORTS = range(REDIS.port, REDIS.port + 6)


def ask_redis(port: int, *command: str) -> str:
    """What a node of Redis answers; nothing where it does not."""
    asking = ["timeout", "5", "redis-cli", "-p", str(port), *command]
    return subprocess.run(asking, check=False, capture_output=True, text=True).stdout


def masters(ports: Iterable[int] = REDIS_PORTS) -> list[int]:
    """Nodes of Redis that are primaries now."""
    return [port for port in ports if ask_redis(port, "role").startswith("master")]


def redis_is_whole() -> None:
    """Wait until each primary has a replica that follows it: so any of them may be killed."""

    def whole() -> bool:
        known = [ask_redis(port, "cluster", "info") for port in REDIS_PORTS]
        followed = [ask_redis(port, "role").split("\n")[2:3] not in ([], [""]) for port in masters()]
        return all("cluster_state:ok" in one for one in known) and followed == [True] * 3

    eventually(whole, 120)
