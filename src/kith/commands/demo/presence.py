"""Writes, before the store is served, which of the star's followers want notifications of mentions, and when each was
last online.

A generated community has no past, and nobody opens it. So some of these followers count as online while the demo runs,
some as active within a day, and some within a month.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import numpy as np

from kith.core.clock import wall_ms
from kith.core.ids import NodeId
from kith.notifications.activity import Activity, Users
from kith.notifications.preferences import Preferences, PreferenceStore
from kith.notifications.router import followers_of
from kith.notifications.tiers import DAY_MS
from kith.run.config import Settings
from kith.run.opening import wiring

FOLLOWERS_MAX = 20_000
"""Number of followers that are considered."""
ONLINE_PART, DAY_PART, MONTH_PART = 100, 25, 10
"""One follower in this many is in that tier; each tier has at least one."""
_PROCESS = "demo"
_ONLINE_MS, _LATELY_MS, _AWHILE_MS = 600_000, 3_600_000, 3 * DAY_MS
_AT_ONCE = 500


class _Present(NamedTuple):
    """Followers who want notifications of mentions, by when they were last active; each array is ascending."""

    online: Users
    day: Users
    month: Users


async def make_present(settings: Settings, star: NodeId) -> frozenset[int]:
    """Make some of the star's followers want notifications of mentions, and count as online or recently active.

    Idempotent. Returns these followers.
    """
    async with wiring.open_stores(settings, "chore", create=False) as stores:
        followers = await stores.graph.store.ids(followers_of(stores.graph, star), FOLLOWERS_MAX)
        present = _divided(followers)
        await _note(stores.activity, present)
        preferences = PreferenceStore(stores.records, stores.graph.clock)
        preference = Preferences(mentions="these", accounts=(star,))
        users = [NodeId(user) for user in np.concatenate([present.online, present.day, present.month]).tolist()]
        for start in range(0, len(users), _AT_ONCE):
            await asyncio.gather(*(preferences.put(user, preference) for user in users[start : start + _AT_ONCE]))
    return frozenset(users)


def _divided(followers: Users) -> _Present:
    """Divide the oldest followers, who have no other role, into tiers of activity."""
    sizes = [max(1, len(followers) // part) for part in (ONLINE_PART, DAY_PART, MONTH_PART)]
    online, day, month, _ = np.split(followers[::-1], np.cumsum(sizes))
    return _Present(np.sort(online), np.sort(day), np.sort(month))


async def _note(activity: Activity, present: _Present) -> None:
    now_ms = wall_ms()
    await activity.set_online(_PROCESS, present.online, now_ms + _ONLINE_MS)
    await activity.seen(present.day, now_ms - _LATELY_MS)
    await activity.seen(present.month, now_ms - _AWHILE_MS)
