"""A compacted copy of an open store at one moment, while others read and write.

Another process makes it: beside a copy in this one, LMDB's binding would let no transaction be undone before its end,
and who undoes one has the turn to write.
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
    """A descriptor to read the copy from, to its end. StoreUnavailable when this is left, unless that is all of it."""
    store.files.check()
    file, bytes_max = store.folder / STORE_FILE, store.lmdb.info()["map_size"]
    command = [sys.executable, "-P", "-c", _COPY, str(file), str(bytes_max)]
    reading, writing = os.pipe()
    with contextlib.suppress(OSError):  # a smaller pipe does, too
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with os.fdopen(reading, "rb") as pipe:
        try:
            copying = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE)  # noqa: S603
        finally:
            os.close(writing)
        with copying:
            try:
                yield reading
            except BaseException:
                copying.kill()
                raise
            pipe.close()
            _, said = copying.communicate()
    if copying.returncode:
        raise StoreUnavailable(f"the store could not be copied: {said.decode(errors='replace')}")


_COPY = """
import sys, lmdb
file, bytes_max = sys.argv[1:]
lmdb.Environment(file, subdir=False, readonly=True, map_size=int(bytes_max)).copyfd(1, compact=True)
"""
