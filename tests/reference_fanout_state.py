"""The simplest FanoutState, in memory. Engines are compared with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kith.home.fanout.state import FAILURES_MAX, Delivery, FanoutSnapshot, Withheld
from kith.log.store import LogStore


class ReferenceFanoutState:
    """See `kith.home.fanout.state.FanoutState`. `log`: where progress and failures are; None: there are none."""

    immediate = True

    def __init__(self, log: LogStore | None = None, group: str = "fanout") -> None:
        self._log, self._group = log, group
        self._rates: dict[int, int] = {}
        self._deliveries: dict[int, Delivery] = {}
        self._name: int | None = None

    async def snapshot(self) -> FanoutSnapshot:
        progress, failures = None, []
        if self._log is not None:
            progress = await self._log.progress(self._group)
            failures = [one.event for one in await self._log.failures(self._group, FAILURES_MAX + 1)]
        deliveries = sorted(self._deliveries.values(), key=lambda delivery: (delivery.failures, delivery.post))
        authors = sorted(self._rates)
        rates = [self._rates[author] for author in authors]
        withheld = Withheld(np.array(authors, np.int64), np.array(rates, np.int64))
        return FanoutSnapshot(progress, self._name, deliveries, withheld, failures)

    async def withhold(self, rates: Mapping[int, int]) -> None:
        for author, rate in rates.items():
            self._rates[author] = max(rate, self._rates.get(author, 0))

    async def deliver(self, delivery: Delivery) -> None:
        self._deliveries[delivery.post] = delivery

    async def end_delivery(self, post: int) -> None:
        self._deliveries.pop(post, None)

    async def reset(self, name: int) -> None:
        self._name = name
        self._deliveries.clear()
