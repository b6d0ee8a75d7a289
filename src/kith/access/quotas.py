"""Limits how often a user may do what is expensive: load feeds, post, engage, upload (article 001's limits).

It applies to user tokens only; an app with a server key limits its users itself. Requests are counted over all API
processes. A refused request that wrote nothing gets its quota back, except an upload, which costs as much when it is
refused. A request that is repeated under its Idempotency-Key counts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from kith.access.guard import Caller
from kith.access.sliding_window import Quota, QuotaStore
from kith.core.errors import RateLimited, Unavailable

QuotaName = Literal["feed", "posts", "engagement", "media"]
KINDS: tuple[QuotaName, ...] = get_args(QuotaName)
"""The kinds of quota, in the order of the store. An operation names its kind in `quota`."""
NEAR_SHARE, NEAR_USERS_MAX = 0.8, 20
_UPLOADS = KINDS.index("media")
_ACTIONS = {
    0: "feed loads and strips of stories",
    1: "new posts, stories and boards",
    2: "likes, shares, saves, pins, comments and invitations",
    _UPLOADS: "uploads",
}


class Charge(NamedTuple):
    """What a request took from a quota: which kind, whose, and in which part of the window."""

    kind: int
    user: int
    part: int


class NearLimit(NamedTuple):
    """A user who has used most or all of a quota."""

    name: QuotaName
    user: int
    used: int
    quota: Quota


class Quotas:
    """Counts requests against quotas. `quotas`: by kind; a kind that is left out has no limit."""

    def __init__(
        self, store: QuotaStore, quotas: Mapping[QuotaName, Quota], now_s: Callable[[], float] = time.time
    ) -> None:
        self._store, self._now_s = store, now_s
        self._quotas = {KINDS.index(kind): quota for kind, quota in quotas.items()}
        self.immediate = store.immediate

    async def take(self, caller: Caller, name: QuotaName) -> Charge | None:
        """Count one request against a quota; None if it is not counted. RateLimited says when to retry."""
        kind = KINDS.index(name)
        quota = self._quotas.get(kind)
        if quota is None or caller.server or caller.user is None:
            return None
        result = await self._store.take(kind, caller.user, quota, self._now_s())
        if result.wait_s:
            raise RateLimited(
                f"more than {quota.limit} {_ACTIONS[kind]} in {quota.window_s} s; try again after Retry-After",
                retry_after_s=result.wait_s,
                limit=quota.limit,
                window_s=quota.window_s,
            )
        return Charge(kind, caller.user, result.part)

    async def near_limit(self) -> list[NearLimit]:
        """Users who have used NEAR_SHARE of a quota or more: at most NEAR_USERS_MAX of each kind, highest use first."""
        near = []
        for kind, quota in self._quotas.items():
            used_min = max(1, int(NEAR_SHARE * quota.limit))
            for usage in await self._store.fullest(kind, quota, used_min, self._now_s(), NEAR_USERS_MAX):
                near.append(NearLimit(KINDS[kind], usage.user, usage.used, quota))
        return near

    async def refund(self, charge: Charge, error: BaseException) -> None:
        """Give a charge back, because the request failed with this error."""
        if charge.kind != _UPLOADS or isinstance(error, Unavailable):
            await self._store.refund(*charge)
