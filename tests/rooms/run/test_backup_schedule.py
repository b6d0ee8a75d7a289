"""When a server makes backups by itself, what it reports, and what the log retains for them."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import typer
from coroutines import Run
from edges import edge_of, writes_of
from media_backups import DAY_MS, back_up

from kith.commands import backup as command
from kith.commands.doctor import examine
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest, Conflict, StoreFull, StoreMismatch, StoreUnavailable
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.file_leases import FileLeases
from kith.leases.holding import Leases
from kith.log.lease_holder import LEASE_RENEWAL_MS, LogLeaseHolder
from kith.run.backups import drills, schedule, worker
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.drills import Drill
from kith.run.backups.parts import read_parts
from kith.run.config import Settings
from kith.run.opening import folders, wiring
from kith.run.serving import supervisor


@pytest.mark.parametrize("place", [".", "kept", "media/../kept"])
def test_a_backup_into_its_own_data_folder_is_refused(settings: Settings, place: str) -> None:
    where = str(Path(settings.data) / place)
    with folders.open_environment(settings) as store, pytest.raises(BadRequest, match="lies in the data folder"):
        schedule.open_maker(settings, store, where)
    with pytest.raises(BadRequest, match="lies in the data folder"):
        supervisor.prepare(msgspec.structs.replace(settings, backup_to=where))


def test_one_process_at_a_time_backs_up_a_store(run: Run, settings: Settings, tmp_path: Path) -> None:
    async def meanwhile() -> None:
        files = FileLeases(Path(settings.data))
        async with Leases(files).hold_or_conflict(schedule.NAME):
            with (
                pytest.raises(Conflict, match="another process does `backup`"),
                Environment(Path(settings.data)) as store,
            ):
                await schedule.make_now(schedule.open_maker(settings, store, str(tmp_path / "kept")), store, whole=True)
        files.close()

    run(meanwhile())


@contextmanager
def maker_over(settings: Settings) -> Iterator[tuple[Environment, BackupMaker]]:
    with folders.open_environment(settings) as store:
        yield store, schedule.open_maker(settings, store, settings.backup_to)


def test_a_failed_removal_is_reported_and_causes_no_other_whole_backup(
    run: Run, settings: Settings, tmp_path: Path
) -> None:
    """As where the credentials of a bucket allow no deletes."""

    class NoDelete(FolderArchive):
        may_delete = False

        def delete(self, names: Iterable[str]) -> None:
            if not self.may_delete:
                raise StoreUnavailable("AccessDenied: DeleteObject")
            super().delete(names)

    settings = msgspec.structs.replace(settings, backup_to=str(tmp_path / "kept"))
    archive = NoDelete(tmp_path / "kept")
    left = tmp_path / "kept" / "files" / "00000000-aa-whole" / "store.mdb"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left over")
    os.utime(left, (1, 1))
    now_ms = wall_ms()
    with folders.open_environment(settings) as store:
        store.put_note("a", b"1")
        maker = BackupMaker(store, archive, None)
        for minutes in (0, 1, 2, 6):
            run(schedule.run_due(settings, maker, now_ms + minutes * 60_000))
            status = schedule.read_status(settings)
            assert len([part for part in read_parts(archive).whole if part.kind == "whole"]) == 1
            assert (status.error, "AccessDenied" in status.tidying) == ("", True)
        (finding,) = [one for one in examine(settings) if one.what == "backups"]
        assert "AccessDenied" in finding.detail
        archive.may_delete = True
        run(schedule.run_due(settings, maker, now_ms + 12 * 60_000))
    assert schedule.read_status(settings).tidying == ""
    assert not left.exists()


def test_doctor_names_a_place_of_backups_that_a_server_would_refuse(settings: Settings) -> None:
    settings = msgspec.structs.replace(settings, backup_to=str(Path(settings.data) / "kept"))
    (finding,) = [one for one in examine(settings) if one.what == "backups"]
    assert (finding.ok, "lies in the data folder" in finding.detail) == (False, True)


def test_a_server_backs_up_when_it_is_due_and_reports_the_result(run: Run, settings: Settings, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(settings, backup_to=str(tmp_path / "kept"), backup_keep_days=1)
    archive = FolderArchive(tmp_path / "kept")
    (finding,) = [one for one in examine(settings) if one.what == "backups"]
    assert (finding.ok, "has made none yet" in finding.detail) == (False, True)
    now_ms = wall_ms()
    with maker_over(settings) as (store, maker):
        for minutes, parts in ((0, 1), (4, 1), (6, 2), (24 * 60, 4), (5 * 24 * 60, 3)):
            store.put_note(f"server-key/{minutes:064x}", b"1")
            run(schedule.run_due(settings, maker, now_ms + minutes * 60_000))
            assert len(read_parts(archive).whole) == parts, f"after {minutes} minutes"
    status = schedule.read_status(settings)
    assert (status.good_ms, status.error) == (now_ms + 5 * DAY_MS, "")
    (tmp_path / "file").write_text("hello")
    broken = msgspec.structs.replace(settings, backup_to=str(tmp_path / "file"))
    with maker_over(broken) as (_, maker):
        run(schedule.run_due(broken, maker, now_ms + 6 * DAY_MS))
    status = schedule.read_status(broken)
    assert (status.good_ms, "cannot be used" in status.error) == (now_ms + 5 * DAY_MS, True)
    (finding,) = [one for one in examine(broken) if one.what == "backups"]
    assert (finding.ok, "cannot be used" in finding.detail) == (False, True)
    with maker_over(settings) as (_, maker):
        run(schedule.run_due(settings, maker, now_ms + 6 * DAY_MS))
    assert schedule.read_status(settings).error == ""


def test_a_place_that_lost_its_backups_is_an_error_until_one_is_made_there_by_hand(
    run: Run, settings: Settings, tmp_path: Path
) -> None:
    """As where the disk of backups was not mounted again after a restart."""
    settings = msgspec.structs.replace(settings, backup_to=str(tmp_path / "disk" / "kept"))
    disk, now_ms = tmp_path / "disk", wall_ms()
    with maker_over(settings) as (store, maker):
        run(schedule.run_due(settings, maker, now_ms))
        disk.rename(tmp_path / "not-mounted")
        for minutes in (6, 24 * 60):  # an increment, a whole
            run(schedule.run_due(settings, maker, now_ms + minutes * 60_000))
            status = schedule.read_status(settings)
            assert (status.good_ms, "mount it" in status.error, disk.exists()) == (now_ms, True, False)
        (tmp_path / "not-mounted").rename(disk)
        run(schedule.run_due(settings, maker, now_ms + 2 * DAY_MS))
        assert schedule.read_status(settings).error == ""
        disk.rename(tmp_path / "lost")
        store.put_note("a", b"1")
    back_up(settings, FolderArchive(disk / "kept"))
    with maker_over(settings) as (_, maker):
        run(schedule.run_due(settings, maker, now_ms + 4 * DAY_MS))
    status = schedule.read_status(settings)
    assert (status.good_ms, status.error) == (now_ms + 4 * DAY_MS, "")


def test_a_clock_that_is_far_ahead_for_a_while_removes_no_young_backup(
    run: Run, settings: Settings, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(settings, backup_to=str(tmp_path / "kept"), backup_keep_days=3)
    archive = FolderArchive(tmp_path / "kept")
    now_ms = wall_ms()
    with maker_over(settings) as (store, maker):
        for day in (0, 1, 2, 400, 3):  # on the fourth day the clock is ahead, and is put right
            store.put_note(f"server-key/{day:064x}", b"1")
            run(schedule.run_due(settings, maker, now_ms + day * DAY_MS))
        wholes = [part for part in read_parts(archive).whole if part.kind == "whole"]
        assert len(wholes) == 5
        for day in range(4, 9):
            run(schedule.run_due(settings, maker, now_ms + day * DAY_MS))
    left = [part.id for part in read_parts(archive).whole if part.kind == "whole"]
    assert (len(left), wholes[0].id in left) == (4, False)  # old backups still go


def test_the_status_of_a_server_has_the_last_drill_of_its_backup(run: Run, settings: Settings, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(settings, backup_to=str(tmp_path / "kept"))
    now_ms = wall_ms()
    with maker_over(settings) as (_, maker):
        run(schedule.run_due(settings, maker, now_ms))
        assert schedule.read_status(settings).drill_age_s(now_ms) == math.inf
        drills.note(maker.archive, Drill(now_ms - 60_000, good=False))
        run(schedule.run_due(settings, maker, now_ms + DAY_MS))
    status = schedule.read_status(settings)
    assert (status.drill_age_s(now_ms), status.drill.good) == (60, False)


def test_the_log_is_retained_for_the_next_increment(run: Run, settings: Settings, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(settings, backup_to=str(tmp_path / "kept"), log_events_max=30)
    archive = FolderArchive(tmp_path / "kept")

    async def scene() -> None:
        async with wiring.open_stores(settings, "test") as stores:
            now_ms, clock = wall_ms(), itertools.count(wall_ms(), LEASE_RENEWAL_MS + 1)
            maker = schedule.open_maker(settings, stores.of_folder("this").environment, archive.where)
            log_lease = LogLeaseHolder(stores.log, schedule.NAME, lambda: next(clock))
            for minutes in (0, 6, 12):
                await stores.store.apply(writes_of(*(edge_of(minutes, 100 + at) for at in range(600))))
                await worker.run_due(settings, stores, maker, log_lease, now_ms + minutes * 60_000)
            (lease,) = await stores.log.leases()
            assert (lease.name, lease.lost, (await stores.log.behind(lease.at)).events) == (schedule.NAME, False, 1)

    run(scene())
    assert [part.kind for part in read_parts(archive).whole] == ["whole", "increment", "increment"]


def test_a_drill_says_whether_the_backup_is_good(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    archive = FolderArchive(tmp_path / "kept")
    back_up(settings, archive)
    command.run_restore(str(tmp_path / "kept"), drill=True)
    said = capsys.readouterr().out
    assert "after event 0" in said
    assert "is good" in said
    assert drills.last(archive).good
    archive.delete(["media/ff/c.mp4"])
    with pytest.raises(typer.Exit):
        command.run_restore(str(tmp_path / "kept"), drill=True)
    assert "not good" in capsys.readouterr().out
    assert not drills.last(archive).good
    assert not list(tmp_path.glob("kith-drill-*"))


@pytest.mark.parametrize("damage", ["a byte", "a file"])
def test_a_drill_that_cannot_restore_is_noted_as_failed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    archive = FolderArchive(tmp_path / "kept")
    back_up(settings, archive)
    command.run_restore(str(tmp_path / "kept"), drill=True)
    (store,) = (tmp_path / "kept").rglob("store.mdb")
    whole = store.read_bytes()
    if damage == "a byte":
        store.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        store.unlink()
    with pytest.raises(StoreMismatch):
        command.run_restore(str(tmp_path / "kept"), drill=True)
    assert not drills.last(archive).good
    store.write_bytes(whole)
    command.run_restore(str(tmp_path / "kept"), drill=True)

    def damaged(*_: object, **__: object) -> None:
        raise StoreUnavailable("a page of it is damaged")

    monkeypatch.setattr(command, "audit_edges", damaged)
    with pytest.raises(StoreMismatch):
        command.run_restore(str(tmp_path / "kept"), drill=True)
    assert not drills.last(archive).good


def test_a_full_disk_of_the_machine_that_drills_is_no_verdict_on_the_backup(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = FolderArchive(tmp_path / "kept")
    back_up(settings, archive)
    command.run_restore(str(tmp_path / "kept"), drill=True)

    def full(*_: object, **__: object) -> None:
        raise StoreFull("no room")

    monkeypatch.setattr(command.restoring, "restore", full)
    with pytest.raises(StoreFull):
        command.run_restore(str(tmp_path / "kept"), drill=True)
    assert drills.last(archive).good
