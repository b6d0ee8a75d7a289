"""FlockDB's interface: calls, ids and edges a second through one process of `kith flockdb`.

The clients run in processes of their own.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import thriftpy2.rpc
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.transport import TCyFramedTransportFactory, TTransportException

from bench.figures import SECONDS, Data, Figure, copied, free_port, imported, real_graph
from bench.town import follows_of
from kith.flockdb.interface import shapes

_CLIENTS = 8
_EDGES_A_CALL, _IDS_A_CALL = 100, 1_000
_PORT_WAIT_S = 30.0


def flockdb(folder: Path) -> list[Figure]:
    """Checks, pages of 20, pages of up to 1,000 ids, and edges added. Article 004 gives 20,000 writes and 100,000 reads
    a second for a cluster.
    """
    data = real_graph(folder)
    settings = copied(imported(folder, data), "flockdb")
    edges = follows_of(data)
    sources = edges[:, 0].tolist()
    with _door(str(settings.data)) as port:
        listed = _lists(port)
        return [
            _figure("flockdb-contains", port, _contains, sources, "calls/s", ">= 5 K", data),
            _figure("flockdb-select", port, _select20, listed, "calls/s", ">= 5 K", data),
            _figure("flockdb-ids", port, _select_ids, sources, "ids/s", ">= 100 K", data),
            _figure("flockdb-execute", port, _execute, sources, "edges/s", ">= 20 K", data),
        ]


@contextlib.contextmanager
def _door(data: str) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "kith", "flockdb", "--data", data, "--port", str(port)]
    process = subprocess.Popen(
        command, env={**os.environ, "KITH_FLOCKDB_GRAPHS": "1=follows"}, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.perf_counter() + _PORT_WAIT_S
        while time.perf_counter() < deadline:
            with contextlib.suppress(TTransportException):
                _client(port).close()
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def _client(port: int) -> Any:
    return thriftpy2.rpc.make_client(
        shapes.FlockDB,
        "127.0.0.1",
        port,
        proto_factory=TCyBinaryProtocolFactory(decode_response=False),
        trans_factory=TCyFramedTransportFactory(),
    )


def _lists(port: int) -> list[int]:
    """Make nodes with 50 followers at distinct positions; edges of an imported file may all have the same one."""
    client, nodes = _client(port), list(range(1 << 40, (1 << 40) + 1_000))
    for node in nodes:
        adding = [
            shapes.ExecuteOperation(
                operation_type=1, term=_term(node, follower.to_bytes(8, "little")), position=follower
            )
            for follower in range(1, 51)
        ]
        client.execute(shapes.ExecuteOperations(operations=adding, priority=3))
    client.close()
    return nodes


def _term(node: int, others: bytes | None = None) -> Any:
    return shapes.QueryTerm(source_id=node, graph_id=1, is_forward=False, destination_ids=others)


def _figure(
    name: str, port: int, call: Callable[..., int], sources: list[int], unit: str, budget: str, data: Data
) -> Figure:  # fmt: skip
    with multiprocessing.get_context("fork").Pool(_CLIENTS) as pool:
        done = pool.starmap(_load, [(port, call, sources, seed) for seed in range(_CLIENTS)])
    says = f"{data.says}; {_CLIENTS} connections, framed"
    return Figure(name, round(sum(done) / SECONDS), unit, budget, data=says, command="kith bench flockdb")


def _load(port: int, call: Callable[..., int], sources: list[int], seed: int) -> int:
    client, rng, done = _client(port), random.Random(seed), 0
    deadline = time.perf_counter() + SECONDS
    while time.perf_counter() < deadline:
        done += call(client, rng, sources)
    return done


def _contains(client: Any, rng: random.Random, sources: list[int]) -> int:
    client.contains(rng.choice(sources), 1, rng.choice(sources))
    return 1


def _query(source: int, count: int) -> Any:
    operations = [shapes.SelectOperation(operation_type=1, term=_term(source))]
    return shapes.SelectQuery(operations=operations, page=shapes.Page(count=count, cursor=-1))


def _select20(client: Any, rng: random.Random, sources: list[int]) -> int:
    client.select2([_query(rng.choice(sources), 20)])
    return 1


def _select_ids(client: Any, rng: random.Random, sources: list[int]) -> int:
    answers = client.select2([_query(rng.choice(sources), _IDS_A_CALL) for _ in range(10)])
    return sum(len(answer.ids) // 8 for answer in answers)


def _execute(client: Any, rng: random.Random, sources: list[int]) -> int:
    others = b"".join(rng.randrange(1 << 40).to_bytes(8, "little") for _ in range(_EDGES_A_CALL))
    term = shapes.QueryTerm(source_id=rng.choice(sources), graph_id=1, is_forward=True, destination_ids=others)
    operation = shapes.ExecuteOperation(operation_type=1, term=term)
    client.execute(shapes.ExecuteOperations(operations=[operation], priority=3))
    return _EDGES_A_CALL
