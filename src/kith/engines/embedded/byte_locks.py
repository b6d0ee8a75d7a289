"""Locks on bytes of a file. A process owns them: the kernel frees them however the process ends, and no fork inherits
them.

The kernel refuses a wait (EDEADLK) that would close a circle of waiting processes. It assumes that each process has one
thread. Ours have several: in one process, a thread waits for the store while another thread writes to the inboxes; in
the next process it is the other way round. Such a circle always resolves, because no thread waits for the turn of one
file while it holds the turn of another. So a refused wait is retried.
"""

from __future__ import annotations

import errno
import fcntl
import time

_RETRY_S = 0.000_5
"""Seconds before a refused wait is retried."""


def lock(descriptor: int, length: int, offset: int) -> None:
    """Wait until this process has locked `length` bytes from `offset` on. This does not keep its threads apart."""
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX, length, offset)
        except OSError as error:
            if error.errno != errno.EDEADLK:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def unlock(descriptor: int, length: int, offset: int) -> None:
    """Unlock these bytes."""
    fcntl.lockf(descriptor, fcntl.LOCK_UN, length, offset)
