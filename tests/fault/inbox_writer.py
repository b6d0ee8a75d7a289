"""Writes inbox rows as fast as it can and prints which were acknowledged, until it is killed.

python inbox_writer.py FOLDER WRITER    prints "FIRST COUNT" when these users have a row for WRITER's notice
python inbox_writer.py FOLDER fill      each line on stdin is a number of users to write; answers with two words:
                                        "ok" or the error code, and whether every acknowledged row is there
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import numpy as np
from cast import START_MS

from kith.core.errors import KithError
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.engines.embedded import inbox_weeks
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.notifications.inbox import InboxRow

ENDING = ".store.mdb"
"""The end of the names of files that the faulty disk watches."""
SIZES = (1, 7, 400, 30_000)


def notice_of(writer: int) -> int:
    """The notice of a writer. Four writers in a row share a week; the next four have the next week."""
    return (START_MS - EPOCH_MS + writer // 4 * 7 * 86_400_000) << TIME_SHIFT | writer


async def write(store: EmbeddedInboxes, writer: int) -> None:
    """Write rows for consecutive users, in batches of each size."""
    notice, first = notice_of(writer), 0
    while True:
        for size in SIZES:
            if size == 1:
                await store.add([InboxRow(first, notice)])
            else:
                await store.add_for_all(notice, np.arange(first, first + size, dtype=np.int64))
            os.write(1, f"{first} {size}\n".encode())
            first += size


async def fill(store: EmbeddedInboxes) -> None:
    """Write rows for as many more users as each line says."""
    first = 0
    for line in sys.stdin:
        users = np.arange(first, first + int(line), dtype=np.int64)
        try:
            await store.add_for_all(notice_of(0), users)
        except KithError as error:
            error_code = error.code
        else:
            error_code, first = "ok", first + int(line)
        is_held = await store.holding(notice_of(0), np.arange(first, dtype=np.int64))
        print(error_code, int(is_held.sum()) == first, flush=True)


if __name__ == "__main__":
    if sys.argv[2] == "fill":
        inbox_weeks._ENDING = ENDING
    opened = EmbeddedInboxes(Path(sys.argv[1]), bytes_max=1 << 30)
    asyncio.run(fill(opened) if sys.argv[2] == "fill" else write(opened, int(sys.argv[2])))
