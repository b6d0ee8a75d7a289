"""A real `kith serve` for tests: started on a free port, waited for, stopped with SIGTERM, its output kept.

How an answer reads is in `calls`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
from forking import Forked, launcher

KEY = "kith_key-of-the-tests"
OTHER_KEY = "kith_another-key-of-the-tests"
JWT_SECRET = "a secret that only the tests sign user tokens with"
ISSUER, AUDIENCE = "tests-app", "tests-kith"
FOLLOWS_MAX = 30
COMMAND = str(Path(sys.executable).with_name("kith"))
API = "/api/v1"
PLAIN: dict[str, Any] = {"trust_env": False, "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}
"""For clients of servers without TLS: httpx would read all certificates of the machine for each (26 ms)."""
ON_CLUSTER = "TEST_ON_CLUSTER" in os.environ
"""Whether servers run on the distributed engines that KITH_TEST_CASSANDRA and its like name."""
_START_S = 240.0
_REFUSED_S = 120.0
_STOP_S = 60.0
_POLL_S = 0.02

AGREED = {
    "KITH_WORKERS": "1",
    "KITH_API_KEYS": f"{KEY},{OTHER_KEY}",
    "KITH_JWT_SECRET": JWT_SECRET,
    "KITH_JWT_ISSUER": ISSUER,
    "KITH_JWT_AUDIENCE": AUDIENCE,
    "KITH_FOLLOWS_MAX": str(FOLLOWS_MAX),
    "KITH_RATE_USER_READ": "0",
    "KITH_RATE_USER_WRITE": "0",
    "KITH_RATE_FEED_PER_MINUTE": "0",
    "KITH_RATE_POSTS_PER_HOUR": "0",
    "KITH_RATE_ENGAGEMENT_PER_MINUTE": "0",
    "KITH_RATE_MEDIA_PER_HOUR": "0",
    "KITH_DURABILITY": "relaxed",
    "KITH_LOG_LEVEL": "debug",
}
"""The settings of a server unless a test says otherwise."""


class Server:
    """A running server. `key`: a server key it lets in."""

    def __init__(self, process: Forked, port: int, data: Path, output: Path, key: str) -> None:
        self.process, self.port, self.data, self._output, self.key = process, port, data, output, key
        self.url = f"http://127.0.0.1:{port}"

    def client(self, credential: str | None = None, acting: int | str | None = None, **options: Any) -> httpx.Client:
        """A client with a credential (default: the server key; "" for none), acting for a user."""
        headers = dict(options.pop("headers", {}))
        if credential != "":
            headers["Authorization"] = f"Bearer {self.key if credential is None else credential}"
        if acting is not None:
            headers["X-Kith-User"] = str(acting)
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **PLAIN, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """What it answers to anybody, over a connection of its own."""
        return httpx.get(self.url + path, **PLAIN, **options)

    def output(self) -> str:
        """Everything it has printed."""
        return self._output.read_text(errors="replace")

    def ready(self) -> bool:
        """Whether it answers /readyz with 200."""
        try:
            return self.get("/readyz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False

    def terminate(self) -> int:
        """SIGTERM, and the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_S)


def named(kind: str, supervisor: int) -> list[int]:
    """The processes of a server that are named so (`api`, or the first of a worker's consumers)."""
    tasks = Path(f"/proc/{supervisor}/task").glob("*/children")
    found = []
    for pid in [int(child) for task in tasks for child in task.read_text().split()]:
        with contextlib.suppress(OSError):  # it has just died
            if Path(f"/proc/{pid}/comm").read_text().strip() == f"kith-{kind}"[:15]:
                found.append(pid)
    return found


def alive(pid: int | str) -> bool:
    """Whether there is such a process, other than as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # also "no such process", where it ended between the opening and the reading
        return False


def sign(user: int, *, secret: str = JWT_SECRET, algorithm: str = "HS256", ttl_s: int = 600, **claims: Any) -> str:
    """A user token as the app signs it; `claims` replace or (None) drop claims."""
    now = int(time.time())
    all_claims = {"sub": str(user), "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + ttl_s, **claims}
    kept = {name: value for name, value in all_claims.items() if value is not None}
    return jwt.encode(kept, secret, algorithm=algorithm)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def on_cluster(keyspace: str) -> dict[str, str]:
    """Settings of a server on the distributed engines of the tests."""
    nodes = {f"KITH_{name}": os.environ.get(f"KITH_TEST_{name}", "") for name in ("CASSANDRA", "KAFKA", "REDIS")}
    return nodes | {
        "KITH_ENGINE": "cluster",
        "KITH_CASSANDRA_KEYSPACE": keyspace,
        "KITH_CLUSTER_COPIES": "1",
        "KITH_CLUSTER_PARTITIONS": os.environ.get("TEST_PARTITIONS", "4"),
    }


def told_in_order(changes: list[Any]) -> list[Any]:
    """What is told of different sources in the order of the log, which is one on one machine, and a partition's on a
    cluster: there any order is as good."""
    return sorted(changes) if ON_CLUSTER else changes


def of_server(folder: Path) -> dict[str, str]:
    """Settings that a command needs besides the folder's data to find the store of a server in `folder`."""
    return on_cluster(keyspace_of(folder)) if ON_CLUSTER else {}


def keyspace_of(folder: Path) -> str:
    """A name of its own for what the servers of a folder keep."""
    return "t" + hashlib.blake2b(f"{os.getpid()} {folder}".encode(), digest_size=8).hexdigest()


def launch(
    folder: Path, *arguments: str, port: int, output: Path, command: str = "serve", **environment: str
) -> Forked:
    """`kith serve`, or another command, in a process of its own, with settings from `environment` only."""
    folder.mkdir(parents=True, exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
    with output.open("ab") as sink:
        return launcher().start(
            *(command, "--data", folder / "data", "--port", str(port), *arguments),
            cwd=folder,
            env={**clean, **of_server(folder), **environment},
            stdout=sink,
            stderr=sink,
        )


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    port: int | None = None,
    command: str = "serve",
    **changes: str,
) -> Iterator[Server]:
    """A server over `folder`/data that is ready. `settings` replaces AGREED, `changes` adds to it.

    `command`: "api" for one without workers.
    """
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"server-{port}.log"
    environment = {**(AGREED if settings is None else settings), **changes}
    process = launch(folder, *arguments, port=port, output=output, command=command, **environment)
    server = Server(process, port, folder / "data", output, KEY)
    try:
        wait_ready(server)
        if "KITH_API_KEYS" not in environment:
            server.key = printed_key(server) or ""
        yield server
    except BaseException:
        print(f"--- output of the server on port {port} ---\n{server.output()[-8_000:]}")
        raise
    finally:
        try:
            server.terminate()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def wait_ready(server: Server) -> None:
    """Until /readyz answers; fails with the output if the server stops or takes too long."""
    deadline = time.monotonic() + _START_S
    while not server.ready():
        if server.process.poll() is not None:
            raise AssertionError(f"the server stopped with {server.process.returncode}:\n{server.output()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"the server was not ready in {_START_S} s:\n{server.output()}")
        time.sleep(_POLL_S)


def refused(folder: Path, *arguments: str, port: int | None = None, **environment: str) -> str:
    """The output of a server that must refuse to start with a status other than 0."""
    output = folder / "refused.log"
    output.unlink(missing_ok=True)
    process = launch(folder, *arguments, port=port or free_port(), output=output, **environment)
    try:
        status = process.wait(_REFUSED_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait(_STOP_S)
        raise AssertionError(f"the server started:\n{output.read_text()}") from None
    assert status != 0
    return output.read_text(errors="replace")


def printed_key(server: Server) -> str | None:
    """The server key that the first start prints."""
    found = re.search(r"kith_[A-Za-z0-9_-]{20,}", server.output())
    return found.group(0) if found else None


def eventually(condition: Any, seconds: float = 30.0) -> Any:
    """The first true answer of `condition()`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(_POLL_S)
    return answer
