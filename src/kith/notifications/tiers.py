"""Which followers of a celebrity are notified in which tier. Pure.

Each tier includes the one before it, so a user who goes online or offline between two tiers is notified by one of them.
A row that exists already costs one lookup.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from kith.notifications.activity import Users

DAY_MS = 86_400_000
MONTH_MS = 30 * DAY_MS


class Tier(enum.IntEnum):
    """The tiers, in the order in which they are worked."""

    ONLINE = 0  # P0: has a stream open
    DAY = 1  # P1: was here within a day
    MONTH = 2  # P2: was here within 30 days; skipped under load
    ALL = 3  # every follower; for accounts below the threshold, instead of the others


def in_tier(tier: Tier, online: NDArray[np.bool_], last_seen: Users, now_ms: int) -> NDArray[np.bool_]:
    """Which users a tier notifies."""
    match tier:
        case Tier.ONLINE:
            return online
        case Tier.DAY:
            return online | (last_seen > now_ms - DAY_MS)
        case Tier.MONTH:
            return online | (last_seen > now_ms - MONTH_MS)
        case Tier.ALL:
            return np.ones(len(online), np.bool_)
