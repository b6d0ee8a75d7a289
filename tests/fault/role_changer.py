"""Does what changes who is the primary, in a new folder with relaxed durability, and is killed meanwhile.

    python role_changer.py FOLDER fence|promote|follow URL

`fence` kills itself once it is done. The others call the machine at URL, and are killed by it. No checkpoint comes by
itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kith.engines.embedded import checkpoints, store_role
from kith.engines.embedded.closed import Closed
from kith.engines.embedded.environment import Environment
from kith.run.config import Settings
from kith.run.machines import following, standby
from kith.standby.source import Epoch


def main() -> None:
    """The command line."""
    checkpoints.INTERVAL_S = 600
    folder, what, url = sys.argv[1:]
    settings = Settings(data=folder, durability="relaxed")
    if what == "fence":
        with Environment(Path(folder), durability="relaxed") as store:
            store.put_note("before", b"1")
            store_role.fence(store, Epoch([(7, 0)]), url)
            os.kill(os.getpid(), signal.SIGKILL)
    with Environment(Path(folder)) as store:
        store.secret("signing")
        store_role.close_to_writes(store, Closed("standby", url))
    if what == "promote":
        standby.promote(settings, "http://new.example")
    else:
        following.follow(settings, "kith_key")


if __name__ == "__main__":
    main()
