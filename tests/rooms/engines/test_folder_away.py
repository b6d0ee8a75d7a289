"""While a data folder is away, nothing recreates it: a new folder would be in the way when it is put back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from cast import ALICE, START_MS
from coroutines import Run

from kith.core.errors import StoreUnavailable
from kith.engines.blobs.blob_store import FolderBlobs
from kith.engines.embedded.file_leases import FileLeases
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.engines.embedded.served_log import ServedFiles
from kith.home.served import Served
from kith.notifications.inbox import InboxRow, base_of
from kith.run.backups import schedule
from kith.run.backups.backup_maker import BackupMaker
from kith.run.config import Settings
from kith.run.measures.media_size import measure

Use = Callable[[int], Awaitable[object]]


def _leases(data: Path) -> Use:
    leases = FileLeases(data)
    return lambda number: leases.acquire(f"job-{number}", "a process", 1.0)


def _blobs(data: Path) -> Use:
    blobs = FolderBlobs(data / "media", sync=False)
    return lambda number: blobs.put(f"0{number}/a.png", b"a", "image/png")


def _opened_blobs(data: Path) -> Use:
    async def use(_: int) -> None:
        await measure(FolderBlobs(data / "media", sync=False), data, START_MS)

    return use


def _measures(data: Path) -> Use:
    blobs = FolderBlobs(data.parent, sync=False)
    return lambda number: measure(blobs, data, START_MS + number * 86_400_000)


def _status(data: Path) -> Use:
    """The status of a backup that could not be made."""

    class NoPlace:
        def make(self, **_: bool) -> None:
            raise StoreUnavailable("there is no place for it")

    settings = Settings(data=str(data))
    return lambda number: schedule.run_due(settings, cast("BackupMaker", NoPlace()), START_MS + number * 86_400_000)


@pytest.mark.parametrize("opened", [_leases, _blobs, _opened_blobs, _measures, _status])
def test_files_beside_the_store_are_not_written_until_the_folder_is_back(
    run: Run, tmp_path: Path, opened: Callable[[Path], Use]
) -> None:
    data, moved_away = tmp_path / "data", tmp_path / "away"
    data.mkdir()
    use = opened(data)
    run(use(1))
    data.rename(moved_away)
    with pytest.raises(StoreUnavailable):
        run(use(2))
    assert not data.exists()
    moved_away.rename(data)
    run(use(3))


@pytest.mark.parametrize("used_before", [False, True])
def test_a_notice_waits_until_the_folder_is_back(run: Run, tmp_path: Path, used_before: bool) -> None:
    data, moved_away = tmp_path / "data", tmp_path / "away"
    data.mkdir()
    with closing(EmbeddedInboxes(data / "inboxes", bytes_max=1 << 30)) as inboxes:
        if used_before:
            assert run(inboxes.add([InboxRow(ALICE, base_of(3_000) + 5)])) == [True]
        data.rename(moved_away)
        with pytest.raises(StoreUnavailable):
            run(inboxes.add([InboxRow(ALICE, base_of(3_001) + 5)]))
        assert not data.exists()
        moved_away.rename(data)
        assert run(inboxes.add([InboxRow(ALICE, base_of(3_001) + 5)])) == [True]


def test_records_of_served_homes_are_dropped_while_the_folder_is_away(tmp_path: Path) -> None:
    log = ServedFiles(tmp_path / "data" / "served", share=1.0, bytes_max=1 << 30)
    log.add(Served("a request", ALICE, START_MS, "a model", 1, [], [], b""))
    log.flush()
    assert not (tmp_path / "data").exists()
