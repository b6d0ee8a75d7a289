"""The policy by followers: who gets a post pushed and who pulls it is decided once a post, for all readers.

Only who read in the last days has a timeline, so whoever is pushed to is active, and the others read outboxes when
they come. Below `push_max` the post is in all timelines at once. Up to `pull_min` it comes to them a chunk at a time,
and whom it has not come to reads the author's outbox as well (`feed.deliveries`). Beyond, nobody is pushed to: readers
merge the outbox (the thresholds are article 001's).
"""

from __future__ import annotations

import enum

import msgspec


class Plan(enum.Enum):
    """How a post reaches the followers."""

    PUSH = "push"
    HYBRID = "hybrid"
    PULL = "pull"


class Thresholds(msgspec.Struct, frozen=True):
    """Followers from which on the next plan applies; settings `fanout_<name>`."""

    push_max: int = 10_000
    pull_min: int = 1_000_000


def plan_fanout(followers: int, thresholds: Thresholds) -> Plan:
    """The plan for an author with so many followers."""
    if followers > thresholds.pull_min:  # first: it holds below `push_max` as well
        return Plan.PULL
    return Plan.PUSH if followers < thresholds.push_max else Plan.HYBRID
