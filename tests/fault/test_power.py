"""A power cut forgets what was not synced; what was acknowledged was synced, so it is still there.

`faulty_disk.c` records every write and sync of a writer, and what it acknowledged. From that record we build
the disk as a cut at any moment could have left it: all that was synced, and of the rest whatever a drive
chooses to have written: any set of its pages, in any order, a size that lags. Each such disk must open, be
whole, and hold everything acknowledged before the cut.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from drive import FILES, Drive, Record, read_trace
from ledger import Ledger, opened, read_lines
from processes import HERE, FaultyDisk

from kith.engines.embedded import history as histories
from kith.engines.embedded import segments, store_role
from kith.engines.embedded.history import History, StorePositions

_CUTS = 40


def record(folder: Path, disk: FaultyDisk, seed: int, durability: str) -> list[Record]:
    """Let a writer work on a new folder; every step of its disk."""
    with writing(folder, disk, seed, "--applies", "12", "--durability", durability) as writer:
        assert writer.wait(120) == 0
    return list(read_trace((folder.parent / "trace").read_bytes()))


def record_two(folder: Path, disk: FaultyDisk, seed: int) -> list[Record]:
    """Let two writers work on a new folder; one is killed, the other somewhat later. Every step of the disk."""
    trace = folder.parent / "trace"
    with writing(folder, disk, seed) as first, writing(folder, disk, seed + 1) as second:
        for writer, until in ((first, 4 << 20), (second, 8 << 20)):
            while not trace.exists() or trace.stat().st_size < until:
                assert writer.poll() is None
            writer.kill()
            writer.wait()
    return list(read_trace(trace.read_bytes()))


@contextmanager
def writing(folder: Path, disk: FaultyDisk, seed: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A writer whose disk is traced. Its checkpoints follow each other closely, so that a cut meets many."""
    command = [sys.executable, str(HERE / "writer.py"), str(folder), str(seed), "--checkpoint-s", "0.004", *options]
    variables = {**os.environ, **disk.environment, "KITH_FAULT_TRACE": str(folder.parent / "trace")}
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def disks(steps: list[Record], chosen: random.Random, cuts: int) -> Iterator[tuple[dict[str, bytes], str]]:
    """What `cuts` power cuts at random moments leave, and what had been acknowledged before each."""
    drive = Drive()
    first = next(at for at, step in enumerate(steps) if step.kind == "A")
    moments = Counter(chosen.choices(range(first, len(steps)), k=cuts))
    for at, step in enumerate(steps):
        drive.take(step)
        for _ in range(moments[at]):
            yield drive.cut(chosen), "".join(drive.acknowledged)


def test_the_record_of_the_disk_is_complete(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    """All steps together are the file as it is; otherwise the tests below would prove nothing."""
    folder = tmp_path / "data"
    drive = Drive()
    for step in record(folder, disk, seed, "full"):
        drive.take(step)
    whole = drive.cut(_Everything())
    assert whole == {name: (folder / name).read_bytes() for name in FILES.values()}


class _Everything(random.Random):
    """A drive that had written all."""

    def random(self) -> float:
        return 0.0

    def choice(self, values: tuple[float, ...]) -> float:  # type: ignore[override]
        return values[-1]


@pytest.mark.short_of("test_five_hundred_power_cuts_lose_nothing_acknowledged")
def test_a_power_cut_loses_nothing_acknowledged(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    steps = record(tmp_path / "data", disk, seed, "full")
    for number, (image, said) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        ledger = Ledger()
        ledger.add(read_lines(said))
        check_disk(tmp_path / f"cut-{number}", image, ledger)


@pytest.mark.slow
def test_a_power_cut_after_one_of_two_processes_was_killed_loses_nothing_acknowledged(
    tmp_path: Path, disk: FaultyDisk, seed: int
) -> None:
    """What keeps the pages of a checkpoint does not die with the process that made it."""
    steps = record_two(tmp_path / "data", disk, seed)
    for number, (image, said) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        ledger = Ledger()
        ledger.add(read_lines(said))
        folder = tmp_path / f"cut-{number}"
        check_disk(folder, image, ledger)
        shutil.rmtree(folder)


def test_a_power_cut_under_relaxed_durability_leaves_the_store_whole(
    tmp_path: Path, disk: FaultyDisk, seed: int
) -> None:
    """The last commits may be gone; what is there agrees with itself and with its log."""
    steps = record(tmp_path / "data", disk, seed, "relaxed")
    for number, (image, _) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        check_disk(tmp_path / f"cut-{number}", image, Ledger())


def test_a_place_in_the_log_that_a_power_cut_took_back_stands_for_nothing_else(
    tmp_path: Path, disk: FaultyDisk, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With relaxed durability watchers and standbys may have heard of it, and its number will be another event's."""
    steps = record(tmp_path / "data", disk, seed, "relaxed")
    monkeypatch.setattr(histories, "boot_id", lambda: "the next boot")
    lost = 0
    for number, (image, said) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        told = {sequence for _, sequence in read_lines(said)} - {0}
        (folder := tmp_path / f"cut-{number}").mkdir()
        for name, content in image.items():
            (folder / name).write_bytes(content)
        with opened(folder) as (environment, _):
            last = segments.last_event(environment)
            places = {sequence: StorePositions(History()).of(sequence) for sequence in told}
            held = {sequence for sequence, place in places.items() if environment.positions.sequence(place)}
            assert held == {sequence for sequence in told if sequence <= last}
            assert not store_role.epoch_of(environment).restores, "no other machine was made the primary"
        lost += len(told - held)
    assert lost, "no cut took anything back"


def check_disk(folder: Path, image: dict[str, bytes], ledger: Ledger) -> None:
    """A service that opens this disk has a whole store, with what the ledger says, and goes on writing."""
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    with opened(folder) as (environment, store):
        ledger.check_whole(environment, store)
        environment.put_note("after the cut", b"1")


@pytest.mark.long
def test_five_hundred_power_cuts_lose_nothing_acknowledged(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    steps = record(tmp_path / "data", disk, seed, "full")
    for number, (image, said) in enumerate(disks(steps, random.Random(seed), 500)):
        ledger = Ledger()
        ledger.add(read_lines(said))
        folder = tmp_path / f"cut-{number}"
        check_disk(folder, image, ledger)
        shutil.rmtree(folder)
