"""A power cut loses unsynced data. Acknowledged writes were synced, so they survive.

`faulty_disk.c` records every write and sync of a writer, and its acknowledgements. From this trace the tests rebuild
the disk as a cut at any moment may leave it. All synced data is there. Of the rest, any set of pages may be written, in
any order, with a file size that lags. Each such disk must open, be consistent, and hold everything acknowledged before
the cut.
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
from itertools import chain
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
    """Run a writer on a new folder. Returns every step of its disk."""
    with writing(folder, disk, seed, "--applies", "12", "--durability", durability) as writer:
        assert writer.wait(120) == 0
    return list(read_trace((folder.parent / "trace").read_bytes()))


def record_two(folder: Path, disk: FaultyDisk, seed: int) -> list[Record]:
    """Run two writers on a new folder, kill one, and later the other. Returns every step of the disk."""
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
    """A writer with a traced disk. It makes checkpoints often, so that many cuts hit one."""
    command = [sys.executable, str(HERE / "writer.py"), str(folder), str(seed), "--checkpoint-s", "0.004", *options]
    variables = {**os.environ, **disk.environment, "KITH_FAULT_TRACE": str(folder.parent / "trace")}
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def disks(steps: list[Record], chosen: random.Random, cuts: int) -> Iterator[tuple[dict[str, bytes], str]]:
    """For `cuts` power cuts at random moments: the files that are left, and what was acknowledged before the cut."""
    drive = Drive()
    first = next(index for index, step in enumerate(steps) if step.kind == "A")
    moments = Counter(chosen.choices(range(first, len(steps)), k=cuts))
    for index, step in enumerate(steps):
        drive.take(step)
        for _ in range(moments[index]):
            yield drive.cut(chosen), "".join(drive.acknowledged)


def emptied_disks(steps: list[Record], chosen: random.Random, cuts: int) -> Iterator[tuple[dict[str, bytes], str]]:
    """The same for cuts right after an acknowledgement, of a drive that loses all that was not synced."""
    drive = Drive()
    moments = set(chosen.sample([index for index, step in enumerate(steps) if step.kind == "A"], k=cuts))
    for index, step in enumerate(steps):
        drive.take(step)
        if index in moments:
            yield drive.cut(_Nothing()), "".join(drive.acknowledged)


def test_the_trace_of_the_disk_is_complete(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    """All steps together give the file as it is. Otherwise the tests below would prove nothing."""
    folder = tmp_path / "data"
    drive = Drive()
    for step in record(folder, disk, seed, "full"):
        drive.take(step)
    full_image = drive.cut(_Everything())
    assert full_image == {name: (folder / name).read_bytes() for name in FILES.values()}


class _Everything(random.Random):
    """Randomness for a drive that has written everything."""

    def random(self) -> float:
        return 0.0

    def choice(self, values: tuple[float, ...]) -> float:  # type: ignore[override]
        return values[-1]


class _Nothing(random.Random):
    """Randomness for a drive that has written nothing but what was synced."""

    def random(self) -> float:
        return 1.0

    def choice(self, values: tuple[float, ...]) -> float:  # type: ignore[override]
        return values[0]


@pytest.mark.short_of("test_five_hundred_power_cuts_lose_no_acknowledged_write")
def test_a_power_cut_loses_no_acknowledged_write(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    steps = record(tmp_path / "data", disk, seed, "full")
    for number, (image, acknowledged) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        ledger = Ledger()
        ledger.add(read_lines(acknowledged))
        check_disk(tmp_path / f"cut-{number}", image, ledger)


@pytest.mark.slow
def test_a_power_cut_after_the_kill_of_one_of_two_processes_loses_no_acknowledged_write(
    tmp_path: Path, disk: FaultyDisk, seed: int
) -> None:
    """The protection of a checkpoint's pages does not end with the process that made the checkpoint."""
    steps = record_two(tmp_path / "data", disk, seed)
    for number, (image, acknowledged) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        ledger = Ledger()
        ledger.add(read_lines(acknowledged))
        folder = tmp_path / f"cut-{number}"
        check_disk(folder, image, ledger)
        shutil.rmtree(folder)


def test_a_power_cut_under_relaxed_durability_leaves_the_store_whole(
    tmp_path: Path, disk: FaultyDisk, seed: int
) -> None:
    """The last commits may be lost. The rest is consistent with itself and with its log."""
    steps = record(tmp_path / "data", disk, seed, "relaxed")
    for number, (image, _) in enumerate(disks(steps, random.Random(seed), _CUTS)):
        check_disk(tmp_path / f"cut-{number}", image, Ledger())


def test_a_log_position_lost_in_a_power_cut_is_never_taken_for_a_new_event(
    tmp_path: Path, disk: FaultyDisk, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With relaxed durability, watchers and standbys may have read the lost events, whose numbers are reused.

    So a lost position must be refused, and not taken for that of a new event.
    """
    steps = record(tmp_path / "data", disk, seed, "relaxed")
    monkeypatch.setattr(histories, "boot_id", lambda: "the next boot")
    lost_positions, chosen = 0, random.Random(seed)
    cuts = chain(disks(steps, chosen, _CUTS), emptied_disks(steps, chosen, _CUTS))
    for number, (image, acknowledged) in enumerate(cuts):
        sequences = {sequence for _, sequence in read_lines(acknowledged)} - {0}
        (folder := tmp_path / f"cut-{number}").mkdir()
        for name, content in image.items():
            (folder / name).write_bytes(content)
        with opened(folder) as (environment, _):
            last = segments.last_event(environment)
            places = {sequence: StorePositions(History()).of(sequence) for sequence in sequences}
            sequences_kept = {sequence for sequence, place in places.items() if environment.positions.sequence(place)}
            assert sequences_kept == {sequence for sequence in sequences if sequence <= last}
            assert not store_role.epoch_of(environment).restores, "a power cut adds no restore to the epoch"
        lost_positions += len(sequences - sequences_kept)
    assert lost_positions, "no cut lost an event"


def check_disk(folder: Path, image: dict[str, bytes], ledger: Ledger) -> None:
    """Check that a service which opens this disk has a whole store, with every write of the ledger, and can write."""
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    with opened(folder) as (environment, store):
        ledger.check_whole(environment, store)
        environment.put_note("after the cut", b"1")


@pytest.mark.long
def test_five_hundred_power_cuts_lose_no_acknowledged_write(tmp_path: Path, disk: FaultyDisk, seed: int) -> None:
    steps = record(tmp_path / "data", disk, seed, "full")
    for number, (image, acknowledged) in enumerate(disks(steps, random.Random(seed), 500)):
        ledger = Ledger()
        ledger.add(read_lines(acknowledged))
        folder = tmp_path / f"cut-{number}"
        check_disk(folder, image, ledger)
        shutil.rmtree(folder)
