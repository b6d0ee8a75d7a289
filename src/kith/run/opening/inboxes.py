"""Inboxes belong to a store: if they were filled for another one, or are lost, they are filled again from its notices.

    inboxes/filled   the name of the history of the store that they were filled for (text)

A restore and a promotion begin a history, so both end here, as does a folder whose `inboxes/` was lost. Rows of notices
that the store does not have are left out by every reader, and go with their week.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.record_store import every_record
from kith.engines.embedded.store_file import sync_folder
from kith.notifications.refilling import PART, Refilling
from kith.records.store import Record, RecordKind

FOLDER, FILLED = "inboxes", "filled"


async def fill(environment: Environment, refilling: Refilling) -> int | None:
    """Write all rows that are missing; how many, or None where these are the inboxes of this store.

    Cut short, it is done again. Rows of recipients come first, as followers of mentions may have to wait for room.
    Errors: StoreFull, StoreUnavailable.
    """
    file, name = environment.folder / FOLDER / FILLED, str(environment.history().name)
    if file.exists() and file.read_text() == name:
        return None
    missing = await _of_all(environment, refilling.write)
    await _of_all(environment, refilling.tell_followers)
    note_filled(environment)
    return missing


async def _of_all(environment: Environment, do: Callable[[Sequence[Record]], Awaitable[int]]) -> int:
    """Do something with all notices, PART at a time; the sum of the answers."""
    records, found = every_record(environment, RecordKind.NOTICE), 0
    while some := await asyncio.to_thread(list, islice(records, PART)):
        found += await do(some)
    return found


def note_filled(environment: Environment) -> None:
    """Note that these inboxes are those of the store as it is now."""
    folder, name = environment.folder / FOLDER, str(environment.history().name)
    file = folder / FILLED
    with translated("say that inboxes are filled", folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        part = file.with_suffix(".part")
        with part.open("w") as written:
            written.write(name)
            written.flush()
            os.fsync(written.fileno())
        part.replace(file)
        sync_folder(folder)
