"""A backup made during writes is a snapshot: consistent, with every write acknowledged before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger import Ledger, check_audit, opened, read_lines
from processes import FaultyDisk, engine_over
from store_copies import copy_store
from zygote import zygote_over

from kith.engines.blobs.archives import FolderArchive
from kith.run.backups.parts import read_parts
from kith.run.backups.restoring import restore
from kith.run.config import Settings


def test_a_copy_under_load_is_consistent_and_has_every_write_acknowledged_before_it(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "data"
    with zygote_over(folder) as zygote:
        writer = zygote.start(seed)
        copies = []
        with opened(folder) as (environment, _):
            for number in range(5):
                before = zygote.said(writer)
                copy_store(environment, tmp_path / f"copy-{number}")
                after = zygote.wait_for_more(writer, len(before))
                copies.append((before, after))
        zygote.kill(writer)
    for number, (before, _) in enumerate(copies):
        ledger = Ledger()
        ledger.add(read_lines(before))
        with opened(tmp_path / f"copy-{number}") as (environment, store):
            ledger.check_whole(environment, store)
    assert copies[0][1] < copies[-1][1], "the writer continued during the copies"


def restored(archive: Path, folder: Path) -> Path:
    """A data folder restored from a backup."""
    restore(Settings(data=str(folder)), FolderArchive(archive))
    return folder


def test_a_restored_backup_is_an_independent_store_that_takes_writes(tmp_path: Path) -> None:
    folder, archive = tmp_path / "data", tmp_path / "kept"
    with engine_over(folder) as engine:
        engine("write", 0, 1_000)
        assert engine("backup", str(archive)) == {}
        engine("write", 1_000, 500)
    with engine_over(restored(archive, tmp_path / "restored")) as engine:
        assert engine("count") == {"count": 1_000}
        engine("write", 5_000, 10)
        assert engine("count") == {"count": 1_010}
    with engine_over(folder) as engine:
        assert engine("count") == {"count": 1_500}


@pytest.mark.parametrize("order", ["ENOSPC 100000", "EIO-SYNC once"])
def test_a_failed_backup_is_not_usable_and_can_be_repeated(tmp_path: Path, disk: FaultyDisk, order: str) -> None:
    folder, archive = tmp_path / "data", tmp_path / "kept"
    with engine_over(folder, environment=disk.environment) as engine:
        engine("write", 0, 5_000)
        engine("sync")  # so that the fault hits the backup and no checkpoint
        disk.order(order)
        answer = engine("backup", str(archive))
        assert answer["error"] == ("STORE_FULL" if order.startswith("ENOSPC") else "STORE_UNAVAILABLE"), answer
        assert not read_parts(FolderArchive(archive)).whole
        disk.heal()
        assert engine("backup", str(archive)) == {}
        assert engine("count") == {"count": 5_000}
    with opened(restored(archive, tmp_path / "restored")) as (environment, store):
        assert check_audit(environment, store) == 5_000
