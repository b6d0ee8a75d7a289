"""A QuotaStore in a dict, for one process. Engines are compared with it."""

from __future__ import annotations

from kith.access import sliding_window
from kith.access.sliding_window import Counts, Quota, QuotaUsage, TakeResult


class ReferenceQuotas:
    """See `access.sliding_window.QuotaStore`."""

    immediate = True

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], Counts] = {}

    async def take(self, kind: int, user: int, quota_: Quota, now_s: float) -> TakeResult:
        self._counts[kind, user], taken = sliding_window.take(self._counts.get((kind, user), Counts()), quota_, now_s)
        return taken

    async def refund(self, kind: int, user: int, part: int) -> None:
        self._counts[kind, user] = sliding_window.refund(self._counts.get((kind, user), Counts()), part)

    async def fullest(self, kind: int, quota: Quota, used_min: int, now_s: float, limit: int) -> list[QuotaUsage]:
        counts = {user: held for (of, user), held in self._counts.items() if of == kind}
        found = [QuotaUsage(user, sliding_window.used(held, quota, now_s)) for user, held in counts.items()]
        return sorted((one for one in found if one.used >= used_min), key=lambda one: (-one.used, one.user))[:limit]
