"""A process that waits for events is woken by a commit of events in any process, and costs writers nothing."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cast import ALICE
from coroutines import Run
from edges import edge_of, writes_of
from embedded_engine import open_embedded

from kith.core.events import Event
from kith.engines.embedded.bells import Doorbell
from kith.engines.embedded.log_store import EmbeddedLog
from kith.log.runner import Pace, Runner

HOURS_S = 7_200.0
LIMIT_S = 20.0
"""Bound of each scene; a bell that works rings long before."""
_RING = """
import asyncio, sys
from pathlib import Path
from embedded_engine import open_embedded
from edges import edge_of, writes_of
with open_embedded(Path(sys.argv[1])) as (_, edges):
    asyncio.run(edges.apply(writes_of(edge_of(1, 2))))
"""


@pytest.mark.parametrize("folder", ["data", "x" * 200 + "/data"], ids=["short", "longer than a socket's path may be"])
def test_a_commit_with_events_rings_and_one_without_does_not(tmp_path: Path, run: Run, folder: str) -> None:
    with open_embedded(tmp_path / folder) as (environment, edges):
        log = EmbeddedLog(environment, edges._commits)

        async def scene() -> None:
            with log.bell() as bell:
                for version in (1, 2):
                    await edges.apply(writes_of(edge_of(ALICE, 2, version=version)))
                    await bell.rung(HOURS_S)
                await log.save("fanout", await log.end(), {})
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(bell.rung(HOURS_S), 0.05)

        run(edges.declare(["follows"]))
        run(asyncio.wait_for(scene(), LIMIT_S))


def test_a_commit_of_another_process_rings(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path) as (environment, edges):
        log = EmbeddedLog(environment, edges._commits)
        run(edges.declare(["follows"]))

        async def scene() -> None:
            with log.bell() as bell:
                other = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    _RING,
                    str(tmp_path),
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
                await bell.rung(HOURS_S)
                assert await other.wait() == 0
            assert log.bounds() == (1, 1)

        run(asyncio.wait_for(scene(), LIMIT_S))


def test_a_bell_that_nobody_reads_blocks_no_commit(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path) as (environment, edges):
        log = EmbeddedLog(environment, edges._commits)
        run(edges.declare(["follows"]))

        async def scene() -> None:
            with log.bell() as bell:
                (path,) = (tmp_path / "bells").iterdir()
                full = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(full, b"\0" * 512)
                os.close(full)
                for version in (1, 2):
                    await edges.apply(writes_of(edge_of(ALICE, 2, version=version)))
                await bell.rung(HOURS_S)

        run(asyncio.wait_for(scene(), LIMIT_S))


def test_the_fifo_of_a_killed_process_is_removed_and_those_of_others_stay(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path) as (environment, edges):
        log = EmbeddedLog(environment, edges._commits)
        with log.bell():
            (first,) = (tmp_path / "bells").iterdir()
            os.mkfifo(tmp_path / "bells" / "left-over")
            run(edges.declare(["follows"]))
            run(edges.apply(writes_of(edge_of(ALICE, 2))))
            other = Doorbell(tmp_path)  # of another process
            with other.bell():
                there = set((tmp_path / "bells").iterdir())
                assert first in there
                assert len(there) == 2
        assert not list((tmp_path / "bells").iterdir())


def test_where_no_fifo_can_be_made_the_log_is_polled(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("this file system has none")

    monkeypatch.setattr(os, "mkfifo", refuse)
    with open_embedded(tmp_path) as (environment, edges), EmbeddedLog(environment, edges._commits).bell() as bell:
        run(asyncio.wait_for(bell.rung(HOURS_S), LIMIT_S))


def test_all_bells_of_a_process_ring_each_on_its_own(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path) as (environment, edges):
        log = EmbeddedLog(environment, edges._commits)
        run(edges.declare(["follows"]))

        async def scene() -> None:
            with log.bell() as first, log.bell() as second:
                assert len(list((tmp_path / "bells").iterdir())) == 1
                waiting = asyncio.create_task(first.rung(HOURS_S))
                await asyncio.sleep(0)
                await edges.apply(writes_of(edge_of(ALICE, 2)))
                await waiting
                await second.rung(HOURS_S)  # it rang before it was asked
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(first.rung(HOURS_S), 0.05)

        run(asyncio.wait_for(scene(), LIMIT_S))


def test_commits_wake_a_process_once_while_nobody_in_it_waits(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken, read = list[int](), os.read

    def heard(fifo: int, most: int) -> bytes:
        woken.append(fifo)
        return read(fifo, most)

    with open_embedded(tmp_path) as (environment, edges):
        log = EmbeddedLog(environment, edges._commits)
        run(edges.declare(["follows"]))

        async def scene() -> None:
            with log.bell() as bell:
                for version in range(1, 6):
                    await edges.apply(writes_of(edge_of(ALICE, 2, version=version)))
                    await (bell.rung(HOURS_S) if version == 1 else asyncio.sleep(0.02))
                assert len(woken) == 1
                await bell.rung(HOURS_S)
                assert len(woken) == 2

        monkeypatch.setattr("kith.engines.embedded.bells.os.read", heard)
        run(asyncio.wait_for(scene(), LIMIT_S))


class Hearing:
    """A consumer that signals when it has seen an event."""

    name = "hearing"

    def __init__(self) -> None:
        self.began, self.heard = asyncio.Event(), asyncio.Event()

    async def handle(self, _: Sequence[Event]) -> None:
        self.heard.set()

    async def work_backlog(self) -> bool:
        return False

    async def rebuild(self) -> None:
        self.began.set()


def test_a_runner_at_rest_is_woken_by_an_event_and_by_stop(tmp_path: Path, run: Run) -> None:
    with open_embedded(tmp_path) as (environment, edges):
        run(edges.declare(["follows"]))

        async def scene() -> None:
            hearing = Hearing()
            runner = Runner(hearing, EmbeddedLog(environment, edges._commits), Pace(idle_s=HOURS_S))
            task = asyncio.create_task(runner.run())
            await hearing.began.wait()
            for version in (1, 2):
                hearing.heard.clear()
                await edges.apply(writes_of(edge_of(ALICE, 2, version=version)))
                await hearing.heard.wait()
            runner.stop()
            await task

        run(asyncio.wait_for(scene(), LIMIT_S))


def test_a_process_without_free_descriptors_removes_no_fifo_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse_fifos(path: str | Path, flags: int, *arguments: int) -> int:
        if flags & os.O_WRONLY:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, flags, *arguments)

    with Doorbell(tmp_path).bell():
        (fifo,) = (tmp_path / "bells").iterdir()
        monkeypatch.setattr(os, "open", refuse_fifos)
        with Doorbell(tmp_path).bell():
            assert fifo.exists()
