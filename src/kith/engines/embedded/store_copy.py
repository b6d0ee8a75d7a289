"""Streams a compacted copy of an open store, as of one moment, while other threads and processes read and write.

A child process makes the copy. During a copy in this process, LMDB's binding would delay the abort of any transaction
until the copy's end, and a thread that aborts a write holds the turn to write: all writers would wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator

from kith.core.errors import StoreUnavailable
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.store_file import STORE_FILE

_PIPE_BYTES = 1 << 20


@contextlib.contextmanager
def copy_of(store: Environment) -> Iterator[int]:
    """A descriptor from which to read the copy, to its end. StoreUnavailable on leaving, if the copy is incomplete."""
    store.files.check()
    file, bytes_max = store.folder / STORE_FILE, store.lmdb.info()["map_size"]
    command = [sys.executable, "-P", "-c", _COPY, str(file), str(bytes_max)]
    read_end, write_end = os.pipe()
    with contextlib.suppress(OSError):  # a smaller pipe works, too
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with os.fdopen(read_end, "rb") as pipe:
        try:
            copying = subprocess.Popen(command, stdout=write_end, stderr=subprocess.PIPE)  # noqa: S603
        finally:
            os.close(write_end)
        with copying:
            try:
                yield read_end
            except BaseException:
                copying.kill()
                raise
            pipe.close()
            _, stderr = copying.communicate()
    if copying.returncode:
        raise StoreUnavailable(f"the store could not be copied: {stderr.decode(errors='replace')}")


_COPY = """
import sys, lmdb
file, bytes_max = sys.argv[1:]
lmdb.Environment(file, subdir=False, readonly=True, map_size=int(bytes_max)).copyfd(1, compact=True)
"""
