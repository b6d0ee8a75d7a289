"""Ids of a process whose clock was put back: one that starts meanwhile makes none again, by what is stored alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from cast import FakeClock

from kith.core.clock import Hlc, HybridClock
from kith.posts.posts import Posts
from kith.run.posts_and_notices import posts_over

AN_HOUR_MS = 3_600_000
POSTS = 10_000
"""More than the ids of two milliseconds."""


def posts_of_a_process(clock: FakeClock, newest_version: int) -> Posts:
    """Posts of a process that starts over a store with this newest version, with the node number of the one before."""
    versions = HybridClock(clock)
    versions.restore(newest_version)
    parts: Any = Mock()
    parts.graph.clock = versions
    return posts_over(parts, Mock(number=3))


def made(posts: Posts) -> tuple[int, Hlc]:
    """A new id, and the version under which it is stored."""
    return posts.snowflakes.next(), posts.graph.clock.next()


def test_no_id_is_made_again_by_the_process_after_it(clock: FakeClock) -> None:
    _, newest = made(posts_of_a_process(clock, 0))
    clock.ms -= AN_HOUR_MS
    ids = set[int]()
    for _ in range(2):
        posts = posts_of_a_process(clock, newest)
        for _ in range(POSTS):
            id_, newest = made(posts)
            assert id_ not in ids
            ids.add(id_)
