"""The fan-out policy by followers: decides once for each post, for all readers, whether to push or to pull it.

Only users who read in the last days have a timeline, so a push reaches active readers; the others read outboxes when
they come back. The thresholds are article 001's. The command `kith plan`, which sizes a deployment, is unrelated.
"""

from __future__ import annotations

import enum

import msgspec


class FanoutPlan(enum.Enum):
    """How a post reaches followers."""

    PUSH = "push"
    """Into all their timelines at once."""
    HYBRID = "hybrid"
    """Chunk by chunk into their timelines (`deliveries`). Until the last chunk, home also reads the outbox."""
    PULL = "pull"
    """Into no timeline: home merges the author's outbox."""


class Thresholds(msgspec.Struct, frozen=True):
    """Numbers of followers: HYBRID from `push_max` on, PULL above `pull_min`. Settings `fanout_<name>`."""

    push_max: int = 10_000
    pull_min: int = 1_000_000


def plan_fanout(followers: int, thresholds: Thresholds) -> FanoutPlan:
    """The plan for a post of an author with so many followers."""
    if followers > thresholds.pull_min:  # first: it holds below `push_max` as well
        return FanoutPlan.PULL
    return FanoutPlan.PUSH if followers < thresholds.push_max else FanoutPlan.HYBRID
