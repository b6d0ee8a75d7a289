"""A committer does the writes of its process; nothing is lost or done twice when either of the two ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
import uvloop
from cast import ALICE, BOB, CAROL
from edges import G, edge_of

from kith.core.clock import Hlc
from kith.core.errors import KithError, NotPrimary, StoreUnavailable
from kith.engines.embedded import committer, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.committer import Committer, ReceivedJobs
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.merging import MergeEdges
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import EdgeWrite, Outcome
from kith.graph.shapes import Pair
from kith.records.store import Record, RecordKind


class Process:
    """A process that asks for writes, and its committer."""

    def __init__(self, edges: EmbeddedEdges, own: CommitQueue, committer: Committer) -> None:
        self.edges, self.own, self.committer = edges, own, committer
        self.ended, self.observer = Mock(), Mock()


@asynccontextmanager
async def asking(folder: Path, committer: Committer, silent_s: int = 60) -> AsyncIterator[Process]:
    """A process over a folder; its committer was started before."""
    with Environment(folder, durability="relaxed") as environment:
        environment.declare(["follows"])
        own = CommitQueue(environment, committer=committer)
        process = Process(EmbeddedEdges(environment, own), own, committer)
        await committer.open(environment.graph_numbers().values(), process.observer, process.ended, silent_s)
        yield process
        await committer.close()
        own.close()


def follow(source: int, destination: int, graph: int = G) -> EdgeWrite:
    """A write that changes nothing when it is repeated."""
    return EdgeWrite(msgspec.structs.replace(edge_of(source, destination), graph=graph))


def started(folder: Path) -> Committer:
    """Start a committer of a folder."""

    def commit(jobs: ReceivedJobs) -> None:
        if jobs.wait_for_first():
            with Environment(folder, durability="relaxed") as environment:
                committer.run_committer(CommitQueue(environment, source=jobs, observer=jobs), jobs)

    return committer.start(commit)


def stored(folder: Path, *pairs: Pair) -> list[bool]:
    """Which of these edges a store has. No process may have it open."""
    with Environment(folder, durability="relaxed") as environment:
        commits = CommitQueue(environment)
        exists = asyncio.run(EmbeddedEdges(environment, commits).exists_many(G, pairs))
        commits.close()
    return exists


def stop(pid: int) -> None:
    """Stop a process and wait until all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    while any(
        file.read_text().rpartition(")")[2].split()[0] != "T" for file in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        time.sleep(0.001)


def has_ended(pid: int, within_s: float = 10.0) -> bool:
    """Wait for a child process to end; return whether it did in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return True
        time.sleep(0.01)
    return False


def test_writes_are_answered_by_the_committer_and_counted_in_its_process(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            first, repeated = await process.edges.apply([follow(ALICE, BOB), follow(ALICE, BOB)])
            assert (first.outcome, repeated.outcome) == (Outcome.APPLIED, Outcome.UNCHANGED)
            assert await process.edges.exists_many(G, [(ALICE, BOB), (ALICE, CAROL)]) == [True, False]
            (counted,) = process.observer.committed.call_args_list
            assert counted.args[:2] == (1, 2)
            assert process.own.depth == 0

    process_of_committer = started(tmp_path)
    asyncio.run(ask())


def test_closing_waits_for_all_pending_writes(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            waiting = [asyncio.ensure_future(process.edges.apply([follow(ALICE, to)])) for to in range(100, 200)]
            await asyncio.sleep(0)
        assert all(task.result()[0].outcome is Outcome.APPLIED for task in waiting)
        process.ended.assert_not_called()

    process_of_committer = started(tmp_path)
    asyncio.run(ask())
    assert all(stored(tmp_path, *((ALICE, to) for to in range(100, 200))))


def test_an_error_of_the_committer_reaches_its_process_unchanged(tmp_path: Path) -> None:
    async def ask() -> KithError:
        async with asking(tmp_path, process_of_committer) as process:
            store_role.close_to_writes(process.edges._environment, ClosedNote("fenced", "http://other:7777", 7))
            with pytest.raises(NotPrimary) as raised:
                await process.edges.apply([follow(ALICE, BOB)])
        return raised.value

    process_of_committer = started(tmp_path)
    assert asyncio.run(ask()).details == {"primary": "http://other:7777"}


def test_a_write_that_waits_for_a_killed_committer_fails_and_the_process_is_replaced(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            await process.edges.apply([follow(ALICE, BOB)])
            stop(process_of_committer.pid)
            waiting = asyncio.ensure_future(process.edges.apply([follow(ALICE, CAROL)]))
            await asyncio.sleep(0.05)
            os.kill(process_of_committer.pid, signal.SIGKILL)
            with pytest.raises(StoreUnavailable, match="may or may not be stored; repeat it"):
                await waiting
            process.ended.assert_called_once_with()
            with pytest.raises(StoreUnavailable):
                await process.edges.apply([follow(ALICE, CAROL)])

    process_of_committer = started(tmp_path)
    asyncio.run(ask())
    assert stored(tmp_path, (ALICE, BOB))[0]


def test_pending_writes_of_a_killed_process_are_not_begun(tmp_path: Path) -> None:
    """Otherwise a write that nobody waits for might come after its author's next one, made elsewhere."""
    process_of_committer = started(tmp_path)

    async def ask() -> None:
        with Environment(tmp_path, durability="relaxed") as environment:
            environment.declare(["follows"])
            own = CommitQueue(environment, committer=process_of_committer)
            edges = EmbeddedEdges(environment, own)
            await process_of_committer.open(environment.graph_numbers().values(), Mock(), Mock(), 60)
            await edges.apply([follow(ALICE, BOB)])
            stop(process_of_committer.pid)
            waiting = asyncio.ensure_future(edges.apply([follow(ALICE, CAROL)]))
            await asyncio.sleep(0.05)
            assert process_of_committer._transport is not None
            process_of_committer._transport.abort()  # what the kernel does for a process that is killed
            await asyncio.sleep(0.05)
            os.kill(process_of_committer.pid, signal.SIGCONT)
            with pytest.raises(StoreUnavailable):
                await waiting
            own.close()

    asyncio.run(ask())
    assert has_ended(process_of_committer.pid)
    assert stored(tmp_path, (ALICE, BOB), (ALICE, CAROL)) == [True, False]


def test_a_committer_whose_process_never_opens_it_ends(tmp_path: Path) -> None:
    process_of_committer = started(tmp_path)
    process_of_committer._connection.close()
    assert has_ended(process_of_committer.pid)


def test_edges_of_a_newly_declared_graph_are_written_by_the_process_itself(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            await process.edges.apply([follow(ALICE, CAROL)])
            numbers = await process.edges.declare(["follows", "rates"])
            rating = follow(ALICE, BOB, graph=numbers["rates"])
            assert (await process.edges.apply([rating]))[0].outcome is Outcome.APPLIED
            process.observer.committed.assert_called_once()

    process_of_committer = started(tmp_path)
    asyncio.run(ask())


@pytest.mark.parametrize(
    "odd",
    [
        EdgeWrite(edge_of(np.int64(ALICE), BOB)),  # type: ignore[arg-type]
        EdgeWrite(edge_of(ALICE, BOB, position=2**64)),
        EdgeWrite(msgspec.structs.replace(edge_of(ALICE, BOB), state=9)),  # type: ignore[arg-type]
    ],
    ids=["numpy", "beyond 64 bits", "no state"],
)
def test_a_write_that_cannot_be_encoded_fails_alone_or_is_done_by_the_process_itself(
    tmp_path: Path, odd: EdgeWrite
) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            jobs = [process.edges.apply([write]) for write in (follow(ALICE, CAROL), odd, follow(BOB, CAROL))]
            _, error, _ = await asyncio.gather(*jobs, return_exceptions=True)
            assert isinstance(error, Exception) or error[0].outcome is Outcome.APPLIED
            assert await process.edges.exists_many(G, [(ALICE, CAROL), (BOB, CAROL)]) == [True, True]
            process.ended.assert_not_called()

    process_of_committer = started(tmp_path)
    asyncio.run(ask())


class OfTwoParts(Exception):
    """An error that cannot be made from its message alone, so it cannot be unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


@pytest.mark.parametrize("error", [ValueError("a fault of ours"), OfTwoParts("a fault", "of ours")], ids=repr)
def test_a_bug_fails_only_its_own_write_and_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def merge(self: MergeEdges, batch: Transaction) -> object:
        if self.writes[0].edge.source == CAROL:
            raise error
        return original(self, batch)

    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            jobs = [process.edges.apply([follow(source, BOB)]) for source in (CAROL, ALICE)]
            failed, applied = await asyncio.gather(*jobs, return_exceptions=True)
            assert not isinstance(applied, BaseException)
            assert applied[0].outcome is Outcome.APPLIED
            assert isinstance(failed, Exception)
            text = "".join(traceback.format_exception(failed))
            assert "a fault of ours" in text
            assert "in merge" in text

    original = MergeEdges.__call__
    monkeypatch.setattr(MergeEdges, "__call__", merge)
    process_of_committer = started(tmp_path)
    asyncio.run(ask())


@pytest.mark.parametrize("ending", [False, True])
def test_a_write_that_waits_for_its_turn_is_dropped_when_its_process_is_killed(tmp_path: Path, ending: bool) -> None:
    """Its author continues elsewhere, and that write must be the last. `ending`: the process was told to stop."""
    process_of_committer = started(tmp_path)

    async def ask() -> None:
        with Environment(tmp_path, durability="relaxed") as environment:
            environment.declare(["follows"])
            own = CommitQueue(environment, committer=process_of_committer)
            edges = EmbeddedEdges(environment, own)
            await process_of_committer.open(environment.graph_numbers().values(), Mock(), Mock(), 60)
            await edges.apply([follow(ALICE, BOB)])
            with environment._turns.take():  # another process writes
                waiting = asyncio.ensure_future(edges.apply([follow(ALICE, CAROL)]))
                await asyncio.sleep(0.2)
                closing = asyncio.ensure_future(process_of_committer.close()) if ending else None
                await asyncio.sleep(0.05)
                assert process_of_committer._transport is not None
                process_of_committer._transport.abort()
                await asyncio.sleep(0.05)
            with pytest.raises(StoreUnavailable):
                await waiting
            if closing is not None:
                await closing
            own.close()

    asyncio.run(ask())
    assert ending or has_ended(process_of_committer.pid)
    assert stored(tmp_path, (ALICE, BOB), (ALICE, CAROL)) == [True, False]


def test_conditions_on_a_newly_declared_graph_hold(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            await process.edges.apply([follow(ALICE, CAROL)])
            numbers = await process.edges.declare(["follows", "bars"])
            await process.edges.apply([follow(BOB, ALICE, numbers["bars"])])
            barred = msgspec.structs.replace(follow(ALICE, BOB), unless=((numbers["bars"], BOB, ALICE),))
            assert (await process.edges.apply([barred]))[0].outcome is Outcome.FORBIDDEN

    process_of_committer = started(tmp_path)
    asyncio.run(ask())


def test_large_values_and_extreme_numbers_reach_the_committer(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            records = EmbeddedRecords(process.edges._environment, process.own)
            large = Record(RecordKind.POST, 0, Hlc(1), os.urandom(6_000_000))
            least = Record(RecordKind.POST, 2**63 - 1, Hlc(2**62), b"")
            assert (await records.put([large, least])).stored
            assert await records.get_many(RecordKind.POST, [0, 2**63 - 1]) == [large, least]
            for version, position in enumerate((-(2**63), 2**63 - 1, 0)):
                edge = edge_of(0, 2**63 - 1, position, version=version)
                assert (await process.edges.apply([EdgeWrite(edge)]))[0].after == edge
            assert await process.edges.apply([]) == []
            assert len(await process.edges.apply([follow(source, 2**62) for source in range(1, 20_001)])) == 20_000
            assert process.own.depth == 0

    process_of_committer = started(tmp_path)
    asyncio.run(ask())


def test_a_committer_that_hangs_is_replaced_with_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer, silent_s=1) as process:
            await process.edges.apply([follow(ALICE, BOB)])
            await asyncio.sleep(0.3)
            process.ended.assert_not_called()  # it sends heartbeats
            stop(process_of_committer.pid)
            with pytest.raises(StoreUnavailable):
                await process.edges.apply([follow(ALICE, CAROL)])
            process.ended.assert_called_once_with()

    monkeypatch.setattr(committer, "_BEAT_S", 0.05)
    process_of_committer = started(tmp_path)
    asyncio.run(ask())


def test_a_process_closes_in_order_after_its_committer_was_killed(tmp_path: Path) -> None:
    async def ask() -> None:
        async with asking(tmp_path, process_of_committer) as process:
            await process.edges.apply([follow(ALICE, BOB)])
            ended = asyncio.Event()
            process.ended.side_effect = ended.set
            os.kill(process_of_committer.pid, signal.SIGKILL)
            await ended.wait()

    process_of_committer = started(tmp_path)
    uvloop.run(ask())  # its closed transports refuse calls that asyncio's accept
