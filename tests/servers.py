"""Runs a real `kith serve`: starts it on a free port, waits until it is ready, stops it with SIGTERM.

Its output is shown if the test fails. `calls` reads answers.
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
"""Options for clients of servers without TLS. Otherwise each client would load all certificates (26 ms)."""
ON_CLUSTER = "TEST_ON_CLUSTER" in os.environ
"""Whether servers run on the engines that KITH_TEST_CASSANDRA, KITH_TEST_KAFKA and KITH_TEST_REDIS name."""
_START_S = 240.0
_REFUSED_S = 120.0
_STOP_S = 60.0
_POLL_S = 0.02

DEFAULT_SETTINGS = {
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
WITHOUT_KEYS = {name: value for name, value in DEFAULT_SETTINGS.items() if name != "KITH_API_KEYS"}
"""The default settings of servers in tests."""


class Server:
    """A running server. `key`: a valid server key."""

    def __init__(self, process: Forked, port: int, data: Path, output: Path, key: str) -> None:
        self.process, self.port, self.data, self._output, self.key = process, port, data, output, key
        self.url = f"http://127.0.0.1:{port}"

    def client(self, credential: str | None = None, acting: int | str | None = None, **options: Any) -> httpx.Client:
        """A client with a credential (default: the server key; "": none), acting as a user."""
        headers = dict(options.pop("headers", {}))
        if credential != "":
            headers["Authorization"] = f"Bearer {self.key if credential is None else credential}"
        if acting is not None:
            headers["X-Kith-User"] = str(acting)
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **PLAIN, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """A GET without credentials, over a new connection."""
        return httpx.get(self.url + path, **PLAIN, **options)

    def output(self) -> str:
        """All output so far."""
        return self._output.read_text(errors="replace")

    def ready(self) -> bool:
        """Whether /readyz answers 200."""
        try:
            return self.get("/readyz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False

    def terminate(self) -> int:
        """Send SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_S)


def named(kind: str, supervisor: int) -> list[int]:
    """The processes of a server with this name: `api`, or the first consumer of a worker."""
    tasks = Path(f"/proc/{supervisor}/task").glob("*/children")
    found = []
    for pid in [int(child) for task in tasks for child in task.read_text().split()]:
        with contextlib.suppress(OSError):  # it has just ended
            if Path(f"/proc/{pid}/comm").read_text().strip() == f"kith-{kind}"[:15]:
                found.append(pid)
    return found


def alive(pid: int | str) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # also "no such process", if it ended after the file was opened
        return False


def sign(user: int, *, secret: str = JWT_SECRET, algorithm: str = "HS256", ttl_s: int = 600, **claims: Any) -> str:
    """A user token as the app signs it. `claims` replace claims; None drops one."""
    now = int(time.time())
    all_claims = {"sub": str(user), "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + ttl_s, **claims}
    kept = {name: value for name, value in all_claims.items() if value is not None}
    return jwt.encode(kept, secret, algorithm=algorithm)


def free_port() -> int:
    """A free port."""
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


def comparable_order(changes: list[Any]) -> list[Any]:
    """Changes of several sources, comparable with what was written. One machine logs them in order of writing, so they
    stay as they are. A cluster keeps order within a partition only, so they are sorted.
    """
    return sorted(changes) if ON_CLUSTER else changes


def store_settings(folder: Path) -> dict[str, str]:
    """Settings with which a command finds the store of the server in `folder`, besides `--data`."""
    return on_cluster(keyspace_of(folder)) if ON_CLUSTER else {}


def keyspace_of(folder: Path) -> str:
    """The keyspace of the servers of a folder."""
    return "t" + hashlib.blake2b(f"{os.getpid()} {folder}".encode(), digest_size=8).hexdigest()


def launch(
    folder: Path,
    *arguments: str,
    port: int,
    output: Path,
    command: str = "serve",
    start_new_session: bool = False,
    **environment: str,
) -> Forked:
    """Start `kith serve` or another command. Its only KITH_ settings are those of `environment` and of the engines."""
    folder.mkdir(parents=True, exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KITH_")}
    with output.open("ab") as sink:
        return launcher().start(
            *(command, "--data", folder / "data", "--port", str(port), *arguments),
            cwd=folder,
            env={**clean, **store_settings(folder), **environment},
            stdout=sink,
            stderr=sink,
            start_new_session=start_new_session,
        )


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    port: int | None = None,
    command: str = "serve",
    start_new_session: bool = False,
    **changes: str,
) -> Iterator[Server]:
    """Run a server over `folder`/data; yields once it is ready. `settings` replaces all defaults, `changes` some.

    `command`: "api" for a server without workers.
    """
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"server-{port}.log"
    environment = {**(DEFAULT_SETTINGS if settings is None else settings), **changes}
    process = launch(
        folder,
        *arguments,
        port=port,
        output=output,
        command=command,
        start_new_session=start_new_session,
        **environment,
    )
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
    """Wait until the server is ready. Fails with its output if it stops or takes too long."""
    deadline = time.monotonic() + _START_S
    while not server.ready():
        if server.process.poll() is not None:
            raise AssertionError(f"the server stopped with {server.process.returncode}:\n{server.output()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"the server was not ready in {_START_S} s:\n{server.output()}")
        time.sleep(_POLL_S)


def refused(folder: Path, *arguments: str, port: int | None = None, **environment: str) -> str:
    """Start a server that must refuse to start; returns its output. Fails if its status is 0, or if it runs."""
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
    """The server key that a first start prints."""
    found = re.search(r"kith_[A-Za-z0-9_-]{20,}", server.output())
    return found.group(0) if found else None


def eventually(condition: Any, seconds: float = 30.0) -> Any:
    """Poll `condition()` until it is true; returns its value. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(_POLL_S)
    return answer
