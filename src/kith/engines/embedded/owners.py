"""The users that the files of a data folder belong to. All its processes must run as one user.

What root makes in the folder of another user (a lock, the presence of users, a week of inboxes), that user's servers
cannot open. So root is refused there: `kith doctor` as root would stop the next `kith serve`.
"""

from __future__ import annotations

import errno
import os
import pwd
import tempfile
from pathlib import Path

from kith.core.errors import StoreMismatch


def refuse_root(store: Path) -> None:
    """Raise StoreMismatch if this process is root's, and the store file, if there is one, another user's.

    Not where root's new files belong to that user too: some network and container file systems map all users to one.
    """
    if os.geteuid() != 0 or not store.exists() or (owner := owner_of(store)) == 0:
        return
    if owner_of_new_files(store.parent) != owner:
        raise StoreMismatch(
            f"{store} belongs to {_name(owner)}, who could not open what root makes beside it; run this as that user "
            "(`runuser -u USER -- kith ...`)"
        )


def denied(error: OSError) -> str:
    """The file that an error of permission is about, and what to do; empty for another error."""
    if error.errno not in (errno.EACCES, errno.EPERM) or error.filename is None:
        return ""
    file = Path(os.fsdecode(error.filename))
    try:
        owner = _name(owner_of(file if file.exists() else file.parent))
    except OSError:  # a folder above it is closed to us
        return f"no permission for {file}"
    if owner == _name(os.geteuid()):
        return f"no permission for {file}"
    return f"no permission for {file}, which belongs to {owner}; run this as that user, or change the owner (`chown`)"


def owner_of(file: Path) -> int:
    """The id of the user that a file belongs to."""
    return file.stat().st_uid


def owner_of_new_files(folder: Path) -> int | None:
    """The id of the user that a file belongs to which this process makes in a folder; None if it can make none."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_uid
    except OSError:
        return None


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
