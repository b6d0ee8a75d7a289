"""A process notices that the files it has open are no longer those in its folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kith.core.errors import StoreUnavailable
from kith.engines.embedded.environment import Environment


def _delete_all(folder: Path) -> None:
    shutil.rmtree(folder)


def _replace_store(folder: Path) -> None:
    shutil.copy(folder / "store.mdb", folder / "copy")
    (folder / "copy").replace(folder / "store.mdb")


def _delete_journal(folder: Path) -> None:
    (folder / "store.journal").unlink()


def _delete_locks(folder: Path) -> None:
    (folder / "store.mdb-lock").unlink()


def _delete_turn(folder: Path) -> None:
    (folder / "store.turn").unlink()


@pytest.mark.parametrize("lose", [_delete_locks, _delete_turn, _delete_all, _replace_store, _delete_journal])
def test_nothing_is_committed_to_files_that_are_gone(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    folder = tmp_path / "data"
    with Environment(folder) as environment:
        environment.put_note("before", b"1")
        lose(folder)
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            environment.put_note("after", b"1")
        assert environment.get_note("before") == b"1"
        assert environment.get_note("after") is None


def test_a_process_of_another_container_with_our_pid_is_reported(tmp_path: Path) -> None:
    """LMDB tells the processes of a store apart by their pids, and each container counts its own pids."""
    folder = tmp_path / "data"
    Environment(folder).close()
    command = [sys.executable, "-c", _HOLDS, str(folder / "store.mdb-lock"), str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        with pytest.raises(StoreUnavailable, match=f"another container .* has the same process id, {os.getpid()}"):
            Environment(folder)
        other.communicate(b"")
    Environment(folder).close()


_HOLDS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
    print("held", flush=True)
    sys.stdin.read()
"""
