"""Refills inboxes from a store's notices, when they are lost or were filled for another history of the store.

    inboxes/filled   the name of the store's history for which they were filled (text)

A restore and a promotion each begin a new history, so both lead to a refill. So does a folder that lost `inboxes/`.
Readers skip rows whose notice is not in the store; such rows expire with their week. Until inboxes are filled, answers
that are made of them are marked partial (`FilledInboxes`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from kith.engines.embedded import store_role
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.record_store import every_record
from kith.engines.embedded.store_file import sync_folder
from kith.notifications.refilling import PART, InboxRefill
from kith.records.store import Record, RecordKind

FOLDER, FILLED = "inboxes", "filled"
CHECK_EVERY_S = 1.0
"""Pause between two checks whether inboxes are filled now."""


class FilledInboxes:
    """Whether the inboxes are filled for the store's present history. On a standby they never are: it writes no rows.

    Once they are, a call reads nothing.
    """

    def __init__(self, environment: Environment, now_s: Callable[[], float] = time.monotonic) -> None:
        self._environment, self._now_s, self._check_due_s = environment, now_s, 0.0
        self._filled_for: int | None = None  # name of the history
        if _writes_rows(environment) and next(every_record(environment, RecordKind.NOTICE), None) is None:
            self._filled_for = environment.positions.history.name  # no notice yet, so no row is missing

    def __call__(self) -> bool:
        name = self._environment.positions.history.name
        if name == self._filled_for:
            return True
        now_s = self._now_s()
        if now_s < self._check_due_s:
            return False
        self._check_due_s = now_s + CHECK_EVERY_S
        if _writes_rows(self._environment) and _is_noted(self._environment, name):
            self._filled_for = name
        return name == self._filled_for


async def fill(environment: Environment, refilling: InboxRefill) -> int | None:
    """Write all missing rows; how many, or None where the inboxes already belong to this history of the store.

    An interrupted fill is repeated from the start. Direct recipients' rows come first, because rows for followers of
    mentions may have to wait for room. Errors: StoreFull, StoreUnavailable.
    """
    if _is_noted(environment, environment.history().name):
        return None
    missing = await _of_all(environment, refilling.write)
    await _of_all(environment, refilling.tell_followers)
    note_filled(environment)
    return missing


async def _of_all(environment: Environment, handle: Callable[[Sequence[Record]], Awaitable[int]]) -> int:
    """Call `handle` with all notices, PART at a time; the sum of its answers."""
    records, total = every_record(environment, RecordKind.NOTICE), 0
    while notices := await asyncio.to_thread(list, islice(records, PART)):
        total += await handle(notices)
    return total


def note_filled(environment: Environment) -> None:
    """Note that these inboxes belong to the store's current history."""
    folder, name = environment.folder / FOLDER, str(environment.history().name)
    file = folder / FILLED
    with translate_errors("say that inboxes are filled", folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        part = file.with_suffix(".part")
        with part.open("w") as output:
            output.write(name)
            output.flush()
            os.fsync(output.fileno())
        part.replace(file)
        sync_folder(folder)


def _is_noted(environment: Environment, history: int) -> bool:
    """Whether `note_filled` noted that these inboxes belong to this history."""
    file = environment.folder / FOLDER / FILLED
    return file.exists() and file.read_bytes() == str(history).encode()  # a damaged file may not be text


def _writes_rows(environment: Environment) -> bool:
    closed = store_role.read_closed_note(environment)
    return closed is None or closed.why != "standby"
