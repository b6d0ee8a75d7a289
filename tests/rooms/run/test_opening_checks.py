"""Layers in front of checks, as processes open them where the settings name a place for snapshots."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from reference_sets import ReferenceSets

from kith.core.errors import StoreMismatch
from kith.graph.edge import EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.run.config import Settings
from kith.run.consumers import WORKERS, processes_of_workers
from kith.run.opening import checks, wiring
from kith.run.opening.checks import keeping, layered_stores

WITHIN_S = 60


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"), checks_snapshots=str(tmp_path / "snapshots"))


def test_a_process_answers_by_its_layers_and_counts_which(
    settings: Settings, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_REPORT_INTERVAL_S", 0.01)

    async def scene() -> None:
        sets = ReferenceSets()
        async with wiring.open_stores(settings, "api") as stores:
            number = stores.graph.graphs.number(FOLLOWS)
            await stores.store.apply([EdgeWrite(stores.graph.edge_now(number, ALICE, BOB, State.NORMAL))])
            kept = keeping(settings, stores, sets)
            assert kept is not None
            await kept.maker.make()
            running = asyncio.create_task(kept.invalidator.run())
            async with layered_stores(settings, stores, sets) as served, asyncio.timeout(WITHIN_S):
                while not {"filter absent", "cache there"} <= stores.metrics._counts.checks.keys():
                    assert await served.checked.exists_many(number, [(ALICE, BOB), (ALICE, CAROL)]) == [True, False]
                    await asyncio.sleep(0.01)
                assert (await kept.lag()) is not None
                told = b""
                while b"kith_filter_edges 1.0" not in told:
                    await asyncio.sleep(0.01)
                    told = await stores.metrics.render()
            kept.invalidator.stop()
            await running
        assert b'kith_checks_total{answer="absent",layer="filter"}' in told
        assert b"kith_filter_false_positives" in told

    run(scene())


def test_without_a_place_for_snapshots_the_store_answers_every_check(settings: Settings, run: Run) -> None:
    async def scene() -> None:
        plain = msgspec.structs.replace(settings, checks_snapshots="")
        async with wiring.open_stores(plain, "api") as stores, layered_stores(plain, stores, ReferenceSets()) as served:
            assert served.checked is stores.store
            assert keeping(plain, stores, ReferenceSets()) is None
            with pytest.raises(StoreMismatch, match="checks_snapshots"):
                async with WORKERS["checks"].open(plain, stores):
                    pass

    run(scene())


def test_kith_serve_runs_the_worker_where_there_are_layers(settings: Settings) -> None:
    on_cluster = msgspec.structs.replace(settings, engine="cluster")
    assert ("checks",) in processes_of_workers(on_cluster)
    for other in (settings, msgspec.structs.replace(on_cluster, checks_snapshots="")):
        assert not any("checks" in names for names in processes_of_workers(other))
