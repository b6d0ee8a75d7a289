"""The LeaseStore of one machine: a locked file for each lease. The kernel frees the lock however its process ends.

    leases/<name>.lock   locked by the holder of the lease, and deleted on release
    leases/tokens        the last token given out, of any name (text). A token is the time in ns, or one more than the
                         last token if that is greater. So tokens grow even if this file is lost, as by a restore

Leases never expire: a paused process keeps its leases. The file of a killed process stays until the next holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from pathlib import Path
from urllib.parse import quote

from kith.core.errors import StoreUnavailable
from kith.engines.embedded.store_file import sync_folder
from kith.leases.store import Lease

FOLDER = "leases"
_TOKENS = "tokens"
_TOKEN_DIGITS = 20


class FileLeases:
    """The leases of a data folder. See `leases.store.LeaseStore`."""

    expires = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._held: dict[Lease, int] = {}  # the descriptor of each lease's file

    async def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        try:
            self._folder.mkdir(exist_ok=True)  # not the data folder above it, which may have been moved away
            descriptor = _lock(self._file(name))
            if descriptor is None:
                return None
            try:
                lease = Lease(name, holder, await asyncio.to_thread(self._next_token))
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise StoreUnavailable(f"no lease can be held in {self._folder}: {error.strerror}") from error
        self._held[lease] = descriptor
        return lease

    async def renew(self, lease: Lease, ttl_s: float) -> bool:
        return lease in self._held

    async def release(self, lease: Lease) -> None:
        descriptor = self._held.pop(lease, None)
        if descriptor is not None:
            with contextlib.suppress(OSError):  # a file that stays is free once it is closed
                self._file(lease.name).unlink()  # before it is unlocked, so no other process holds it
            os.close(descriptor)

    def close(self) -> None:
        """Release all leases of this process."""
        for lease in list(self._held):
            os.close(self._held.pop(lease))

    def _file(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.lock"

    def _next_token(self) -> int:
        """A token that was never given out before. It is durable before it is used."""
        file = self._folder / _TOKENS
        is_new = not file.exists()
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            stored = os.pread(descriptor, _TOKEN_DIGITS, 0)
            # a power cut may leave a new file empty, or full of NULs
            last_token = int(stored) if stored.isdigit() else 0
            token = max(last_token + 1, time.time_ns())
            os.pwrite(descriptor, b"%0*d" % (_TOKEN_DIGITS, token), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(self._folder)
        return token


def _lock(file: Path) -> int | None:
    """Create a file if needed, and lock it without waiting. Its descriptor; None if another process has the lock."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(file, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the last holder deleted this file after it was opened here; try again


def _is_same_file(file: Path, descriptor: int) -> bool:
    """Whether a path leads to the open file."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
