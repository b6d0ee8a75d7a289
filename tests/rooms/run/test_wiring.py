"""What opening a data folder does to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cast import ALICE, BOB
from coroutines import Run

from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.opening.folders import open_environment
from kith.run.opening.wiring import open_stores

READERS = {name for name, one in CONSUMERS.items() if one.has_position}


@pytest.mark.parametrize("written", [False, True], ids=["new folder", "older folder"])
def test_consumers_begin_at_the_first_event_of_a_new_folder(tmp_path: Path, run: Run, written: bool) -> None:
    settings = Settings(data=str(tmp_path / "data"))

    async def begun() -> set[str]:
        if written:
            open_environment(settings).close()
            async with open_stores(settings, "api", create=False) as stores:
                follows = stores.graph.graphs.number("follows")
                await stores.graph.write([stores.graph.add_write(follows, ALICE, BOB)])
        async with open_stores(settings, "api") as stores:
            places = {name: await stores.log.progress(name) for name in CONSUMERS}
            found = {name: place for name, place in places.items() if place is not None}
            assert not any(place.behind.lost for place in found.values())
            return set(found)

    assert run(begun()) == (set() if written else READERS)
