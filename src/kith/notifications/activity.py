"""The port that knows who is online, and when users were last seen.

It decides who is notified of a mention at once, and who finds it on opening the inbox. It is a hint and may be minutes
old: a user who is wrongly taken for away is notified later, or finds the mention on opening the inbox.
`engines/embedded` and `engines/redis` implement it; the conformance suite compares them with
`tests/reference_activity.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import BatchTooLarge

Users = NDArray[np.int64]
"""One dimension of ids of users."""
SEEN_STEP_MS = 60_000
"""Resolution of the time when a user was last seen."""
LOOKUP_USERS_MAX = 200_000
"""The most users in one call."""


class Connected(NamedTuple):
    """The users with a stream open in one process, ascending. Valid until a time, or until its next report."""

    until_ms: int
    users: Users


class Activity(Protocol):
    """When users were last seen, and who has a stream open.

    Atomicity: per user. Visibility: at once. Durability: what was reported in the last minutes may be lost. Errors:
    StoreFull, StoreUnavailable; BatchTooLarge above LOOKUP_USERS_MAX, in `limit` too.
    """

    async def seen(self, users: Users, at_ms: int) -> None:
        """Note that users were seen at a time, unless a later time is noted already. `users` ascend, none twice."""
        ...

    async def last_seen(self, users: Users) -> Users:
        """When each user was last seen, in ms since the epoch, rounded down to a minute; 0: never, or it was lost."""
        ...

    async def set_online(self, process: str, users: Users, until_ms: int) -> None:
        """Note that these users, and no others, have a stream open in a process.

        Valid until a time, or until the process reports again.
        """
        ...

    async def online(self, users: Users, now_ms: int) -> NDArray[np.bool_]:
        """Which of these users have a stream open anywhere."""
        ...

    async def online_page(self, after: int, limit: int, now_ms: int) -> Users:
        """Up to `limit` users who have a stream open anywhere, of ids above `after`, ascending."""
        ...


def check_lookup_size(users: int) -> None:
    """Raise BatchTooLarge if these are too many users for one call."""
    if users > LOOKUP_USERS_MAX:
        raise BatchTooLarge(f"{users} users in one call; at most {LOOKUP_USERS_MAX}")


def are_connected(processes: Iterable[Connected], users: Users, now_ms: int) -> NDArray[np.bool_]:
    """Which of these users have a stream open in any of these processes."""
    result = np.zeros(len(users), np.bool_)
    for until_ms, online_ids in processes:
        if until_ms > now_ms and len(online_ids):
            places = np.minimum(np.searchsorted(online_ids, users), len(online_ids) - 1)
            result |= online_ids[places] == users
    return result


def first_connected(processes: Iterable[Connected], after: int, limit: int, now_ms: int) -> Users:
    """Up to `limit` users with a stream open in any of these processes, of ids above `after`, ascending."""
    parts = [
        online_ids[start : start + limit]
        for until_ms, online_ids in processes
        if until_ms > now_ms
        for start in [np.searchsorted(online_ids, after, "right")]
    ]
    return np.unique(np.concatenate(parts))[:limit] if parts else np.empty(0, np.int64)
