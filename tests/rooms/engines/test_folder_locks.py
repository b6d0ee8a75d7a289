"""Which processes may use a data folder at the same time."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO

import pytest

from kith.core.errors import StoreMismatch
from kith.engines.embedded import folder_locks
from kith.engines.embedded.folder_locks import LOCK_FILE, hold_beside_servers, serving

SHARED = {"durability": "full"}


def test_servers_that_start_at_once_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first holds the folder alone while it notes its settings; the second was told of an import."""
    with (tmp_path / LOCK_FILE).open("a+") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)

        def go_on(_: float) -> None:
            starting.write('{"durability": "full"}')
            starting.flush()
            fcntl.flock(starting, fcntl.LOCK_SH)

        monkeypatch.setattr(time, "sleep", go_on)
        with serving(tmp_path, SHARED) as is_first, hold_beside_servers(tmp_path):
            assert not is_first


def test_of_servers_that_start_at_once_with_different_settings_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lets go of the lock for a moment when it begins to share it."""
    flock = fcntl.flock

    def overtaken(file: IO[str], how: int) -> None:
        flock(file, fcntl.LOCK_UN)
        if how & fcntl.LOCK_SH:
            (tmp_path / LOCK_FILE).write_text('{"durability": "relaxed"}')  # as another first does
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with pytest.raises(StoreMismatch, match="durability=relaxed"), serving(tmp_path, SHARED):
        pytest.fail("it serves")


def test_a_server_is_refused_while_an_import_holds_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_locks, "_PAUSE_S", 0)
    with folder_locks.alone(tmp_path) as is_alone:
        assert is_alone
        with pytest.raises(StoreMismatch, match="an import or restore holds"), serving(tmp_path, SHARED):
            pytest.fail("it serves")
        with pytest.raises(StoreMismatch, match="an import or restore holds"), hold_beside_servers(tmp_path):
            pytest.fail("it writes")
