"""Writes random edges, records and notes as fast as it can and prints which were acknowledged, until it is killed.

    python writer.py FOLDER SEED [--durability full|relaxed] [--applies N] [--checkpoint-s S]
    python writer.py --zygote FOLDER

The first form writes in this process. The second reads commands from stdin, so that hundreds of writers cost one start
of the interpreter. `start SEED ACKS_FILE` forks a writer and answers its pid. `kill PID` kills it with SIGKILL and
answers when it is gone.

An acknowledgement is one line, written in one system call after `apply` has returned:

    graph source destination state position updated_at sequence
    record id version

The writes cover the hard parts of lists: a few hot nodes whose lists span many blocks, old and new positions, equal
and negative positions, every state, versions that lose, and several writers at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from kith.core.clock import Hlc, HybridClock, wall_ms
from kith.core.ids import NodeId
from kith.engines.embedded import checkpoints
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Durability, Environment
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import Edge, EdgeChange, EdgeWrite, State
from kith.records.store import Record, RecordKind

GRAPHS = ("follows", "likes")
WRITERS = 8
_HOT = (1, 2, 3)
_OTHERS = range(100, 1_600)  # against a hot node: up to 1,500 entries in a list, 25 blocks
_COLD = range(2_000, 2_060)
_STATES = (State.NORMAL,) * 6 + (State.REMOVED,) * 2 + (State.ARCHIVED, State.NEGATIVE)
_RECORDS, _NOTES = range(40), range(5)
_TIES = (7, 1_000_000, 1_650_000_000_000)


def random_write(chosen: random.Random, clock: HybridClock) -> EdgeWrite:
    """A random write: with the current version, or with one of its own that may lose."""
    if chosen.random() < 0.7:
        source, destination = chosen.choice(_HOT), chosen.choice(_OTHERS)
        if chosen.random() < 0.5:
            source, destination = destination, source
    else:
        source, destination = chosen.sample(_COLD, 2)
    kind, now = chosen.random(), wall_ms()
    if kind < 0.5:
        position = now
    elif kind < 0.7:
        position = chosen.randrange(now)
    elif kind < 0.9:
        position = chosen.choice(_TIES)
    else:
        position = -chosen.randrange(1, 1 << 62)
    version, supersede = clock.next(), chosen.random() < 0.6
    if not supersede:
        version = Hlc(version - (chosen.randrange(5_000) << 16))
    graph = chosen.randrange(1, len(GRAPHS) + 1)
    edge = Edge(graph, NodeId(source), NodeId(destination), chosen.choice(_STATES), position, version)
    return EdgeWrite(edge, supersede, keep_place=supersede and chosen.random() < 0.2)


def line_of(change: EdgeChange) -> str:
    """The line that acknowledges a write."""
    edge = change.after
    if edge is None:
        return ""
    fields = (edge.graph, edge.source, edge.destination, int(edge.state), edge.position, edge.updated_at)
    return " ".join(map(str, (*fields, int.from_bytes(change.log_position, "big")))) + "\n"


def content_of(id_: int, version: int) -> bytes:
    """The content of a record at this version. Some contents are larger than a row of the log."""
    return f"{id_} {version} ".encode() * (1 + version % 7 * (40 if id_ % 5 == 0 else 1))


async def put_some(store: EmbeddedEdges, records: EmbeddedRecords, chosen: random.Random, clock: HybridClock) -> str:
    """Put a record together with some edges, and change a note. Returns the acknowledgement."""
    id_, version = chosen.choice(_RECORDS), clock.next()
    record = Record(RecordKind.POST, id_, version, content_of(id_, version))
    put = await records.put([record], [random_write(chosen, clock) for _ in range(chosen.choice((0, 1, 3)))])
    await store.put_note(f"noted/{chosen.choice(_NOTES)}", chosen.choice((None, b"%d" % version)))
    return "".join(map(line_of, put.changes)) + f"record {id_} {version}\n"


def rewrite(batch: Transaction) -> None:
    """A commit that does not describe its changes, so that its group has no entry in the journal."""
    batch.skip_journal()
    batch.put_note("rewritten", os.urandom(1_000))


async def write_on(
    store: EmbeddedEdges, records: EmbeddedRecords, commits: CommitQueue, seed: int, applies: int | None
) -> None:
    """Run several writers at a time, forever or for `applies` calls each."""
    clock = HybridClock()
    store.restore_clock(clock)

    async def writer(number: int) -> None:
        chosen = random.Random(seed * WRITERS + number)
        turns: Iterator[int] = iter(range(applies)) if applies is not None else iter(int, 1)
        for _ in turns:
            size = chosen.choice((1, 1, 1, 2, 5, 20, 60))
            changes = await store.apply([random_write(chosen, clock) for _ in range(size)])
            os.write(1, "".join(map(line_of, changes)).encode())
            if chosen.random() < 0.2:
                await commits.run(rewrite)
            if chosen.random() < 0.4:
                os.write(1, (await put_some(store, records, chosen, clock)).encode())

    await asyncio.gather(*(writer(number) for number in range(WRITERS)))


def run(folder: Path, seed: int, applies: int | None = None, durability: Durability = "full") -> None:
    """Open the folder and write to it."""
    with Environment(folder, durability=durability) as environment:
        environment.declare(list(GRAPHS))
        commits = CommitQueue(environment)
        stores = EmbeddedEdges(environment, commits), EmbeddedRecords(environment, commits)
        try:
            asyncio.run(write_on(*stores, commits, seed, applies))
        finally:
            commits.close()


def zygote(folder: Path) -> None:
    """Fork and kill writers as commanded; see the module's docstring. This process has no LMDB open."""
    alive: set[int] = set()
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "start":
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(arguments[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
                try:
                    run(folder, int(arguments[0]))
                finally:
                    os._exit(1)
            alive.add(pid)
            print(pid, flush=True)
        else:
            pid = int(arguments[0])
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            alive.discard(pid)
            print(os.waitstatus_to_exitcode(status), flush=True)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zygote", action="store_true")
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--applies", type=int)
    parser.add_argument("--checkpoint-s", type=float, default=checkpoints.INTERVAL_S)
    parser.add_argument("--durability", choices=["full", "relaxed"], default="full")
    options = parser.parse_args()
    checkpoints.INTERVAL_S = options.checkpoint_s
    if options.zygote:
        zygote(options.folder)
    else:
        run(options.folder, options.seed, options.applies, cast(Durability, options.durability))


if __name__ == "__main__":
    main()
