"""A process that starts after the clock was put back repeats no id, from the stored version alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from cast import FakeClock

from kith.core.clock import Hlc, HybridClock
from kith.posts.posts import Posts
from kith.run.posts_and_notices import posts_over

AN_HOUR_MS = 3_600_000
POSTS = 10_000
"""Ids to make: more than fit into two milliseconds."""


def posts_of_a_process(clock: FakeClock, newest_version: int) -> Posts:
    """`Posts` of a process that starts on a store with this newest version, and gets its predecessor's node number."""
    versions = HybridClock(clock)
    versions.restore(newest_version)
    parts: Any = Mock()
    parts.graph.clock = versions
    return posts_over(parts, Mock(number=3))


def next_id_and_version(posts: Posts) -> tuple[int, Hlc]:
    """A new id, and the version under which it is stored."""
    return posts.snowflakes.next(), posts.graph.clock.next()


def test_a_successor_with_the_same_node_number_repeats_no_id(clock: FakeClock) -> None:
    _, newest = next_id_and_version(posts_of_a_process(clock, 0))
    clock.ms -= AN_HOUR_MS
    ids = set[int]()
    for _ in range(2):
        posts = posts_of_a_process(clock, newest)
        for _ in range(POSTS):
            id_, newest = next_id_and_version(posts)
            assert id_ not in ids
            ids.add(id_)
