"""Runs the embedded engine in its own process, by commands on stdin, so that a test can make its disk fail.

    python engine.py FOLDER [BYTES_MAX [QUEUE_MAX]]

Each line on stdin is a JSON list and gets one JSON line on stdout:

- `["write", first, count]` adds edges `first -> first + 1, ...` and answers `{"sequence": ...}`.
- `["many", calls]` writes that many edges at once, one per call, and answers `{"done": ..., "refused": {code: times}}`.
- `["read", source, destination]` answers `{"exists": ...}`.
- `["count", node]` answers `{"count": ...}`.
- `["failed"]` answers whether the commit queue has given up.
- `["backup", folder]` backs the store up to that folder.

A `KithError` answers `{"error": code, "message": ...}`. Any other error ends the process with its traceback.
"""

from __future__ import annotations

import asyncio
import collections
import json
import sys
from pathlib import Path
from typing import Any

import structlog

from kith.core.clock import HybridClock
from kith.core.errors import KithError
from kith.core.ids import NodeId
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import BYTES_MAX_DEFAULT, Environment
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.shapes import Listing
from kith.run.backups.backup_maker import BackupMaker

HUB = 1_000_000_000
"""The destination of every edge of `write`."""


class CommandedEngine:
    """Runs the commands."""

    def __init__(self, environment: Environment, commits: CommitQueue) -> None:
        store = EmbeddedEdges(environment, commits)
        self._environment, self._commits, self._store, self._clock = environment, commits, store, HybridClock()
        store.restore_clock(self._clock)

    def _write(self, source: int, destination: int = HUB) -> EdgeWrite:
        version = self._clock.next()
        return EdgeWrite(Edge(1, NodeId(source), NodeId(destination), State.NORMAL, source, version), supersede=True)

    async def write(self, first: int, count: int) -> dict[str, Any]:
        changes = await self._store.apply([self._write(first + step) for step in range(count)])
        return {"sequence": int.from_bytes(changes[-1].log_position, "big")}

    async def many(self, calls: int) -> dict[str, Any]:
        calls_pending = [self._store.apply([self._write(5_000_000 + call)]) for call in range(calls)]
        answers = await asyncio.gather(*calls_pending, return_exceptions=True)
        refusals = collections.Counter(answer.code for answer in answers if isinstance(answer, KithError))
        return {"done": sum(isinstance(answer, list) for answer in answers), "refused": refusals}

    async def read(self, source: int, destination: int = HUB) -> dict[str, Any]:
        return {"exists": (await self._store.exists_many(1, [(source, destination)]))[0]}

    async def count(self, node: int = HUB) -> dict[str, Any]:
        return {"count": (await self._store.count_many([Listing(1, node, Direction.IN)]))[0]}

    async def backup(self, target: str) -> dict[str, Any]:
        await asyncio.to_thread(BackupMaker(self._environment, FolderArchive(Path(target)), None).make, whole=True)
        return {}

    async def sync(self) -> dict[str, Any]:
        """Make a checkpoint, so that the next one comes only after a write."""
        await asyncio.to_thread(self._environment.sync)
        return {}

    async def failed(self) -> dict[str, Any]:
        return {"failed": self._commits.failed}


async def answer_commands(engine: CommandedEngine) -> None:
    """Answer commands until stdin ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, *arguments = json.loads(line)
        try:
            answer = await getattr(engine, command)(*arguments)
        except KithError as error:
            answer = {"error": error.code, "message": error.message}
        print(json.dumps(answer), flush=True)


def main() -> None:
    """Run as a command."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for answers
    bounds = [int(number) for number in sys.argv[2:]]
    with Environment(Path(sys.argv[1]), bytes_max=bounds[0] if bounds else BYTES_MAX_DEFAULT) as environment:
        environment.declare(["follows"])
        commits = CommitQueue(environment, queue_max=bounds[1] if len(bounds) > 1 else 100_000)
        try:
            asyncio.run(answer_commands(CommandedEngine(environment, commits)))
        finally:
            commits.close()


if __name__ == "__main__":
    main()
