"""A store whose writers are killed at any moment keeps every acknowledged write and stays consistent.

Each round kills a writer (`writer.py`) with SIGKILL at a random moment after its first acknowledgement.
`test_power.py` covers power cuts, which also lose unsynced writes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ledger import Ledger, opened, read_lines
from zygote import zygote_over


def kill_rounds(folder: Path, seed: int, rounds: int, whole_every: int) -> Ledger:
    """Kill `rounds` writers, one after another, over one growing folder. Returns what they acknowledged."""
    chosen, ledger = random.Random(seed), Ledger()
    with zygote_over(folder) as zygote:
        for number in range(1, rounds + 1):
            pid = zygote.start(seed + number)
            time.sleep(chosen.uniform(0.02, 0.15))
            acknowledged = read_lines(zygote.kill(pid))
            ledger.add(acknowledged)
            with opened(folder) as (environment, store):
                ledger.check_acknowledged(store, acknowledged)
                if number % whole_every == 0 or number == rounds:
                    ledger.check_whole(environment, store)
    print(f"{rounds} kills, {ledger.acknowledged} acknowledged, {len(ledger.edges)} edges, log {ledger.replayed_to}")
    return ledger


@pytest.mark.short_of("test_two_hundred_kills_lose_no_acknowledged_write_and_leave_the_store_whole")
def test_ten_kills_lose_no_acknowledged_write_and_leave_the_store_whole(tmp_path: Path, seed: int) -> None:
    ledger = kill_rounds(tmp_path / "data", seed, rounds=10, whole_every=5)
    assert ledger.acknowledged > 100


@pytest.mark.long
def test_two_hundred_kills_lose_no_acknowledged_write_and_leave_the_store_whole(tmp_path: Path, seed: int) -> None:
    ledger = kill_rounds(tmp_path / "data", seed, rounds=200, whole_every=20)
    assert ledger.acknowledged > 10_000


def test_a_killed_writer_does_not_stop_another_process_that_writes(tmp_path: Path, seed: int) -> None:
    """A killed process may hold LMDB's writer lock. The others must get the lock, and a consistent store."""
    folder, chosen, ledger = tmp_path / "data", random.Random(seed), Ledger()
    with zygote_over(folder) as zygote:
        lasting = zygote.start(seed)
        for number in range(1, 16):
            pid = zygote.start(seed + number)
            time.sleep(chosen.uniform(0.01, 0.05))
            ledger.add(read_lines(zygote.kill(pid)))
            zygote.wait_for_more(lasting, len(zygote.said(lasting)))
        ledger.add(read_lines(zygote.kill(lasting)))
    with opened(folder) as (environment, store):
        ledger.check_whole(environment, store)


_HELD_READ = """
import sys, time
from pathlib import Path
from kith.engines.embedded.environment import Environment
environment = Environment(Path(sys.argv[1]))
txn = environment.lmdb.begin()
txn.get(b"graphs", None, environment.notes_db)
print("reading", flush=True)
time.sleep(600)
"""


def test_a_killed_reader_pins_no_old_pages_once_another_process_has_started(tmp_path: Path) -> None:
    """The snapshot of a dead process would keep every page freed since, and the store would grow without end."""
    folder = tmp_path / "data"
    with opened(folder) as (environment, _):  # a worker that keeps running, like the other workers of a server
        command = [sys.executable, "-c", _HELD_READ, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "reading\n"
            reader.kill()
        assert str(reader.pid) in environment.lmdb.readers()
        subprocess.run([sys.executable, "-c", _OPEN, str(folder)], check=True, timeout=30)
        assert str(reader.pid) not in environment.lmdb.readers()


_OPEN = """
import sys
from pathlib import Path
from kith.engines.embedded.environment import Environment
Environment(Path(sys.argv[1])).close()
"""
