"""Bulk jobs on accounts that two processes run: one after a crash of the other, or both at once."""

from __future__ import annotations

import asyncio

import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run
from services import Social

from kith.core.clock import HybridClock
from kith.core.ids import NodeId
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.edge import State
from kith.graph.graphs import BUILT_IN, Graphs
from kith.graph.nodes import Job, NodeOperation
from kith.people.removal import account_jobs


def test_a_job_of_two_processes_never_goes_back(
    run: Run, embedded: tuple[Environment, EmbeddedEdges], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, edges = embedded
    saved: list[tuple[bool, int]] = []

    async def play() -> None:
        graph = Social(edges, Graphs(await edges.declare(BUILT_IN)), HybridClock(clock))
        for user in range(10, 20):
            await graph.people.follow(ALICE, NodeId(user))
        fast, slow = account_jobs(graph), account_jobs(graph)
        await fast._save(Job("archive-1-1", NodeOperation.ARCHIVE, ALICE))
        await edges.change_node(ALICE, state=State.ARCHIVED)
        put, following = edges.put_note, slow._next

        async def noted(key: str, value: bytes | None) -> None:
            await put(key, value)
            job = await fast.get("archive-1-1")
            saved.append((job.done, job.step))

        async def slowly(*arguments: object) -> Job:
            await asyncio.sleep(0.01)
            return await following(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(edges, "put_note", noted)
        monkeypatch.setattr(slow, "_next", slowly)
        for jobs in (slow, fast):
            await jobs.resume()
        await asyncio.gather(slow.wait(), fast.wait())

    run(play())
    assert saved == sorted(saved)
    assert saved[-1][0]


def test_who_is_removed_is_forgotten_by_the_job_also_after_a_crash(
    run: Run, embedded: tuple[Environment, EmbeddedEdges], clock: FakeClock
) -> None:
    _, edges = embedded
    forgotten: list[int] = []

    async def forget(node: NodeId) -> None:
        forgotten.append(node)

    async def play() -> None:
        graph = Social(edges, Graphs(await edges.declare(BUILT_IN)), HybridClock(clock))
        killed, next_process = account_jobs(graph), account_jobs(graph, forget=forget)
        await killed._save(Job("remove-1-1", NodeOperation.REMOVE, ALICE))
        await edges.change_node(ALICE, state=State.REMOVED)
        await next_process.start(NodeOperation.ARCHIVE, BOB)
        await next_process.resume()
        await next_process.wait()

    run(play())
    assert forgotten == [ALICE]
