"""Writes rows of inboxes as fast as it can and says which were acknowledged, until it is killed.

python inbox_writer.py FOLDER WRITER          a line "FIRST COUNT" once these users are told of the notice of WRITER
python inbox_writer.py FOLDER fill            told by lines on stdin: how many users to tell; answers "ok", or the error
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
"""So ends what the faulty disk looks at."""
SIZES = (1, 7, 400, 30_000)


def notice_of(writer: int) -> int:
    """What a writer tells of; each in a week of its own, but for every fourth."""
    return (START_MS - EPOCH_MS + writer // 4 * 7 * 86_400_000) << TIME_SHIFT | writer


async def write(store: EmbeddedInboxes, writer: int) -> None:
    """Tell one user after another, few and many at a time."""
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
    """Tell as many more as each line says."""
    first = 0
    for line in sys.stdin:
        users = np.arange(first, first + int(line), dtype=np.int64)
        try:
            await store.add_for_all(notice_of(0), users)
        except KithError as error:
            said = error.code
        else:
            said, first = "ok", first + int(line)
        held = await store.holding(notice_of(0), np.arange(first, dtype=np.int64))
        print(said, int(held.sum()) == first, flush=True)


if __name__ == "__main__":
    if sys.argv[2] == "fill":
        inbox_weeks._ENDING = ENDING
    opened = EmbeddedInboxes(Path(sys.argv[1]), bytes_max=1 << 30)
    asyncio.run(fill(opened) if sys.argv[2] == "fill" else write(opened, int(sys.argv[2])))
