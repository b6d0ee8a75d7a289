"""Delivers a mention to followers, all of whom accept it. Is killed in the middle of a chunk, or works to the end.

python mention_worker.py FOLDER CHUNK   CHUNK: in which chunk it is killed, counted from 1. 0: never
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import numpy as np
from numpy.typing import NDArray

from kith.core.clock import wall_ms
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.notifications.activity import Users
from kith.notifications.coordinator import Coordinator
from kith.notifications.outcomes import Outcomes
from kith.notifications.recent import RecentMentions
from kith.notifications.rings import Rings
from kith.notifications.router import Router
from kith.run.config import Settings
from kith.run.opening import wiring

CHUNK = 500


class Dying(EmbeddedInboxes):
    """Inboxes that kill their process when half of a chunk is written."""

    left = 0

    async def add_for_all(self, notice: int, users: Users) -> int:
        self.left -= 1
        if self.left == 0:
            await super().add_for_all(notice, users[: len(users) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().add_for_all(notice, users)


async def everybody(notice: int, account: int, users: Users) -> NDArray[np.bool_]:
    """All followers accept the notice."""
    return np.ones(len(users), np.bool_)


async def nobody(account: int) -> int:
    """Stands in for the follower count. This worker starts no walks, so the count does not matter."""
    return 0


async def main(folder: str, chunk: int) -> None:
    """Work until nothing is left."""
    async with wiring.open_stores(Settings(data=folder), "test", create=False) as stores:
        inboxes = Dying(stores.of_folder("this").environment.folder / "inboxes", bytes_max=1 << 30)
        inboxes.left = chunk
        coordinator = Coordinator(
            stores.graph, inboxes, stores.activity, Router(nobody, 1, wall_ms), everybody, stores.leases, wall_ms,
            Outcomes(stores.records, stores.graph.clock).note,
            Rings(stores.records, stores.graph.clock).ring, RecentMentions(stores.records, stores.graph, 1).keep,
            chunk_ids=CHUNK,
        )  # fmt: skip
        while await coordinator.work():
            pass
        inboxes.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
