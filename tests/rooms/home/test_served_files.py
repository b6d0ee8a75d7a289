"""Served pages are stored as they were, within bounds, and never at the cost of an answer."""

from __future__ import annotations

import itertools
import stat
from pathlib import Path

import pytest
import structlog
from cast import START_MS
from hypothesis import given
from hypothesis import strategies as st

from kith.core.ids import ID_MAX
from kith.engines.embedded import served_log as files
from kith.engines.embedded.served_log import FLUSH_BYTES, ServedFiles, read_served
from kith.home.served import Served


def page(number: int, size: int = 3) -> Served:
    ids = [ID_MAX - at for at in range(size)]
    return Served(f"request-{number}", ID_MAX, START_MS + number, "light-1", 1, ids, [0.5] * size, b"\x01" * 16 * size)


def kept(folder: Path) -> list[Served]:
    """All stored pages, in the order of files and rows."""
    return [page for file in sorted(folder.glob("*.rows")) for page in read_served(file)]


def served(folder: Path, *, share: float = 1.0, bytes_max: int = 1 << 30) -> ServedFiles:
    return ServedFiles(folder, share=share, bytes_max=bytes_max)


def test_pages_come_back_as_they_were(tmp_path: Path) -> None:
    log, pages = served(tmp_path / "served"), [page(at, at % 51) for at in range(300)]
    for one in pages:
        log.add(one)
    log.flush()
    assert kept(tmp_path / "served") == pages
    log.flush()
    assert kept(tmp_path / "served") == pages, "nothing is written twice"


def test_only_its_owner_may_read_what_was_shown_to_whom(tmp_path: Path) -> None:
    log = served(tmp_path / "served")
    log.add(page(1))
    log.flush()
    assert [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "served").iterdir()] == [0o600]


def test_nothing_served_leaves_no_file(tmp_path: Path) -> None:
    log = served(tmp_path / "served")
    log.flush()
    assert not (tmp_path / "served").exists()


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 0), (0.25, 25), (0.5, 50), (1.0, 100)], ids=["none", "a quarter", "half", "all"]
)
def test_the_configured_share_of_pages_is_stored_spread_evenly(tmp_path: Path, share: float, expected: int) -> None:
    log = served(tmp_path, share=share)
    for at in range(100):
        log.add(page(at))
    log.flush()
    times = [one.at_ms - START_MS for one in kept(tmp_path)]
    assert len(times) == expected
    assert len({later - sooner for sooner, later in itertools.pairwise(times)}) <= 1


@given(st.integers(0, 100_000))
def test_a_file_that_is_torn_anywhere_gives_the_rows_before(tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "torn"
    if not folder.exists():
        log = served(folder)
        for at in range(20):
            log.add(page(at))
        log.flush()
    (whole,) = folder.glob("*.rows")
    raw = whole.read_bytes()
    for torn in (raw[: cut % len(raw)], raw[: cut % len(raw)] + bytes(50)):
        file = tmp_path / "one.torn"
        file.write_bytes(torn)
        found = list(read_served(file))
        assert found == [page(at) for at in range(len(found))]
        assert len(found) >= cut % len(raw) // (len(raw) // 20 + 2) - 1


def test_a_process_that_starts_again_leaves_torn_files_alone(tmp_path: Path) -> None:
    first = served(tmp_path)
    first.add(page(1))
    first.flush()
    (file,) = tmp_path.glob("*.rows")
    file.write_bytes(file.read_bytes() + b"\x40\0\0\0half a row")
    second = served(tmp_path)  # with the same process number, as in a container
    second.add(page(2))
    second.flush()
    assert kept(tmp_path) == [page(1), page(2)]


def test_all_files_together_stay_within_their_bound_and_the_newest_remain(tmp_path: Path) -> None:
    bytes_max = 20 * FLUSH_BYTES
    log = served(tmp_path, bytes_max=bytes_max)
    for at in range(10_000):
        log.add(page(at, 20))
        if at % 500 == 0:
            assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= bytes_max
    log.flush()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= bytes_max
    found = [one.at_ms - START_MS for one in kept(tmp_path)]
    assert found == list(range(10_000 - len(found), 10_000))
    assert len(found) * 500 > bytes_max // 2


def test_many_processes_stay_within_the_bound_together(tmp_path: Path) -> None:
    bytes_max, count = 40 * FLUSH_BYTES, 16
    logs = [ServedFiles(tmp_path, share=1.0, bytes_max=bytes_max, writers=count) for _ in range(count)]
    for at in range(20_000):
        logs[at % count].add(page(at, 20))
        if at % 500 == 0:
            assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= bytes_max
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > bytes_max // 4


def test_a_bound_smaller_than_a_piece_keeps_one_piece(tmp_path: Path) -> None:
    log = served(tmp_path, bytes_max=1)
    for at in range(3):
        log.add(page(at))
        log.flush()
    assert kept(tmp_path) == [page(2)]


def test_a_full_disk_only_warns_and_later_pages_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = served(tmp_path)
    log.add(page(1))
    log.flush()
    real = Path.open

    class Full:
        """A file that takes half of each write."""

        def __init__(self, file: object) -> None:
            self._file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()  # type: ignore[attr-defined]

        def write(self, rows: bytes) -> int:
            return int(self._file.write(rows[: len(rows) // 2]))  # type: ignore[attr-defined]

    monkeypatch.setattr(Path, "open", lambda self, *args, **more: Full(real(self, *args, **more)))
    with structlog.testing.capture_logs() as logs:
        log.add(page(2))
        log.flush()
    assert [entry["event"] for entry in logs] == ["served pages could not be written, and are dropped"]
    monkeypatch.undo()
    log.add(page(3))
    log.flush()
    assert kept(tmp_path) == [page(1), page(3)]


def test_a_folder_that_cannot_be_made_only_warns(tmp_path: Path) -> None:
    (tmp_path / "served").write_text("a file is in the way")
    log = served(tmp_path / "served")
    with structlog.testing.capture_logs() as logs:
        log.add(page(1))
        log.flush()
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_pieces_are_written_when_they_are_large_or_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(files.time, "monotonic", lambda: now[0])
    log = served(tmp_path)
    log.add(page(1))
    assert kept(tmp_path) == []
    now[0] += files.FLUSH_S
    log.add(page(2))
    assert kept(tmp_path) == [page(1), page(2)]
    while not kept(tmp_path)[2:]:
        log.add(page(3))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) >= FLUSH_BYTES
