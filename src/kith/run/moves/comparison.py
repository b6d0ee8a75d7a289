"""Compares a data folder with the cluster that the settings name, row by row: what `kith audit --against` does."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kith.core.clock import wall_ms
from kith.moving.store_comparison import ComparisonResult, compare, kinds
from kith.run.config import Settings
from kith.run.moves import opening
from kith.run.moves.mover import ShowProgress


async def compare_with(settings: Settings, folder: Path, tell: ShowProgress) -> list[ComparisonResult]:
    """Compare folder and cluster by kind of row. Rows written meanwhile may be reported as different.

    Errors: StoreUnavailable; StoreMismatch.
    """
    results = []
    async with opening.open_sides(settings, folder) as sides:
        for kind in kinds(wall_ms):
            progress = partial(tell, f"{kind.name} compared")
            results.append(await compare(kind, sides.folder_side, sides.cluster_side, _at_once, progress))
    return results


async def _at_once() -> None:
    """Do nothing: no side is followed."""
