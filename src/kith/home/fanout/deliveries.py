"""A delivery: one post pushed to many followers, chunk by chunk, with a checkpoint to resume from after a crash.

Until the last chunk is pushed, home also reads the author's outbox. So all followers see the post at once, and no other
post waits for it.

A worker holds the lease of the delivery that it works on. If the worker stops, another takes over: each polls for
deliveries without a worker every POLL_S. If two workers push the same delivery, posts are pushed twice, which does no
harm.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec

from kith.core.gathering import gather
from kith.home.fanout.state import Delivery, FanoutState
from kith.leases.background import POLL_S
from kith.leases.holding import HeldLease, Leases

DELIVERIES_MAX = 1_000
"""Unfinished deliveries of a worker. Before another begins, one must end."""
WITHHELD_MAX = 10_000
"""Authors whose posts may be withheld from some timelines. Authors beyond it push to all followers."""


class Chunks(msgspec.Struct, frozen=True):
    """The number of followers in a chunk, adapted so that pushing one takes about `target_s`."""

    size_min: int = 1 << 12
    size_first: int = 1 << 15
    size_max: int = 1 << 18
    target_s: float = 0.02
    checkpoint_s: float = 0.5  # between checkpoints, which wait for the disk; after a crash this much is repeated

    def next_size(self, size: int, took_s: float) -> int:
        """The size of the next chunk, after one of `size` took `took_s`."""
        if took_s > self.target_s:
            return max(self.size_min, size // 2)
        return min(self.size_max, 2 * size) if 2 * took_s < self.target_s else size


class Deliveries:
    """The deliveries that a worker knows, in working order. It holds the lease of the first one, or none."""

    def __init__(self, state: FanoutState, leases: Leases, now_s: Callable[[], float] = time.monotonic) -> None:
        self._state, self._leases, self._now_s = state, leases, now_s
        self._known: list[Delivery] = []
        self._reload_due_s = -1.0
        self._held: HeldLease | None = None  # the lease of the first
        self._holding = contextlib.AsyncExitStack()

    @property
    def has_more(self) -> bool:
        """Whether deliveries are left that no other worker is known to hold."""
        return bool(self._known)

    async def first(self) -> Delivery | None:
        """The delivery to work on once `hold` returns true; None: other workers hold all there are."""
        await self._reload()
        return self._known[0] if self._known else None

    async def hold(self) -> bool:
        """Take the lease of the first delivery. False if another worker holds it: then drop the delivery here, until
        the next poll."""
        if self._held is None:
            leased = self._leases.hold(f"delivery/{self._known[0].post}")
            self._held = await self._holding.enter_async_context(leased)
        if self._held is not None and self._held.is_usable:
            return True
        await self._release()
        del self._known[0]
        return False

    async def begin(self, delivery: Delivery) -> bool:
        """Store a new delivery unless it is known; false if there are too many."""
        await self._reload()
        if any(other.post == delivery.post for other in self._known):
            return True
        if len(self._known) >= DELIVERIES_MAX:
            return False
        await self._state.deliver(delivery)
        self._known.append(delivery)
        return True

    async def advance(self, delivery: Delivery, *, saved: bool) -> None:
        """Update the progress of the first delivery. `saved`: also store it as a checkpoint."""
        self._known[0] = delivery
        if saved:
            await self._state.deliver(delivery)

    async def requeue(self, delivery: Delivery) -> None:
        """Move a failed delivery behind the others, unless another worker took it."""
        await self._release()
        if delivery in self._known:
            failed = delivery._replace(failures=delivery.failures + 1)
            self._known.remove(delivery)
            self._known.append(failed)
            await self._state.deliver(failed)

    async def end(self) -> None:
        """End the first delivery, and release its lease."""
        await gather(self._state.immediate, self._state.end_delivery(self._known[0].post), self._release())
        del self._known[0]

    async def drop(self) -> None:
        """Forget all deliveries, because the timelines are lost."""
        self._known.clear()
        await self._release()

    async def close(self) -> None:
        """Release the lease, so that other workers can take over."""
        await self._release()

    async def _reload(self) -> None:
        """Reload the list of deliveries if the poll is due."""
        now_s = self._now_s()
        if now_s < self._reload_due_s:
            return
        own = self._known[:1] if self._held is not None else []
        others = (await self._state.snapshot()).deliveries
        self._known = [*own, *(one for one in others if not own or one.post != own[0].post)]
        self._reload_due_s = now_s + POLL_S

    async def _release(self) -> None:
        self._held = None
        await self._holding.aclose()
