"""The policy by followers: decides once a post, for all readers, whether it is pushed or pulled. See `plan_fanout`.

This is the plan of one post; the command `kith plan`, which sizes a deployment, has nothing to do with it. Only those
who read in the last days have a timeline, so a push reaches active readers alone; the others read outboxes when they
come. The thresholds are article 001's.
"""

from __future__ import annotations

import enum

import msgspec


class FanoutPlan(enum.Enum):
    """How a post reaches the followers."""

    PUSH = "push"
    """At once, into all their timelines."""
    HYBRID = "hybrid"
    """A chunk of timelines at a time (`deliveries`); until that is done, homes read the author's outbox as well."""
    PULL = "pull"
    """Into nobody's timeline: homes merge the author's outbox."""


class Thresholds(msgspec.Struct, frozen=True):
    """Numbers of followers: from `push_max` on HYBRID, above `pull_min` PULL. Settings `fanout_<name>`."""

    push_max: int = 10_000
    pull_min: int = 1_000_000


def plan_fanout(followers: int, thresholds: Thresholds) -> FanoutPlan:
    """The plan for a post of an author with so many followers."""
    if followers > thresholds.pull_min:  # first: it holds below `push_max` as well
        return FanoutPlan.PULL
    return FanoutPlan.PUSH if followers < thresholds.push_max else FanoutPlan.HYBRID
