"""`kith rebuild` from a folder that a server writes to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from coroutines import Run
from edges import edge_of, writes_of

from kith.commands.rebuild import rebuild_from
from kith.engines.embedded import rebuild as rebuilding
from kith.engines.embedded import segments
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.run.opening import wiring


def test_what_it_has_not_done_yet_is_kept_while_others_write(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "BYTES_A_SEGMENT", 1_000)
    settings = Settings(data=str(tmp_path / "source"), log_events_max=2_000)

    async def scene() -> None:
        async with wiring.open_stores(settings, "test") as source:
            loop, written = asyncio.get_running_loop(), 0

            async def write(source_of: int) -> None:
                await source.store.apply(writes_of(*(edge_of(source_of, 100 + at) for at in range(600))))

            def progress(_: int) -> None:
                nonlocal written
                if written < 5:  # more than the log keeps of itself
                    written += 1
                    asyncio.run_coroutine_threadsafe(write(2 + written), loop).result()

            await write(1)
            await write(2)
            with Environment(tmp_path / "new") as target:
                await rebuild_from(source, target, progress)
                assert written == 5
                assert 1_200 <= segments.last_event(target) < 7 * 600
                await rebuild_from(source, target, lambda _: None)
                assert (
                    segments.last_event(target) == segments.last_event(source.of_folder("this").environment) == 7 * 600
                )
            assert not await source.log.leases()

    run(scene())
