"""`kith rebuild` from a folder that a server writes to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from coroutines import Run
from edges import edge_of, writes_of

from kith.commands.rebuild import rebuild_from, run_rebuild
from kith.core.errors import BadRequest, Conflict, StoreMismatch
from kith.engines.embedded import rebuild as rebuilding
from kith.engines.embedded import segments
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.run.opening import wiring


def test_the_log_retains_events_for_a_rebuild_while_others_write(
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
                if written < 5:  # more than the log retains by itself
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


@pytest.fixture
def cut_short(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The folder of a rebuild that ended after its first part."""
    monkeypatch.setattr(rebuilding, "BYTES_A_SEGMENT", 1_000)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    async def scene() -> None:
        async with wiring.open_stores(Settings(data=str(tmp_path / "source")), "test") as source:
            for of in range(3):
                await source.store.apply(writes_of(*(edge_of(of, 100 + at) for at in range(600))))
            with Environment(tmp_path / "new") as target, pytest.raises(KeyboardInterrupt):
                rebuilding.rebuild(source.of_folder("this").environment, target, stop)

    run(scene())
    return Settings(data=str(tmp_path / "new"))


def opened(run: Run, settings: Settings) -> None:
    """Open the folder as a server does, and close it."""

    async def scene() -> None:
        async with wiring.open_stores(settings, "test"):
            pass

    run(scene())


def test_a_folder_of_half_a_rebuild_is_refused_until_it_is_done(tmp_path: Path, run: Run, cut_short: Settings) -> None:
    with pytest.raises(StoreMismatch, match=f"kith rebuild {tmp_path / 'new'} --from {tmp_path / 'source'}.*--as-is"):
        opened(run, cut_short)
    run_rebuild(tmp_path / "new", tmp_path / "source")
    opened(run, cut_short)
    with Environment(tmp_path / "new") as new:
        assert segments.last_event(new) == 1_800
    with pytest.raises(BadRequest, match=r"no rebuild of .* was cut short"):
        run_rebuild(tmp_path / "new", None, as_is=True)


def test_half_a_rebuild_is_served_where_its_log_is_lost(tmp_path: Path, run: Run, cut_short: Settings) -> None:
    run_rebuild(tmp_path / "new", None, as_is=True)
    opened(run, cut_short)
    with Environment(tmp_path / "new") as new:
        assert 0 < segments.last_event(new) < 1_800


def test_a_refused_rebuild_leaves_the_folder_as_it_was(tmp_path: Path, run: Run, cut_short: Settings) -> None:
    async def scene() -> None:
        async with wiring.open_stores(Settings(data=str(tmp_path / "stranger")), "test") as stranger:
            await stranger.store.apply(writes_of(edge_of(1, 2)))
            log = stranger.of_folder("this").environment
            for folder, was_half in (("source", False), ("new", True)):
                with Environment(tmp_path / folder) as target:
                    with pytest.raises(Conflict):
                        rebuilding.rebuild(log, target)
                    assert (target.get_note(rebuilding.REBUILDING) is not None) == was_half

    run(scene())
