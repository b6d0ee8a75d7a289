"""Which files of timelines are used and which are replaced, who may write them, and how large they are."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
from blocking_timelines import BlockingTimelines, reading
from cast import ALICE, BOB, CAROL, FakeClock

from kith.core.errors import StoreFull, StoreMismatch
from kith.engines.embedded import ring_file
from kith.engines.embedded.ring_file import Layout, RingFile
from kith.engines.embedded.timeline_store import RingTimelines

SLOTS = 300
FILE_BYTES = Layout.of(SLOTS).end


@contextlib.contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[BlockingTimelines]:
    """The timelines of a writer."""
    with RingTimelines(folder, **settings) as timelines:
        yield BlockingTimelines(timelines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder where Alice has a timeline."""
    with opened(tmp_path, slots=SLOTS) as timelines:
        timelines.put(ALICE, np.array([2, 1]))
    return tmp_path


def shown(store: BlockingTimelines, user: int) -> list[int] | None:
    timeline = store.read(user)
    return None if timeline is None else timeline.ids.tolist()


def assert_replaced(folder: Path, reason: str, slots: int = SLOTS) -> None:
    """Check that a writer discards the file, logs why, and that its store works."""
    with structlog.testing.capture_logs() as logs, opened(folder, slots=slots) as timelines:
        assert [(line["log_level"], line["reason"]) for line in logs] == [("warning", reason)]
        assert timelines.count() == 0
        assert shown(timelines, ALICE) is None
        timelines.put(ALICE, np.array([7]))
        assert shown(reading(folder), ALICE) == [7]


# --- which files are used ------------------------------------------------------------------------------


def test_timelines_outlive_their_writer(folder: Path) -> None:
    with structlog.testing.capture_logs() as logs, opened(folder, slots=SLOTS) as timelines:
        assert shown(timelines, ALICE) == [2, 1]
    assert not logs


def test_an_empty_folder_has_no_timelines_and_is_not_worth_a_warning(tmp_path: Path) -> None:
    reader = reading(tmp_path / "none")
    reader.touch(ALICE)
    assert (shown(reader, ALICE), reader.count()) == (None, 0)
    with structlog.testing.capture_logs() as logs, opened(tmp_path / "none", slots=SLOTS) as timelines:
        timelines.put(ALICE, np.array([1]))
        assert shown(reader, ALICE) == [1]
    assert not logs


def test_a_file_of_another_boot_is_replaced(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("0b3c8d0e-0000-4000-8000-000000000000\n")
    monkeypatch.setattr(ring_file, "_BOOT_ID", boot)
    assert shown(reading(folder), ALICE) is None
    assert_replaced(folder, "it was written before the machine started")


def test_a_machine_that_does_not_say_when_it_started_replaces_the_file_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_file, "_BOOT_ID", tmp_path / "none")
    with opened(tmp_path, slots=SLOTS) as timelines:
        timelines.put(ALICE, np.array([1]))
    assert_replaced(tmp_path, "this machine does not say when it started")


def test_a_file_with_another_number_of_slots_is_replaced(folder: Path) -> None:
    assert_replaced(folder, "it has 300 slots, and 301 are asked for", SLOTS + 1)


@pytest.mark.parametrize(
    "length", [0, 1, 63, 64, 2048, 4096, FILE_BYTES // 2, FILE_BYTES - 1, FILE_BYTES + 1], ids="{} bytes".format
)
def test_a_file_cut_short_or_too_long_is_replaced(folder: Path, length: int) -> None:
    os.truncate(folder / ring_file.FILE, length)
    assert shown(reading(folder), ALICE) is None
    assert_replaced(folder, "its header is cut short" if length < 64 else "its length is wrong")


@pytest.mark.parametrize("offset", range(64), ids="byte {}".format)
def test_a_file_with_any_damage_to_its_header_is_replaced(folder: Path, offset: int) -> None:
    damage(folder, offset, b"\xa5")
    assert shown(reading(folder), ALICE) is None
    assert_replaced(folder, "its header is damaged")


def test_a_file_of_noise_is_replaced(folder: Path) -> None:
    (folder / ring_file.FILE).write_bytes(np.random.default_rng(1).bytes(FILE_BYTES))
    assert shown(reading(folder), ALICE) is None
    assert_replaced(folder, "its header is damaged")


@pytest.mark.parametrize("value", [~ALICE, 5], ids=["an owner of two slots", "no user"])
def test_a_file_whose_slots_contradict_each_other_is_replaced(folder: Path, value: int) -> None:
    damage(folder, Layout.of(SLOTS).owners + 8, np.array([value], np.int64).tobytes())
    assert_replaced(folder, "its slots contradict each other")


def test_a_damaged_directory_is_rebuilt(folder: Path) -> None:
    layout = Layout.of(SLOTS)
    size = layout.reads - layout.directory
    damage(folder, layout.directory, np.random.default_rng(2).integers(-(2**63), 2**63, size // 8).tobytes())
    reader = reading(folder)
    assert [shown(reader, user) for user in range(1000)] == [None] * 1000
    with opened(folder, slots=SLOTS) as timelines:
        assert shown(timelines, ALICE) == shown(reader, ALICE) == [2, 1]


def damage(folder: Path, offset: int, new_bytes: bytes) -> None:
    """Overwrite a part of the file."""
    with (folder / ring_file.FILE).open("r+b") as file:
        file.seek(offset)
        old_bytes = file.read(len(new_bytes))
        file.seek(offset)
        file.write(new_bytes if new_bytes != old_bytes else bytes([new_bytes[0] ^ 1]) + new_bytes[1:])


# --- writers and readers -------------------------------------------------------------------------------


def test_a_second_writer_has_the_slots_of_the_first(folder: Path) -> None:
    with opened(folder, slots=SLOTS) as timelines, opened(folder, slots=SLOTS) as other:
        with pytest.raises(StoreMismatch, match=f"with {SLOTS} slots; {SLOTS + 1} are asked for"):
            RingTimelines(folder, slots=SLOTS + 1)
        assert shown(other, ALICE) == [2, 1]
        other.push(3, np.array([ALICE]))
        assert shown(timelines, ALICE) == [3, 2, 1]
    with opened(folder, slots=SLOTS + 1) as timelines:
        assert shown(timelines, ALICE) is None


_KILLED = """
import asyncio, os, pathlib, signal, sys
import numpy as np
from kith.engines.embedded import timeline_store
from kith.engines.embedded.timeline_store import RingTimelines

timeline_store._flush = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(RingTimelines(pathlib.Path(sys.argv[1]), slots=int(sys.argv[2])).push(7, np.array([int(sys.argv[3])])))
"""


def test_the_leftovers_of_a_killed_writer_are_repaired_by_another_that_continues(folder: Path) -> None:
    with opened(folder, slots=SLOTS) as timelines:
        given_up = timelines.begin(BOB)
        command = [sys.executable, "-c", _KILLED, folder, SLOTS, ALICE]
        process = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
        assert process.returncode == -signal.SIGKILL, process.stderr
        assert timelines.push(8, np.array([ALICE])) == 1
        assert shown(timelines, ALICE) == [8, 2, 1]
        assert not timelines.end(BOB, np.array([1]), given_up), "what it missed is unknown"
        timelines.put(BOB, np.array([1]))
        assert shown(timelines, BOB) == [1]


def test_readers_follow_a_writer_that_replaces_the_file(folder: Path) -> None:
    reader = reading(folder)
    assert shown(reader, ALICE) == [2, 1]
    with opened(folder, slots=2 * SLOTS) as timelines:
        assert shown(reader, ALICE) is None
        timelines.put(ALICE, np.array([5]))
        assert shown(reader, ALICE) == [5]


def test_a_reader_cannot_write_timelines(folder: Path) -> None:
    file = RingFile(folder / ring_file.FILE)
    for column in (file.heads, file.owners, file.versions, file.tails, file.cells):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_a_reader_caches_a_timeline_until_it_changes(folder: Path) -> None:
    chosen, keeping, posts = random.Random(7), reading(folder), iter(range(10, 10_000))
    users = np.array([ALICE, BOB, CAROL])
    with opened(folder, slots=SLOTS) as timelines:
        changes = [
            lambda: timelines.push(next(posts), users[chosen.randrange(3) :]),
            lambda: timelines.push(next(posts), users),
            lambda: timelines.withhold(chosen.randrange(1, 9), users[:1]),
            lambda: timelines.put(chosen.choice(users.tolist()), np.array([next(posts), 3, 2, 1])),
            lambda: timelines.drop(chosen.choice(users.tolist())),
            lambda: None,
        ]
        for _ in range(3_000):
            was = {user: keeping.read(user) for user in users.tolist()}
            change = chosen.choice(changes)
            change()
            for user in users.tolist():
                cached, uncached = keeping.read(user), reading(folder).read(user)
                assert (cached is None) == (uncached is None)
                if cached is not None and uncached is not None:
                    assert cached.ids.tolist() == uncached.ids.tolist()
                    assert cached[1:] == uncached[1:]
                if change is changes[-1]:
                    assert cached is was[user]


def test_a_slot_that_changes_hands_while_it_is_read_is_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alice's slot becomes Bob's between its lookup and its copy."""
    reader = reading(folder)
    with opened(folder, slots=SLOTS) as timelines:
        timelines.put(BOB, np.array([9, 8, 7]))
        slot = timelines.store._rings.directory.find(BOB)
        assert shown(reader, ALICE) == [2, 1]
        assert reader.store._file is not None
        monkeypatch.setattr(reader.store._file.directory, "find", lambda user: slot)
        assert shown(reader, ALICE) is None
        before = reader.store._file.reads[slot]
        reader.touch(ALICE)
        assert reader.store._file.reads[slot] == before


def test_a_slot_left_half_changed_is_not_shown_and_is_emptied_by_the_next_writer(folder: Path) -> None:
    damage(folder, Layout.of(SLOTS).versions, np.array([3], np.int64).tobytes())
    reader = reading(folder)
    assert shown(reader, ALICE) is None
    with opened(folder, slots=SLOTS) as timelines:
        assert timelines.count() == 0
        timelines.put(CAROL, np.array([1]))
        assert shown(reader, CAROL) == [1]


# --- sizes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1_000, 100_000, (1 << 17) + 1, 1_000_000], ids="{} slots".format)
def test_a_user_costs_at_most_four_and_a_half_kilobytes(slots: int) -> None:
    assert Layout.of(slots).end / slots <= 4_608


def test_unused_slots_take_no_room_on_the_disk(tmp_path: Path) -> None:
    with opened(tmp_path, slots=100_000) as timelines:
        for user in range(100):
            timelines.put(user, np.arange(500))
        bytes_used = (tmp_path / ring_file.FILE).stat().st_blocks * 512
    assert bytes_used < 28_000_000  # of 434 MB: the tables, and the first part of the cells


def test_a_full_disk_refuses_a_timeline_where_none_can_be_evicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(tmp_path, slots=SLOTS) as timelines:
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(StoreFull):
            timelines.put(BOB, np.array([1]))
        assert (shown(timelines, BOB), timelines.count()) == (None, 0)
        monkeypatch.undo()
        timelines.put(BOB, np.array([1]))
        assert shown(timelines, BOB) == [1]


def test_a_full_disk_refuses_a_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreFull):
        RingTimelines(tmp_path, slots=SLOTS)
    monkeypatch.undo()
    assert not (tmp_path / ring_file.FILE).exists()
    RingTimelines(tmp_path, slots=SLOTS).close()


def copied(folder: Path) -> Path:
    """A copy of the folder as `cp` makes it: with a hole for each block of zeros."""
    copy = folder / "copy"
    copy.mkdir()
    with (folder / ring_file.FILE).open("rb") as source, (copy / ring_file.FILE).open("wb") as target:
        while block := source.read(4096):
            if block.strip(b"\0"):
                target.write(block)
            else:
                target.seek(len(block), os.SEEK_CUR)
        target.truncate(FILE_BYTES)
    return copy


def test_a_writer_fills_the_holes_of_a_copied_file(folder: Path) -> None:
    file = copied(folder) / ring_file.FILE
    used = Layout.of(SLOTS).cells + 256 * ring_file.WIDTH * 8  # what Alice's timeline needs
    assert file.stat().st_blocks * 512 < used
    with opened(file.parent, slots=SLOTS) as rings:
        assert file.stat().st_blocks * 512 >= used
        assert shown(rings, ALICE) == [2, 1]


def test_a_copied_file_is_not_used_where_the_disk_has_no_room_for_its_holes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write to a hole on a full disk kills the process: SIGBUS."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    copy = copied(folder)
    reader = reading(copy)
    assert shown(reader, ALICE) == [2, 1]
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreFull):
        RingTimelines(copy, slots=SLOTS)
    assert shown(reader, ALICE) is None
    monkeypatch.undo()
    with opened(copy, slots=SLOTS) as rings:
        assert rings.count() == 0


def test_readers_find_the_timelines_that_replaced_a_removed_file(folder: Path) -> None:
    reader = reading(folder)
    old_name = reader.name()
    assert old_name
    shutil.rmtree(folder)
    with opened(folder, slots=SLOTS) as timelines:
        assert timelines.name() not in (0, old_name)
        assert reader.name() == old_name, "readers do not look for a new file by themselves"
        reader.store.close()
        assert reader.name() == timelines.name()
        assert timelines.rename() == reader.name() == timelines.name()


def test_on_a_full_disk_the_longest_unread_timeline_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise StoreFull("no room")

    now = iter(range(1_000_000))
    with opened(tmp_path, slots=2_000, now_ms=lambda: next(now)) as timelines:
        for user in range(300):  # two parts of 256 slots
            timelines.put(user, np.array([user]))
        monkeypatch.setattr(ring_file, "_allocate", full)
        for user in range(300, 600):
            timelines.put(user, np.array([user]))
        assert timelines.count() == 512
        assert [shown(timelines, user) for user in range(600)] == [None] * 88 + [[user] for user in range(88, 600)]


def test_after_a_clock_was_put_back_active_readers_keep_their_timelines(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, slots=4, now_ms=clock) as timelines:
        for user in range(4):
            timelines.put(user, np.array([user]))
        clock.ms -= 3_600_000
        for user in (1, 2):
            timelines.touch(user)
        for user in (10, 11):
            timelines.put(user, np.array([user]))
        assert [user for user in range(12) if shown(timelines, user)] == [1, 2, 10, 11]


def test_a_file_that_cannot_be_opened_reads_as_empty(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    reader = reading(folder)
    with monkeypatch.context() as full:
        full.setattr(ring_file.os, "open", open_)
        assert (shown(reader, ALICE), reader.name(), reader.count()) == (None, 0, 0)
        reader.touch(ALICE)
    assert shown(reader, ALICE) == [2, 1]
