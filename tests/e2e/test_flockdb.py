"""`kith flockdb` beside a server, as clients of FlockDB see it: one data folder, two APIs, and a kill."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import thriftpy2.rpc
from commands import CLEAN, KITH, free_port, kith_in, refused
from flockdb_client import ADD, ARCHIVE, HIGH, LOW, page, selected, simple, term
from servers import eventually, serving
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.transport import TTransportException

from kith.flockdb.interface import shapes


@contextlib.contextmanager
def door(data: Path, **settings: str) -> Iterator[tuple[Any, subprocess.Popen[bytes]]]:
    """A client of `kith flockdb`, and its process."""
    port = free_port()
    command = [*KITH, "flockdb", "--data", str(data), "--port", port]
    process = subprocess.Popen(command, env={**CLEAN, "KITH_FLOCKDB_GRAPHS": "1=follows,2=blocks", **settings})
    try:
        yield eventually(lambda: client(int(port)), 30), process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGKILL)


def client(port: int) -> Any:
    factory = TCyBinaryProtocolFactory(decode_response=False)
    try:
        return thriftpy2.rpc.make_client(shapes.FlockDB, "127.0.0.1", port, proto_factory=factory, timeout=20_000)
    except TTransportException:
        return None


def execute(flock: Any, change: int, asked: Any, priority: int = HIGH) -> None:
    operation = shapes.ExecuteOperation(operation_type=change, term=asked)
    flock.execute(shapes.ExecuteOperations(operations=[operation], priority=priority))


def ids(flock: Any, source: int) -> list[int]:
    query = shapes.SelectQuery(operations=[simple(source)], page=page(1_000))
    return selected(flock.select2([query])[0]).ids


def test_both_apis_serve_the_same_graph(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as server,
        door(server.data, KITH_DURABILITY="relaxed") as (flock, _),
        server.client(acting=5) as http,
    ):
        assert http.post("/api/v1/users/6/follow").status_code == 200
        assert flock.contains(5, 1, 6)
        execute(flock, ADD, term(5, others=[7, 8]))
        assert {item["id"] for item in http.get("/api/v1/users/5/following").json()["items"]} == {"6", "7", "8"}


def test_acknowledged_operations_are_done_after_a_kill(tmp_path: Path) -> None:
    with door(tmp_path / "data") as (flock, process):
        execute(flock, ADD, term(1, others=range(10, 3_010)))
        execute(flock, ARCHIVE, term(1))
        execute(flock, ADD, term(2, others=[3]), LOW)
        process.kill()
        process.wait()
    with door(tmp_path / "data") as (flock, _):
        eventually(lambda: ids(flock, 1) == [] and ids(flock, 2) == [3])
        assert flock.count([simple(1, states=[2])]) == 3_000


def test_an_address_of_another_machine_is_refused_with_what_to_do(tmp_path: Path) -> None:
    kith = kith_in(tmp_path)
    asked = ("flockdb", "--data", "data", "--port", free_port(), "--host", "203.0.113.9")
    said = refused(kith(*asked, KITH_FLOCKDB_GRAPHS="1=follows", KITH_LOG_LEVEL="error"))
    assert "name with --host an address of this machine" in said


@pytest.mark.parametrize(
    ("graphs", "match"),
    [("", "flockdb_graphs"), ("1=likes", "POST /posts"), ("1=nobody", "nobody"), ("1=follows,1=blocks", "twice"),
     ("one=follows", "such as `1=follows`")],
    ids=["none", "kept by a route", "unknown", "twice", "malformed"],
)  # fmt: skip
def test_graphs_that_cannot_be_served_are_refused(tmp_path: Path, graphs: str, match: str) -> None:
    run = subprocess.run(
        [*KITH, "flockdb", "--data", str(tmp_path / "data"), "--port", free_port()],
        env={**CLEAN, "KITH_FLOCKDB_GRAPHS": graphs},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert match in run.stderr
    assert "Traceback" not in run.stderr
