"""The thread that writes inboxes continues, whatever is wrong with other weeks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest
import structlog

from kith.core.errors import KithError
from kith.engines.embedded import inbox_store
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.notifications.inbox import PERIOD_MS, InboxRow, base_of, period_of

WITHIN_S = 10.0
NOTICE = base_of(3_000) + 5


def test_a_damaged_week_costs_its_own_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All weeks are checked now and then, for reader slots of processes that were killed."""
    monkeypatch.setattr(inbox_store, "_READERS_CHECKED_COMMITS", 1)

    async def scene() -> None:
        inboxes = EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)
        assert await inboxes.add([InboxRow(1, NOTICE)]) == [True]
        (tmp_path / "inboxes" / "2990.mdb").write_bytes(b"x" * 8_192)
        for user in range(2, 5):
            assert await asyncio.wait_for(inboxes.add([InboxRow(user, NOTICE)]), WITHIN_S) == [True]
        with pytest.raises(KithError):
            await asyncio.wait_for(inboxes.add([InboxRow(1, base_of(2_990) + 5)]), WITHIN_S)
        assert await asyncio.wait_for(inboxes.add([InboxRow(9, NOTICE)]), WITHIN_S) == [True]
        inboxes.close()

    asyncio.run(scene())


def test_a_week_that_was_deleted_and_made_again_is_reopened(tmp_path: Path) -> None:
    """Other processes do that, while this one has it open and does not look."""

    async def scene() -> None:
        with closing(EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)) as inboxes:
            await inboxes.add([InboxRow(1, NOTICE)])
            with closing(EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)) as others:
                await others.expire(3_001 * PERIOD_MS)
                await others.add([InboxRow(2, NOTICE)])
            assert await inboxes.page(2, limit=10) == [NOTICE]

    asyncio.run(scene())


def test_rows_of_later_weeks_are_read_whole_if_the_week_of_the_last_row_is_deleted_meanwhile(tmp_path: Path) -> None:
    """As while a store is moved: pages of all rows are read one after the other."""

    async def scene() -> None:
        with closing(EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)) as inboxes:
            later = [InboxRow(user, base_of(3_001) + 5) for user in (1, 5_000, 9_000)]
            await inboxes.add([*(InboxRow(user, NOTICE) for user in (1, 7_000, 9_000)), *later])
            rows, after = inboxes.rows(None, 2)
            assert rows == [InboxRow(1, NOTICE), InboxRow(7_000, NOTICE)]
            await inboxes.expire(3_001 * PERIOD_MS)
            assert inboxes.rows(after, 10) == (later, None)

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["copy of 3000.mdb", "03000.mdb", "-3.mdb", ".mdb", "2³.mdb"])
def test_a_foreign_file_among_the_weeks_is_left_alone_and_reported_once(tmp_path: Path, name: str) -> None:
    """An operator's copy, for example."""

    async def scene() -> None:
        (tmp_path / name).write_bytes(b"not ours")
        for is_new in (True, False):
            assert await inboxes.add([InboxRow(1, NOTICE)]) == [is_new]
            assert await inboxes.page(1, limit=10) == [NOTICE]
        assert await inboxes.expire(4_000 * PERIOD_MS) == 1

    with closing(EmbeddedInboxes(tmp_path, bytes_max=1 << 24)) as inboxes, structlog.testing.capture_logs() as logs:
        asyncio.run(scene())
    assert (tmp_path / name).read_bytes() == b"not ours"
    assert [line["file"] for line in logs if line["log_level"] == "warning"] == [str(tmp_path / name)]


_HOLDS = """
import select, sys, lmdb
with lmdb.Environment(sys.argv[1], subdir=False, max_dbs=2, max_readers=1024).begin(write=True):
    print("holds", flush=True)
    select.select([sys.stdin], [], [], 10)
"""


def test_the_first_read_of_a_week_that_is_being_written_blocks_no_other_task(tmp_path: Path) -> None:
    """LMDB opens a file's databases under its write lock, which another process holds."""
    asyncio.run(_added(tmp_path))
    file = tmp_path / f"{period_of(NOTICE)}.mdb"
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(file)], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"holds\n"
        asyncio.run(_read(tmp_path, other.stdin.close))


async def _added(folder: Path) -> None:
    inboxes = EmbeddedInboxes(folder, bytes_max=1 << 24)
    await inboxes.add([InboxRow(1, NOTICE)])
    inboxes.close()


async def _read(folder: Path, let_go: Callable[[], None]) -> None:
    inboxes = EmbeddedInboxes(folder, bytes_max=1 << 24)
    page = asyncio.create_task(inboxes.page(1, limit=5))
    reading = asyncio.create_task(inboxes.holding(NOTICE, np.array([1], np.int64)))
    for _ in range(100):
        await asyncio.sleep(0)  # other tasks run
    assert [page.done(), reading.done()] == [False, False]
    let_go()
    assert await asyncio.wait_for(page, WITHIN_S) == [NOTICE]
    assert (await asyncio.wait_for(reading, WITHIN_S)).tolist() == [True]
    inboxes.close()
