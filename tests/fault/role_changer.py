"""Changes the role of a store (primary or standby) with relaxed durability, and is killed meanwhile.

    python role_changer.py FOLDER fence|promote|follow URL

FOLDER is new. `fence` kills itself when it is done. `promote` and `follow` call the machine at URL, which kills them.
The interval of checkpoints is so long that none happens unless a command makes it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kith.engines.embedded import checkpoints, store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.run.machines import following, standby
from kith.standby.source import Epoch


def main() -> None:
    """Run as a command."""
    checkpoints.INTERVAL_S = 600
    folder, action, url = sys.argv[1:]
    settings = Settings(data=folder, durability="relaxed")
    if action == "fence":
        with Environment(Path(folder), durability="relaxed") as store:
            store.put_note("before", b"1")
            store_role.fence(store, Epoch([(7, 0)]), url)
            os.kill(os.getpid(), signal.SIGKILL)
    with Environment(Path(folder)) as store:
        store.secret("signing")
        store_role.close_to_writes(store, ClosedNote("standby", url))
    if action == "promote":
        standby.promote(settings, "http://new.example")
    else:
        following.follow(settings, "kith_key")


if __name__ == "__main__":
    main()
