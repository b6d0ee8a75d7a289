"""Fills the caches of a server, corrupts them, and reads what `kith audit caches` reports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import numpy as np
from calls import home, make, ok
from cast import ALICE, BOB, CAROL
from commands import Kith
from servers import API, Server, eventually

from kith.home.timelines import TimelineStore

SETS, TIMELINES = "cached sets", "home timelines"
CLEAN = ["100.0000%", "0", "0", "0"]


def run_audit(kith: Kith, *arguments: str, status: int = 0, **settings: str) -> tuple[dict[str, list[str]], str]:
    """Run the audit. Returns the columns of each kind of cache, by its name; and the whole output."""
    found = kith("audit", "caches", *arguments, **settings)
    assert found.returncode == status, found.stdout + found.stderr
    rows = [re.split(r"\s*[│|]\s*", line.strip(" │|")) for line in found.stdout.splitlines()]
    return {row[0]: row[1:] for row in rows if row[0] in (SETS, TIMELINES)}, found.stdout


def fill_caches(server: Server) -> list[int]:
    """Give Alice a timeline: she follows Bob, who posts three times. Carol posts once. Returns all posts in order."""
    with server.client(acting=ALICE) as alice, server.client(acting=BOB) as bob:
        ok(alice.post(f"{API}/users/{BOB}/follow"))
        posts = [int(make(bob, f"hello {number}")) for number in range(3)]
        eventually(lambda: sorted(home(alice)) == posts)
    with server.client(acting=CAROL) as carol:
        return [*posts, int(make(carol, "nobody follows me"))]


async def corrupt_timeline(server: Server, timelines: TimelineStore, posts: Sequence[int]) -> bool:
    """Corrupt Alice's timeline, if she has one yet: drop Bob's second post, and add Carol's. Returns whether it did.

    Reading her home first requests a timeline for her.
    """
    await asyncio.to_thread(shown, server)
    if await timelines.read(ALICE) is None:
        return False
    first, _, third, strange = posts
    return await timelines.put(ALICE, np.array([strange, third, first], np.int64), await timelines.begin(ALICE))


def check_report(server: Server, said: str, posts: Sequence[int]) -> None:
    """Check that the audit output names both errors, and that Alice's home lacks the dropped post."""
    first, second, third, strange = posts
    assert f"the timeline of user {ALICE} lacks post {second}" in said
    assert f"that of user {ALICE} has post {strange}, of nobody they follow" in said
    assert sorted(shown(server)) == [first, third]


def shown(server: Server) -> list[int]:
    """The post ids of Alice's home, newest first."""
    with server.client(acting=ALICE) as alice:
        return home(alice)
