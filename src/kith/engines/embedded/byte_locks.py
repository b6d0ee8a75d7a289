"""Locks of bytes of a file. They are a process's: the kernel frees them however it ends, and no fork inherits them.

The kernel refuses a wait that closes a circle of processes, as if each had one thread. Of ours one thread may wait for
the store while another writes to the inboxes, and in the next process it is the other way round: a circle that opens by
itself, as no thread waits for the turn of one file while it has that of another. So who is refused asks again.
"""

from __future__ import annotations

import errno
import fcntl
import time

_AGAIN_S = 0.000_5


def lock(descriptor: int, length: int, at: int) -> None:
    """Wait until these bytes are this process's. Its threads have to keep each other out by other means."""
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX, length, at)
        except OSError as error:
            if error.errno != errno.EDEADLK:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def unlock(descriptor: int, length: int, at: int) -> None:
    """Leave these bytes to others."""
    fcntl.lockf(descriptor, fcntl.LOCK_UN, length, at)
