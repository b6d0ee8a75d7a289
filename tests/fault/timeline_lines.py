"""Kills a writer of timelines at every line of code that follows a write, and checks what is left.

    python timeline_lines.py FOLDER      prints how many kills each change took, in how many lines

The writer is forked and traced. It is killed with SIGKILL, so it cleans up nothing. The kills are at each line of the
engine before which the files changed; a kill at the lines in between leaves the same bytes. Afterwards readers, and the
next writer, may see each timeline as before the change, as after it, or between two pushes. A timeline that was put,
dropped or evicted may also be gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

import numpy as np
from blocking_timelines import BlockingTimelines, reading
from cast import FakeClock
from reference_timelines import ReferenceTimelines
from timeline_writer import forked

from kith.engines.embedded import builds, directory, ring_file, ring_writers, timeline_store
from kith.engines.embedded.timeline_store import RingTimelines

SLOTS, USERS = 4, range(8)
_TRACED = {module.__file__ for module in (builds, directory, ring_file, ring_writers, timeline_store)}


class Change(NamedTuple):
    """A change: its steps, and whose timelines may be gone after a kill."""

    steps: list[Callable[[BlockingTimelines], Any]]
    may_go: tuple[int, ...] = ()


class Store(Protocol):
    """A store that timelines can be put into."""

    def put(self, user: int, ids: Any) -> None: ...


CHANGES: dict[str, Change] = {
    "push": Change([lambda s: s.push(50, np.arange(8))]),
    "pushes beyond a tail": Change([lambda s, n=n: s.push(n, np.array([1, 0, 2, 7])) for n in range(100, 118)]),  # type: ignore[misc]
    "put": Change([lambda s: s.put(6, np.arange(9))], may_go=(0, 6)),  # evicts user 0, who read longest ago
    "put anew": Change([lambda s: s.put(1, np.arange(20))], may_go=(1,)),
    "drop": Change([lambda s: s.drop(2)], may_go=(2,)),
    "evict": Change([lambda s: s.evict(FakeClock().ms + 2)], may_go=(0, 1)),
    "users come and go": Change(  # until the directory is rebuilt
        [
            step
            for user in range(100, 108)
            for step in (lambda s, user=user: s.put(user, np.arange(2)), lambda s, user=user: s.drop(user))  # type: ignore[misc]
        ],
        may_go=(0,),
    ),
}


def fill(store: Store, clock: FakeClock) -> None:
    """Give users 0 to 3 a timeline each. User 0 read longest ago."""
    for user in range(SLOTS):
        clock.ms = FakeClock().ms + user
        store.put(user, np.arange(user * 10, user * 10 + 5 + user))
    clock.ms += 1


def shown(store: BlockingTimelines, user: int) -> tuple[int, ...] | None:
    """The ids of a timeline, or None if there is none."""
    timeline = store.read(user)
    return None if timeline is None else tuple(timeline.ids.tolist())


def allowed(change: Change) -> list[set[tuple[int, ...] | None]]:
    """For each user, the timelines that may be seen during the change."""
    clock = FakeClock()
    naive = BlockingTimelines(ReferenceTimelines(SLOTS, clock))
    fill(naive, clock)
    states = [{shown(naive, user)} for user in USERS]
    for step in change.steps:
        step(naive)
        for user in USERS:
            states[user].add(shown(naive, user))
    for user in change.may_go:
        states[user].add(None)
    return states


def traced(folder: Path, change: Change, at_line: Callable[[], None]) -> None:
    """Open the folder and make the change. `at_line` is called before each line of the engine."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in _TRACED:
            return None  # no line events for this frame; frames that it calls are traced again
        if event == "line":
            at_line()
        return trace

    clock = FakeClock()
    clock.ms += SLOTS
    sys.settrace(trace)
    with RingTimelines(folder, slots=SLOTS, now_ms=clock) as store:
        for step in change.steps:
            step(BlockingTimelines(store))
    sys.settrace(None)


def written_at(folder: Path, change: Change) -> tuple[list[int], int]:
    """The numbers of the lines before which the files changed, and the number of all lines."""
    lines: list[int] = []
    count, last = 0, dict[str, bytes]()

    def look() -> None:
        nonlocal count, last
        count += 1
        now = {file.name: file.read_bytes() for file in folder.iterdir()}
        if now != last:
            lines.append(count)
            last = now

    traced(folder, change, look)
    return lines, count


def killed_at(folder: Path, line: int, change: Change) -> bool:
    """Open the folder and change it in a new process, killed at this line of the engine. False if it completed."""

    def die() -> None:
        nonlocal lines_left
        lines_left -= 1
        if lines_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    lines_left = line
    code = os.waitstatus_to_exitcode(os.waitpid(forked(lambda: traced(folder, change, die)), 0)[1])
    assert code in (0, -signal.SIGKILL), f"the writer ended with {code}"
    return code != 0


def check(folder: Path, states: list[set[tuple[int, ...] | None]], moment: str) -> None:
    """Check that readers, and then the next writer, see only allowed states, and that the store takes writes."""
    clock, reader = FakeClock(), reading(folder)
    clock.ms += 100
    before = [shown(reader, user) for user in USERS]
    with RingTimelines(folder, slots=SLOTS, now_ms=clock) as opened:
        store = BlockingTimelines(opened)
        for view in (before, [shown(store, user) for user in USERS], [shown(reader, user) for user in USERS]):
            for user in USERS:
                assert view[user] in states[user], f"{moment}: user {user} shows {view[user]}"
        for user in (5, 1, 6):
            store.put(user, np.array([user]))
            store.push(99, np.arange(7))
            assert shown(reader, user) == (99, user), moment
        assert store.count() <= SLOTS


def main(folder: Path) -> None:
    """Kill at every line of every change."""
    clock = FakeClock()
    with RingTimelines(folder / "before", slots=SLOTS, now_ms=clock) as store:
        fill(BlockingTimelines(store), clock)
    for name, change in CHANGES.items():
        states = allowed(change)
        shutil.copytree(folder / "before", folder / "look")
        lines, count = written_at(folder / "look", change)
        for line in [*lines, count + 1]:
            shutil.copytree(folder / "before", folder / "now")
            assert killed_at(folder / "now", line, change) is (line <= count)
            check(folder / "now", states, f"{name}, killed at line {line}")
            shutil.rmtree(folder / "now")
        shutil.rmtree(folder / "look")
        print(f"{name}: {len(lines)} kills in {count} lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
