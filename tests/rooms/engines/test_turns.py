"""Turns on two files, taken by two threads of each of two processes: the kernel mistakes that for a deadlock."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from servers import eventually

from kith.engines.embedded.turns import Turns

OTHER = """
import sys, threading
from pathlib import Path
from kith.engines.embedded.turns import Turns

folder = Path(sys.argv[1])
store, inboxes = Turns(folder / "store"), Turns(folder / "inboxes")

def ask():
    with store.take():
        print("had the store", flush=True)

asking = threading.Thread(target=ask)
with inboxes.take():
    asking.start()
    print("has the inboxes", flush=True)
    sys.stdin.readline()
asking.join()
"""


def waits(process: int) -> bool:
    """Whether a thread of a process waits in the kernel's queue of a lock."""
    return any(
        line.split()[1] == "->" and int(line.split()[5]) == process
        for line in Path("/proc/locks").read_text().splitlines()
    )


def test_waiting_for_one_turn_while_the_process_has_another_is_not_refused(tmp_path: Path) -> None:
    """We hold the store and wait for the inboxes; the other process holds the inboxes and waits for the store."""
    store, inboxes, had = Turns(tmp_path / "store"), Turns(tmp_path / "inboxes"), list[str]()

    def ask() -> None:
        with inboxes.take():
            had.append("the inboxes")

    with subprocess.Popen(
        [sys.executable, "-c", OTHER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        asking = threading.Thread(target=ask)
        with store.take():
            assert other.stdout.readline() == "has the inboxes\n"
            eventually(lambda: waits(other.pid), 60)
            asking.start()
            asking.join(0.2)  # a refusal would come at once
            assert asking.is_alive()
        assert other.stdout.readline() == "had the store\n"
        other.stdin.write("\n")
        other.stdin.close()
        asking.join()
    assert had == ["the inboxes"]
    store.close()
    inboxes.close()
