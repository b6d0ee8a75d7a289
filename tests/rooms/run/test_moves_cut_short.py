"""A move that is cut short or given up: who may write then, and how the next run continues. No cluster is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock, patch

import pytest
from coroutines import Run

from kith.core.errors import Conflict, StoreMismatch
from kith.engines.embedded import store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.run.moves import opening, progress, to_cluster, to_folder
from kith.run.moves.progress import MoveProgress, Stage

SETTINGS = Settings(engine="cluster", cassandra="127.0.0.1:1", kafka="127.0.0.1:1", redis="127.0.0.1:1")
THERE = opening.name_of(SETTINGS)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def cut_short(data: Path, stage: Stage, why: ClosedNote | None) -> MoveProgress:
    """A move of this folder, as a process that was killed left it."""
    with Environment(data) as store:
        store_role.close_to_writes(store, why)
    noted = MoveProgress(to=THERE, stage=stage, at=b"somewhere")
    progress.write(data, noted)
    return noted


def is_closed(data: Path) -> bool:
    with Environment(data, create=False) as store:
        return store.is_closed()


def stage_of(data: Path) -> Stage | None:
    noted = progress.read(data)
    return None if noted is None else noted.stage


async def taken_back(data: Path) -> int:
    return await to_folder.take_back(SETTINGS, data, tell=lambda what, number: None)


@pytest.mark.parametrize("stage", ["switching", "following"])
def test_a_switch_that_was_cut_short_is_given_up_though_the_cluster_is_away(data: Path, run: Run, stage: Stage) -> None:
    cut_short(data, stage, ClosedNote("moved", THERE))
    assert run(taken_back(data)) == 0
    assert not is_closed(data)
    assert stage_of(data) == "following"


def test_a_way_back_that_was_done_but_not_noted_is_noted(data: Path, run: Run) -> None:
    cut_short(data, "returning", None)
    assert run(taken_back(data)) == 0
    assert stage_of(data) is None


def test_a_folder_that_was_not_switched_is_not_taken_back(data: Path, run: Run) -> None:
    cut_short(data, "following", None)
    with pytest.raises(Conflict, match="it takes writes itself"):
        run(taken_back(data))


@pytest.mark.parametrize("stage", ["following", "switching", "moved"])
def test_a_folder_that_another_machine_replaced_is_neither_opened_nor_moved(data: Path, run: Run, stage: Stage) -> None:
    noted = cut_short(data, stage, ClosedNote("fenced", "https://other", 7))
    with pytest.raises(Conflict, match="https://other"):
        run(taken_back(data))
    if stage != "moved":
        with moving(data, noted) as move, pytest.raises(Conflict, match="https://other"):
            run(move.begin())
        with moving(data, noted) as move, pytest.raises(Conflict, match="https://other"):
            run(move.switch())
    assert is_closed(data)


@contextmanager
def moving(data: Path, noted: MoveProgress) -> Iterator[to_cluster._MoveToCluster]:
    """A move of the folder into a cluster that accepts every call."""
    sides: Any = MagicMock()
    sides.write_decisions.closing.permit = AsyncMock(return_value=noted.permit)
    sides.folder.log.lease = AsyncMock(return_value=True)
    with Environment(data, create=False) as store:
        sides.folder.of_folder.return_value.environment = store
        sides.cluster_side.edges.declare = AsyncMock(return_value=store.graph_numbers())
        yield to_cluster._MoveToCluster(sides, data, noted, lambda what, number: None)


def test_a_switch_that_is_given_up_opens_the_folder_and_is_not_resumed(data: Path, run: Run) -> None:
    noted = cut_short(data, "switching", ClosedNote("moved", THERE))
    killed = patch.object(Environment, "reopen", side_effect=KeyboardInterrupt)
    with moving(data, noted) as move, killed, pytest.raises(KeyboardInterrupt):
        move._copy_again()
    assert stage_of(data) == "copying", "the next run does not resume the switch"
    assert is_closed(data)
    with moving(data, noted) as move:
        run(move.begin())
    assert not is_closed(data), "it opens the folder"


def test_one_process_at_a_time_moves_a_folder_and_reads_what_the_last_one_noted(data: Path, run: Run) -> None:
    cut_short(data, "following", None)

    async def scene() -> None:
        async with opening.hold_move_lease(data):
            cut_short(data, "switching", ClosedNote("moved", THERE))
            with pytest.raises(Conflict, match="another process"):
                await taken_back(data)
        async with opening.hold_move_lease(data) as noted:
            assert noted is not None
            assert noted.stage == "switching"

    run(scene())


def test_a_missing_folder_is_not_created(tmp_path: Path, run: Run) -> None:
    with pytest.raises(StoreMismatch, match="no data folder"):
        run(to_folder.take_back(SETTINGS, tmp_path / "nowhere", tell=lambda what, number: None))
    assert not (tmp_path / "nowhere").exists()
