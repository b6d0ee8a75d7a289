"""Inboxes keep every acknowledged row when a writer is killed at any moment, or when the disk is full."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
from inbox_writer import notice_of
from processes import FaultyDisk

from kith.engines.embedded.inbox_store import EmbeddedInboxes

HERE = Path(__file__).parent


def started(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "inbox_writer.py"), *map(str, arguments)]
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)


def test_acknowledged_rows_survive_kills_of_all_writers(tmp_path: Path, seed: int) -> None:
    """Six processes are killed after a random number of answers. Some of them create the same file at once."""
    chance = random.Random(seed)
    writers = [started(tmp_path / "inboxes", str(number)) for number in range(6)]
    acknowledged: list[list[tuple[int, int]]] = [[] for _ in writers]
    for writer, lines in zip(writers, acknowledged, strict=True):
        assert writer.stdout
        for _ in range(chance.randrange(1, 12)):
            first, count = writer.stdout.readline().split()
            lines.append((int(first), int(count)))
        writer.kill()
    for writer in writers:
        assert writer.wait() == -9
        writer.communicate()
    store = EmbeddedInboxes(tmp_path / "inboxes", bytes_max=1 << 30)
    for number, lines in enumerate(acknowledged):
        first, count = lines[-1]
        users = np.arange(first + count, dtype=np.int64)
        assert asyncio.run(store.holding(notice_of(number), users)).all()
        assert asyncio.run(store.add_for_all(notice_of(number), users[:1])) == 0, "the store takes writes"
    store.close()


def test_a_full_disk_refuses_rows_as_full_and_recovers_without_a_restart(tmp_path: Path, disk: FaultyDisk) -> None:
    writer = started(tmp_path / "inboxes", "fill", **disk.environment)

    def written(count: int) -> list[str]:
        assert writer.stdin
        assert writer.stdout
        writer.stdin.write(f"{count}\n")
        writer.stdin.flush()
        return writer.stdout.readline().split()

    assert written(5_000) == ["ok", "True"]
    disk.order("ENOSPC")
    answers = [written(5_000) for _ in range(12)]
    assert ["STORE_FULL", "True"] in answers
    assert all(is_kept == "True" for _, is_kept in answers), "every acknowledged row is there"
    disk.heal()
    assert written(5_000) == ["ok", "True"]
    writer.communicate()
    assert writer.returncode == 0
