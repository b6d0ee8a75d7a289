"""Translates errors of LMDB and of the operating system into Kith's errors.

Whether a disk is full is guessed from its free space where the driver does not say it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import lmdb

from kith.core.errors import KithError, StoreFull, StoreMismatch, StoreUnavailable
from kith.engines.embedded.owners import denied

_ROOM_BYTES_MIN = 1 << 20


@contextlib.contextmanager
def translate_errors(action: str, folder: Path | None = None) -> Iterator[None]:
    """Raise Kith's errors in place of those of LMDB and the system. `action`: what was tried, for the message.

    `folder`: its disk is checked for space, because errors of LMDB and NumPy do not say that a disk is full.
    """
    try:
        yield
    except KithError:
        raise
    except lmdb.Error as error:
        raise translate(error, action, folder) from error
    except OSError as error:
        is_full = error.errno is None and folder is not None and _is_full(folder)
        if is_full or error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"no room on the disk to {action}; free some and repeat. Nothing was changed") from error
        raise StoreUnavailable(f"could not {action}: {denied(error) or error.strerror or error}") from error


def translate(error: Exception, action: str, folder: Path | None = None) -> KithError:
    """Kith's error for an error of LMDB.

    A full disk cuts a write short, which LMDB reports as EIO. So on EIO the free space of `folder` is checked.
    """
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    if code == errno.EIO and folder is not None and _is_full(folder):
        code = errno.ENOSPC
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(f"the store has reached `store_bytes_max`; raise it to {action}. Nothing was changed")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"no room on the disk to {action}; free some and repeat. Nothing was changed")
    if isinstance(error, lmdb.VersionMismatchError | lmdb.InvalidError):
        return StoreMismatch(f"could not {action}: not a store of this version ({error})")
    if isinstance(error, lmdb.LockError):
        return StoreUnavailable(
            f"could not {action}: a process of another container that uses this folder has the same process id, "
            f"{os.getpid()}; "
            "start this one again, or let the containers share their process numbers (`--pid`)"
        )
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError):
        return StoreUnavailable(
            f"could not {action}: the store is damaged ({error}); restore a backup (`kith restore`)"
        )
    return StoreUnavailable(f"could not {action}: {error}")


def _is_full(folder: Path) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < _ROOM_BYTES_MIN
