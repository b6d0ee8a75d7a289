"""The files of inboxes: one LMDB file a week, so that dropping a week means deleting a file.

    inboxes/<week>.mdb        the rows of notices made in that week; see `inbox_rows`
    inboxes/<week>.mdb-lock   LMDB's reader table and write lock
    inboxes/weeks.lock        locked while a file is made or deleted
    inboxes/weeks.turn        locked while rows of any week are written

A file is made as `.part`, and renamed once its databases are there. If a process is killed meanwhile, the next one
replaces the `.part`. Processes notice by the folder's modification time that others made or deleted files. A file with
another name is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import structlog

from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.inbox_rows import InboxKey
from kith.engines.embedded.store_file import OpenedFiles, check_length, sync_folder
from kith.engines.embedded.turns import Turns

_ENDING = ".mdb"
_NEAR, _FAR = b"near", b"far"
_READERS_MAX = 1024
_TICK_NS = 1_000_000_000
"""Two changes of a folder within this time may leave the same modification time, which hides the second one."""
_log = structlog.get_logger("kith.store")


class Week:
    """The open file of a week."""

    def __init__(self, period: int, file: Path, bytes_max: int) -> None:
        self.period = period
        self.lmdb = lmdb.Environment(
            str(file), subdir=False, map_size=bytes_max, max_dbs=2, max_readers=_READERS_MAX, mode=0o600
        )
        self._opened = OpenedFiles(file)
        info = self.lmdb.info()
        check_length(file, (info["last_pgno"] + 1) * self.lmdb.stat()["psize"])
        with self.lmdb.begin(write=True) as txn:  # handles that a write transaction opens stay valid after it
            self.near, self.far = _databases(self.lmdb, txn)
        self.lmdb.reader_check()

    def lost(self) -> bool:
        """Whether the file was deleted since it was opened. Another file may have its name."""
        return bool(self._opened.lost())

    def db(self, place: InboxKey) -> lmdb._Database:
        """The database of a place."""
        return self.far if place.far else self.near


class Weeks:
    """The weeks of a folder, each opened when it is first needed. `bytes_max`: the size that each file may reach."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder, self._path, self._bytes_max = folder, str(folder), bytes_max
        self._open: dict[int, Week] = {}
        self._periods: list[int] = []
        self._foreign: set[str] = set()  # names of files that are no week's, and were reported
        self._changed_ns = -1
        self._lock = threading.RLock()  # several threads read, and one writes
        self._opening = threading.Lock()
        self._turns: Turns | None = None

    def periods(self) -> list[int]:
        """The periods that have a file, ascending."""
        try:
            changed_ns = os.stat(self._path).st_mtime_ns
        except FileNotFoundError:
            return []
        with self._lock:
            if changed_ns != self._changed_ns:
                self._periods = self._list_periods()
                self._open = {period: week for period, week in self._open.items() if not week.lost()}
                is_recent = abs(time.time_ns() - changed_ns) < _TICK_NS
                self._changed_ns = -1 if is_recent else changed_ns
            return self._periods

    def _list_periods(self) -> list[int]:
        periods: list[int] = []
        for file in self._folder.glob(f"*{_ENDING}"):
            digits = file.name.removesuffix(_ENDING)
            if digits.isdecimal() and self._file(int(digits)) == file:
                periods.append(int(digits))
            elif file.name not in self._foreign:
                self._foreign.add(file.name)
                _log.warning("a file among the inboxes is none of them; it is left alone", file=str(file))
        return sorted(periods)

    def get(self, period: int) -> Week | None:
        """The week of a period; None if it has no file. If it is not open yet, this waits for the file's writer."""
        if period not in self.periods():
            return None
        week = self._open.get(period)
        if week is None:
            with self._opening, translate_errors("open an inbox", self._folder):
                week = self._open.get(period) or Week(period, self._file(period), self._bytes_max)
                with self._lock:
                    self._open[period] = week
        return week

    def opened(self, period: int) -> Week | None:
        """The open week of a period that `periods` just returned; None if it is not open yet."""
        return self._open.get(period)

    def get_or_make(self, period: int) -> Week:
        """The week of a period. Its file is made if there is none."""
        week = self.get(period)
        while week is None:
            with translate_errors("make an inbox", self._folder):
                self._make(self._file(period))
            self._changed_ns = -1
            week = self.get(period)  # None if another process deleted it already
        return week

    def reopen(self, period: int) -> None:
        """Close a file that refuses everything after a failed write. It is reopened when it is next needed."""
        week = self._open.pop(period, None)
        if week is not None:
            week.lmdb.close()

    def delete(self, before: int) -> int:
        """Delete the files of all periods before `before`. Returns how many."""
        expired = [period for period in self.periods() if period < before]
        with translate_errors("forget old inboxes", self._folder):
            if expired:
                with self._alone():
                    for period in expired:
                        file = self._file(period)
                        file.unlink(missing_ok=True)
                        file.with_name(f"{file.name}-lock").unlink(missing_ok=True)
        return len(expired)

    def close(self) -> None:
        """Close every file."""
        for week in self._open.values():
            week.lmdb.close()
        if self._turns is not None:
            self._turns.close()
        self._open, self._changed_ns, self._turns = {}, -1, None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the turn to write. Only one thread of a process calls this. Makes the folder of inboxes, not the data
        folder above it.
        """
        if self._turns is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._turns = Turns(self._folder / "weeks.turn")
        with self._turns.take():
            yield

    def _file(self, period: int) -> Path:
        return self._folder / f"{period}{_ENDING}"

    def _make(self, file: Path) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with self._alone():
            if file.exists():
                return
            partial = file.with_name(f"{file.name}.part")
            partial.unlink(missing_ok=True)
            with (
                lmdb.Environment(
                    str(partial), subdir=False, lock=False, map_size=self._bytes_max, max_dbs=2, mode=0o600
                ) as environment,
                environment.begin(write=True) as txn,
            ):
                _databases(environment, txn)
            partial.replace(file)
            sync_folder(self._folder)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._folder / "weeks.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _databases(environment: lmdb.Environment, txn: lmdb.Transaction[bytes]) -> list[lmdb._Database]:
    return [environment.open_db(name, txn=txn, dupsort=True, dupfixed=True) for name in (_NEAR, _FAR)]
