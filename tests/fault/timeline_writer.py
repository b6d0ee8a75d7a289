"""Writes and reads timelines in separate processes. Whether a timeline is correct follows from its ids alone.

Post p, of 1, 2, 3, ..., goes to user u if `belongs(p, u)`: about half of all posts. So a correct timeline holds every
post that belongs to its user between its oldest and its newest. A timeline of another user, or with a hole, is
detected.

    python timeline_writer.py FOLDER SEED kill ROUNDS       kills writers at random moments
    python timeline_writer.py FOLDER SEED read SECONDS      readers check timelines while a process writes
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from blocking_timelines import BlockingTimelines, reading
from numpy.typing import NDArray

from kith.core.clock import wall_ms
from kith.engines.embedded.timeline_store import RingTimelines
from kith.graph.shapes import Ids
from kith.home.timelines import TIMELINE_IDS_MAX

USERS, SLOTS = 3000, 2000
EVERYONE = np.arange(USERS)
_BACK = 1200  # so many posts surely include 500 that belong to a user


class Progress:
    """The last post that was pushed to all users; shared with forked processes."""

    def __init__(self) -> None:
        self._word = np.frombuffer(mmap.mmap(-1, 8), np.int64)

    def __int__(self) -> int:
        return int(self._word[0])

    def set(self, post: int) -> None:
        self._word[0] = post


def belongs(posts: Ids, users: Ids) -> NDArray[np.bool_]:
    """For each pair of post and user, whether the post goes to the user."""
    mixed = posts.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ users.astype(np.uint64) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(63)).astype(np.bool_)


def theirs(user: int, oldest: int, newest: int) -> Ids:
    """The posts that belong to a user, from `newest` down to `oldest`."""
    posts = np.arange(newest, max(oldest, 1) - 1, -1)
    return posts[belongs(posts, np.full(len(posts), user))]


def check(store: BlockingTimelines, user: int, pushed: int, *, in_order: bool = True) -> int:
    """Check a timeline: it is correct and holds every post pushed before the read, down to its floor. Returns its
    length.

    `in_order=False`: after a kill, posts are pushed a second time, so a timeline may hold posts twice and out of order.
    """
    timeline = store.read(user)
    if timeline is None:
        return 0
    ids = timeline.ids
    ascending = ids if in_order else np.unique(ids)[::-1]
    latest = theirs(user, pushed - 60, pushed)[:1]
    if len(latest):
        assert len(ascending), f"user {user} sees nothing after {pushed} posts"
        assert ascending[0] >= latest[0], f"user {user} lost {latest[0]}, sees {ascending[:3]}"
    if len(ascending):
        expected = theirs(user, int(ascending[-1]), int(ascending[0]))
        assert np.array_equal(ascending, expected), f"user {user}: {ascending[:20]}... is not {expected[:20]}..."
        ids_expected = theirs(user, timeline.floor + 1, int(ascending[0]))
        assert np.array_equal(ascending[ascending > timeline.floor], ids_expected), (
            f"user {user} lacks posts above {timeline.floor}"
        )
    return len(ascending)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[BlockingTimelines]:
    """Timelines opened for writing."""
    with RingTimelines(folder, slots=SLOTS) as timelines:
        yield BlockingTimelines(timelines)


def write_on(folder: Path, seed: int, progress: Progress) -> None:
    """Push, put, drop and evict forever. Starts after the last post that was pushed to all users."""
    chosen = random.Random(seed)
    with opened(folder) as timelines:
        while True:
            post = int(progress) + 1
            for _ in range(chosen.randrange(30)):
                user = chosen.randrange(USERS)
                if chosen.random() < 0.2:
                    timelines.drop(user)
                else:
                    timelines.put(user, theirs(user, post - _BACK, post - 1))
            for _ in range(chosen.choice((1, 1, 3, 40))):
                timelines.push(post, EVERYONE[belongs(np.full(USERS, post), EVERYONE)])
                progress.set(post)
                post += 1
            if chosen.random() < 0.02:
                timelines.evict(wall_ms() - 2_000)


def forked(work: Callable[[], object]) -> int:
    """Run a function in a forked process; returns its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def kill(pid: int) -> None:
    """Kill with SIGKILL; the process must still run."""
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, "the writer died by itself"


def check_all(store: BlockingTimelines, users: Iterable[int], progress: Progress) -> int:
    """Check the timelines of these users; returns the number of ids in them."""
    return sum(check(store, user, int(progress), in_order=False) for user in users)


def kill_rounds(folder: Path, seed: int, rounds: int) -> None:
    """Kill writers; after each kill, readers and the next writer must see correct timelines."""
    chosen, progress, timelines_held = random.Random(seed), Progress(), 0
    with opened(folder) as timelines:
        for user in range(SLOTS):
            timelines.put(user, np.empty(0, np.int64))
    reader = reading(folder)
    for number in range(rounds):
        pid = forked(lambda number=number: write_on(folder, seed + number, progress))  # type: ignore[misc]
        time.sleep(chosen.uniform(0.0, 0.06))
        kill(pid)
        users = chosen.sample(range(USERS), 150)
        timelines_held = check_all(reader, users, progress)
        if number % 5 == 4:
            with opened(folder) as timelines:
                # Opening discards slots that were changing hands. It can find at most one timeline that readers did
                # not: one that was complete but not in the directory yet.
                assert check_all(timelines, users, progress) <= timelines_held + TIMELINE_IDS_MAX
    with opened(folder) as timelines:
        timelines_held = check_all(timelines, range(USERS), progress)
        print(f"{rounds} kills, {int(progress)} posts, {timelines.count()} timelines, {timelines_held} ids in them")
        assert timelines.count() > SLOTS // 8
        assert timelines_held > 20 * min(TIMELINE_IDS_MAX, int(progress))


def read_while_written(folder: Path, seed: int, seconds: float) -> None:
    """Let two readers check random timelines while slots change hands and posts are pushed."""
    progress = Progress()
    writer = forked(lambda: write_on(folder, seed, progress))
    readers = [forked(lambda number=number: read_on(folder, seed + number, seconds, progress)) for number in (1, 2)]  # type: ignore[misc]
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in readers]
    kill(writer)
    assert ends == [0, 0]


def read_on(folder: Path, seed: int, seconds: float, progress: Progress) -> None:
    """Check random timelines for `seconds`. Most users must have one."""
    chosen, reader = random.Random(seed), reading(folder)
    end, reads, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        user, pushed = chosen.randrange(USERS), int(progress)
        found += check(reader, user, pushed) > 0
        reader.touch(chosen.randrange(USERS))
        reads += 1
    assert found > 100, f"only {found} of {reads} users had a timeline"
    print(f"{reads} reads, {found} timelines, {int(progress)} posts", flush=True)


if __name__ == "__main__":
    _, where, seed_, what, amount = sys.argv
    with contextlib.suppress(KeyboardInterrupt):
        if what == "kill":
            kill_rounds(Path(where), int(seed_), int(amount))
        else:
            read_while_written(Path(where), int(seed_), float(amount))
