"""An exported graph is imported back the same, except edges that expire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from edge_imports import (
    ALICE,
    BOB,
    CAROL,
    FOLLOWS,
    bring,
    die,
    do,
    file_of,
    graph_content,
    merge,
    random_rows,
    wanted,
)
from store_wrappers import ProcessDied

from kith.commands.edges import export_edges
from kith.commands.transfer import loading
from kith.commands.transfer.exporting import export
from kith.commands.transfer.loading import ImportResult
from kith.core.clock import wall_ms
from kith.graph.edge import State
from kith.run.config import Settings
from kith.run.opening.wiring import open_graph


@pytest.mark.parametrize("name", ["out.csv", "out.ndjson", "out.parquet"])
@pytest.mark.parametrize("way", [bring, merge], ids=["bulk", "merge"])
def test_the_least_position_is_exported_and_imported_as_any_other(
    set_to: Settings, tmp_path: Path, name: str, way: Callable[[Settings, Path], ImportResult]
) -> None:
    bring(set_to, file_of(tmp_path, [(ALICE, BOB, -(2**63)), (CAROL, BOB, 2**63 - 1), (ALICE, CAROL)]), "matches")
    export_edges(set_to, "matches", tmp_path / name, lambda _: None)
    assert way(set_to, tmp_path / name).refused == 0
    assert graph_content(set_to) == graph_content(set_to, "matches")
    assert graph_content(set_to).edges[ALICE, BOB] == (State.NORMAL, -(2**63))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.ndjson.zst", "out.parquet"])
def test_an_exported_graph_is_imported_back_the_same(set_to: Settings, tmp_path: Path, name: str) -> None:
    rows = random_rows(3, 150, 3)
    bring(set_to, file_of(tmp_path, rows))
    count, *_ = export_edges(set_to, FOLLOWS, tmp_path / name, lambda _: None)
    assert count == len(wanted(rows))  # type: ignore[arg-type]
    bring(set_to, tmp_path / name, "matches")
    assert graph_content(set_to, "matches") == graph_content(set_to)


def test_only_live_edges_are_exported(set_to: Settings, tmp_path: Path) -> None:
    do(set_to, ("follow", ALICE, BOB), ("follow", ALICE, CAROL), ("unfollow", ALICE, CAROL))
    assert export_edges(set_to, FOLLOWS, tmp_path / "out.csv", lambda _: None).edges == 1
    assert (tmp_path / "out.csv").read_text().startswith(f"{ALICE},{BOB},")


def test_edges_that_expire_are_left_out_and_counted(set_to: Settings, tmp_path: Path) -> None:
    """A row of the file has no expiry, so an import would make such edges permanent."""
    do(set_to, ("follow", ALICE, BOB), ("follow", ALICE, CAROL, wall_ms() + 604_800_000))
    exported = export_edges(set_to, FOLLOWS, tmp_path / "out.csv", lambda _: None)
    assert (exported.edges, exported.expiring) == (1, 1)


def test_an_export_that_fails_leaves_no_file(set_to: Settings, tmp_path: Path) -> None:
    do(set_to, ("follow", ALICE, BOB))

    async def run() -> None:
        async with open_graph(set_to) as service:
            await export(service.store, 1, tmp_path / "out.csv", die)

    with pytest.raises(ProcessDied):
        asyncio.run(run())
    assert not list(tmp_path.glob("out*"))


def test_both_ways_turns_ends_and_keeps_positions() -> None:
    rows = np.array([[1, 2, 7], [3, 4, 8]])
    assert loading.both_ways(rows).tolist() == [[1, 2, 7], [3, 4, 8], [2, 1, 7], [4, 3, 8]]
    assert rows.tolist() == [[1, 2, 7], [3, 4, 8]]
