"""`kith backup` killed at random moments: earlier backups can still be restored, and the next one resumes."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backups import restored, state
from coroutines import Run
from edges import edge_of, writes_of
from embedded_engine import open_embedded
from forking import Commands, Running, commands

from kith.core.errors import StoreMismatch
from kith.engines.blobs.archives import FolderArchive
from kith.run.backups.backup_maker import BackupMaker
from kith.run.backups.parts import read_parts
from kith.run.config import Settings
from kith.run.serving import supervisor

# Steps so small that even a short backup offers many moments for a kill.
_SMALL_STEPS = """
from kith.run.backups import backup_maker, media_files
backup_maker.BYTES_A_SEGMENT, backup_maker._CHUNK_BYTES, media_files._CHUNK_BYTES = 500, 4096, 1000
"""
_DIES_IN_A_RESTORE = """
import os, signal
from kith.run.backups import restoring
restoring._apply_increments = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""
_KILLS, _EDGES = int(os.environ.get("TEST_KILLS", "6")), 100
_PICTURE_BYTES = 10_000
_WHOLE_BYTES, _INCREMENT_BYTES = 200_000, 20_000  # most kills come at about half of these
_LIMIT_S = 60.0


@pytest.fixture
def kith(tmp_path: Path) -> Iterator[Commands]:
    with commands(tmp_path, _SMALL_STEPS) as started:
        yield started


def held_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, including files that are being written."""
    size = 0
    for folder_path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # renamed meanwhile to its final name
                size += (Path(folder_path) / name).stat().st_size
    return size


def kill_within(process: Running, archive: Path, bytes_more: int) -> bool:
    """Kill with SIGKILL once `bytes_more` bytes were added. False if the process ended before."""
    enough, deadline = held_bytes(archive) + bytes_more, time.monotonic() + _LIMIT_S
    while held_bytes(archive) < enough and not process.ended():
        assert time.monotonic() < deadline, "the process neither ends nor writes"
    process.kill()
    return process.wait().status == -9


def test_a_killed_backup_leaves_earlier_backups_intact_and_the_next_resumes(
    tmp_path: Path, seed: int, kith: Commands, run: Run
) -> None:
    chosen, killed = random.Random(seed), 0
    data, archives = tmp_path / "data", tmp_path / "kept"
    pictures = data / "media" / "01"
    pictures.mkdir(parents=True)
    archive = FolderArchive(archives)
    with open_embedded(data) as (environment, edges):
        run(edges.declare(["follows"]))
        for number in range(_KILLS):
            run(edges.apply(writes_of(*(edge_of(number + 1, followed) for followed in range(1_000, 1_000 + _EDGES)))))
            (pictures / f"{number}.png").write_bytes(bytes([number % 256]) * _PICTURE_BYTES)
            increment = chosen.random() < 0.5
            process = kith.start("backup", archives, "--data", data, *(["--increment"] if increment else []))
            killed += kill_within(process, archives, chosen.randrange(_INCREMENT_BYTES if increment else _WHOLE_BYTES))
            if archives.exists() and read_parts(archive).whole:
                result, edges_found = restored(archive, tmp_path / f"after-{number}")
                assert edges_found[b"log"] == state(environment)[b"log"][: result.event]
                assert not result.lost
        outcome = kith.start("backup", archives, "--data", data, "--increment").wait()
        assert outcome.status == 0, outcome.err
        result, edges_found = restored(archive, tmp_path / "whole")
        assert edges_found == state(environment)
        assert (result.files, result.lost) == (_KILLS, [])
    drill = kith.start("restore", archives, "--drill").wait()
    assert (drill.status, "is good" in drill.out) == (0, True), drill.err
    print(f"{killed} of {_KILLS} killed before they ended")


def test_after_a_killed_restore_no_server_starts_with_an_empty_store(tmp_path: Path, run: Run) -> None:
    data, archive, restored_folder = tmp_path / "data", tmp_path / "kept", tmp_path / "back"
    with open_embedded(data) as (environment, store):
        run(store.declare(["follows"]))
        run(store.apply(writes_of(edge_of(1, 2))))
        BackupMaker(environment, FolderArchive(archive), None).make(whole=True)
        before = state(environment)
    with commands(tmp_path, _DIES_IN_A_RESTORE) as kith:
        assert kith.start("restore", archive, "--data", restored_folder).wait().status == -9
    with pytest.raises(StoreMismatch, match=r"a restore into .* was cut short .* run the same command again"):
        supervisor.prepare(Settings(data=str(restored_folder)))
    assert restored(FolderArchive(archive), restored_folder)[1] == before
