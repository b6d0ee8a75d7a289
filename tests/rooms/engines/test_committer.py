"""A committer does what its process asks for, and nothing is lost or done twice when one of the two ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from cast import ALICE, BOB, CAROL
from edges import G, edge_of

from kith.core.errors import KithError, NotPrimary, StoreUnavailable
from kith.engines.embedded import committer, standing
from kith.engines.embedded.closed import Closed
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.committer import AskedJobs, Committer
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.edge import EdgeWrite, Outcome
from kith.graph.shapes import Pair


class Process:
    """One that asks, and its committer."""

    def __init__(self, edges: EmbeddedEdges, own: CommitQueue, committer: Committer) -> None:
        self.edges, self.own, self.committer = edges, own, committer
        self.ended, self.observer = Mock(), Mock()


@asynccontextmanager
async def asking(folder: Path, committer: Committer) -> AsyncIterator[Process]:
    """A process over a folder, whose committer was started before."""
    with Environment(folder, durability="relaxed") as environment:
        environment.declare(["follows"])
        own = CommitQueue(environment, committer=committer)
        process = Process(EmbeddedEdges(environment, own), own, committer)
        await committer.open(environment.graph_numbers().values(), process.observer, process.ended)
        yield process
        await committer.close()
        own.close()


def follow(source: int, destination: int, graph: int = G) -> EdgeWrite:
    """A write that changes nothing when it is repeated."""
    return EdgeWrite(msgspec.structs.replace(edge_of(source, destination), graph=graph))


def started(folder: Path, work: Callable[[CommitQueue], None] = CommitQueue.wait) -> Committer:
    """A committer of a folder. `work`: what it does with its queue, in place of waiting for the end."""

    def commit(asked: AskedJobs) -> None:
        if asked.wait_for_first():
            with Environment(folder, durability="relaxed") as environment:
                commits = CommitQueue(environment, source=asked, observer=asked)
                work(commits)
                commits.close()

    return committer.start(commit)


def stored(folder: Path, *pairs: Pair) -> list[bool]:
    """Which edges a store has that nobody has open."""
    with Environment(folder, durability="relaxed") as environment:
        commits = CommitQueue(environment)
        found = asyncio.run(EmbeddedEdges(environment, commits).exists_many(G, pairs))
        commits.close()
    return found


def stop(pid: int) -> None:
    """Stop a process; all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    while any(
        file.read_text().rpartition(")")[2].split()[0] != "T" for file in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        time.sleep(0.001)


def gone(pid: int, within_s: float = 10.0) -> bool:
    """Whether a child ends, which is waited for."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return True
        time.sleep(0.01)
    return False


def test_what_is_asked_for_is_answered_by_the_committer_and_counted_here(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, began) as process:
            first, again = await process.edges.apply([follow(ALICE, BOB), follow(ALICE, BOB)])
            assert (first.outcome, again.outcome) == (Outcome.APPLIED, Outcome.UNCHANGED)
            assert await process.edges.exists_many(G, [(ALICE, BOB), (ALICE, CAROL)]) == [True, False]
            (counted,) = process.observer.committed.call_args_list
            assert counted.args[:2] == (1, 2)
            assert process.own.depth == 0

    began = started(tmp_path)
    asyncio.run(ask())


def test_closing_waits_for_all_that_was_asked_for(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, began) as process:
            waiting = [asyncio.ensure_future(process.edges.apply([follow(ALICE, to)])) for to in range(100, 200)]
            await asyncio.sleep(0)
        assert all(one.result()[0].outcome is Outcome.APPLIED for one in waiting)
        process.ended.assert_not_called()

    began = started(tmp_path)
    asyncio.run(ask())
    assert all(stored(tmp_path, *((ALICE, to) for to in range(100, 200))))


def test_an_error_of_the_committer_is_the_same_here(tmp_path: Path) -> None:
    async def ask() -> KithError:
        async with asking(tmp_path, began) as process:
            standing.close_to_writes(process.edges._environment, Closed("fenced", "http://other:7777", 7))
            with pytest.raises(NotPrimary) as refused:
                await process.edges.apply([follow(ALICE, BOB)])
        return refused.value

    began = started(tmp_path)
    assert asyncio.run(ask()).details == {"primary": "http://other:7777"}


def test_who_waits_for_a_committer_that_is_killed_learns_it_and_the_process_is_replaced(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, began) as process:
            await process.edges.apply([follow(ALICE, BOB)])
            stop(began.pid)
            waiting = asyncio.ensure_future(process.edges.apply([follow(ALICE, CAROL)]))
            await asyncio.sleep(0.05)
            os.kill(began.pid, signal.SIGKILL)
            with pytest.raises(StoreUnavailable, match="may be stored; repeat it"):
                await waiting
            process.ended.assert_called_once_with()
            with pytest.raises(StoreUnavailable):
                await process.edges.apply([follow(ALICE, CAROL)])

    began = started(tmp_path)
    asyncio.run(ask())
    assert stored(tmp_path, (ALICE, BOB))[0]


def test_what_a_killed_process_had_asked_for_is_not_begun(tmp_path: Path) -> None:
    """Else a write that nobody waits for might come after what its author did next, elsewhere."""
    began = started(tmp_path)

    async def ask() -> None:
        with Environment(tmp_path, durability="relaxed") as environment:
            environment.declare(["follows"])
            own = CommitQueue(environment, committer=began)
            edges = EmbeddedEdges(environment, own)
            await began.open(environment.graph_numbers().values(), Mock(), Mock())
            await edges.apply([follow(ALICE, BOB)])
            stop(began.pid)
            waiting = asyncio.ensure_future(edges.apply([follow(ALICE, CAROL)]))
            await asyncio.sleep(0.05)
            assert began._transport is not None
            began._transport.abort()  # what the kernel does for a process that is killed
            await asyncio.sleep(0.05)
            os.kill(began.pid, signal.SIGCONT)
            with pytest.raises(StoreUnavailable):
                await waiting
            own.close()

    asyncio.run(ask())
    assert gone(began.pid)
    assert stored(tmp_path, (ALICE, BOB), (ALICE, CAROL)) == [True, False]


def test_a_committer_whose_process_never_opens_it_ends(tmp_path: Path) -> None:
    began = started(tmp_path)
    began._connection.close()
    assert gone(began.pid)


def test_edges_of_a_graph_that_was_declared_since_are_written_by_the_process_itself(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, began) as process:
            numbers = await process.edges.declare(["follows", "rates"])
            written = follow(ALICE, BOB, graph=numbers["rates"])
            assert (await process.edges.apply([written]))[0].outcome is Outcome.APPLIED
            process.observer.committed.assert_not_called()

    began = started(tmp_path)
    asyncio.run(ask())
