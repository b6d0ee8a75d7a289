"""LinkBench's mix over HTTP; beside it PostgreSQL by pgbench, and a hand-written service.

All run on the same machine, in turns: Kith, then the peer, twice.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench import by_hand_peer, pgbench
from bench.figures import SECONDS, Figure, server, with_peer
from bench.load import Load, run
from bench.mix import MIX, READS, WRITES, Cast, cast_of, check_reads, requests
from bench.routes import client
from bench.town import town

_TURNS, _CONNECTIONS, _WRITE_CONNECTIONS = 2, 16, 64
_REQUESTS, _WRITES = 150_000, 40_000


class Turns(NamedTuple):
    """Results of several runs together."""

    loads: list[Load]

    @property
    def rate(self) -> float:
        """Requests a second over all runs."""
        return sum(load.requests for load in self.loads) / sum(load.seconds for load in self.loads)

    @property
    def p99_ms(self) -> float:
        """The p99 of the worse run, in ms."""
        return max(load.p99_ms for load in self.loads)


def _mixed(port: int, cast: Cast, mix: Mapping[str, float], turn: int, *, connections: int = _CONNECTIONS) -> Load:
    """One run of a mix. If the mix has writes, no request is sent twice."""
    count = _WRITES if mix is WRITES else _REQUESTS
    make = functools.partial(requests, cast.part(turn, _TURNS), mix, count, seed=turn)
    return run(port, make, connections=connections, seconds=SECONDS, once=mix is not READS)


def linkbench(folder: Path) -> list[Figure]:
    """The mix, and its reads alone."""
    at = town(folder)
    cast, settings = cast_of(at), at.copied("linkbench")
    mixed, reads = Turns([]), Turns([])
    theirs: dict[str, list[float]] = {"mix": [], "reads": []}
    with pgbench.filled(cast, at) as postgres, server(settings):
        with client(settings) as http:
            check_reads(http, at)
        for turn in range(_TURNS):
            mixed.loads.append(_mixed(settings.port, cast, MIX, turn))
            reads.loads.append(_mixed(settings.port, cast, READS, turn))
            if postgres is not None:
                theirs["mix"].append(postgres.rate(MIX, _CONNECTIONS))
                theirs["reads"].append(postgres.rate(READS, _CONNECTIONS))
    peer = "PostgreSQL by pgbench, prepared, 16 clients"
    return [
        with_peer(
            Figure("linkbench", mixed.rate, "requests/s", ">= 10,000, >= 0.5 of PostgreSQL", data=at.says),
            peer, _mean(theirs["mix"]),
        ),
        Figure("linkbench-p99", mixed.p99_ms, "ms", "", data=at.says),
        with_peer(
            Figure("linkbench-reads", reads.rate, "requests/s", ">= 20,000", data=at.says),
            peer, _mean(theirs["reads"]),
        ),
    ]  # fmt: skip


def _mean(rates: list[float]) -> float | None:
    return sum(rates) / len(rates) if rates else None


def by_hand(folder: Path) -> list[Figure]:
    """The mix, beside the same requests to FastAPI, asyncpg and PostgreSQL by hand; one process each."""
    at = town(folder)
    cast, settings = cast_of(at), at.copied("by-hand")
    ours, theirs = Turns([]), Turns([])
    with by_hand_peer.serving(at) as port, server(settings):
        for turn in range(_TURNS):
            ours.loads.append(_mixed(settings.port, cast, MIX, turn))
            if port is not None:
                theirs.loads.append(_mixed(port, cast, MIX, turn))
    figure = Figure("by-hand", ours.rate, "requests/s", ">= 4 times by hand", data=at.says)
    if not theirs.loads:
        return [figure]
    return [
        with_peer(figure, "by hand: FastAPI, uvicorn, asyncpg, PostgreSQL; 16 connections", theirs.rate),
        Figure("by-hand-p99", ours.p99_ms, "ms", "", "by hand", theirs.p99_ms, data=at.says),
    ]


def two_processes(folder: Path) -> list[Figure]:
    """What a second API process gains: the reads of the mix, and its writes, by one process and by two."""
    at = town(folder)
    cast = cast_of(at)
    figures = []
    for name, mix, connections in (("reads", READS, _CONNECTIONS), ("writes", WRITES, _WRITE_CONNECTIONS)):
        rates = []
        for workers in (1, 2):
            settings = at.copied(f"two-{name}", workers=workers)
            with server(settings):
                rates.append(_mixed(settings.port, cast, mix, 0, connections=connections).rate)
        says = f"{at.says}; {connections} connections"
        figure = Figure(f"two-processes-{name}", rates[1], "requests/s", "", data=says)
        figures.append(with_peer(figure, "one API process", rates[0]))
    return figures
