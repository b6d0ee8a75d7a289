"""The LeaseStore of one machine: a locked file for each lease, which the kernel frees however its process ends.

    leases/<name>.lock   held by the holder of the lease, and deleted when it is released
    leases/tokens        the token given last, for all names (text). Tokens are times in ns where the clock allows, so
                         that they grow even where this file is lost, as in a folder that was restored from a backup

A process that is paused keeps its leases; so none expires. The file of one that was killed stays until the next holder.
"""

from __future__ import annotations

import asyncio
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
    """See `leases.store.LeaseStore`; the store of leases of a data folder."""

    expires = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._held: dict[Lease, int] = {}  # the descriptor of each lease's file

    async def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        try:
            self._folder.mkdir(exist_ok=True)  # but not the data folder, which may have been moved away
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
            self._file(lease.name).unlink(missing_ok=True)  # while it is locked, so it is ours
            os.close(descriptor)

    def close(self) -> None:
        """Release all leases of this process."""
        for lease in list(self._held):
            os.close(self._held.pop(lease))

    def _file(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.lock"

    def _next_token(self) -> int:
        """A token that was never given, durable before it is used."""
        file = self._folder / _TOKENS
        is_new = not file.exists()
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            noted = os.pread(descriptor, _TOKEN_DIGITS, 0)
            last = int(noted) if noted.isdigit() else 0  # a power cut may leave a new file empty, or full of NULs
            token = max(last + 1, time.time_ns())
            os.pwrite(descriptor, b"%0*d" % (_TOKEN_DIGITS, token), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(self._folder)
        return token


def _lock(file: Path) -> int | None:
    """Lock a file without waiting, and make it where it is not there; its descriptor, or None if another has it."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(file, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the holder before us deleted it; what is there now is another file


def _is(file: Path, descriptor: int) -> bool:
    """Whether a path leads to the file that is open."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
