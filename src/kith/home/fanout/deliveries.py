"""A delivery: one post pushed to many followers, chunk by chunk, with a checkpoint to resume from after a crash.

Until its last chunk is pushed, homes read the author's outbox as well. So all followers have the post at once, and no
other post waits for it.

One worker at a time makes a delivery, under a lease of its name. If that worker stops, another takes over; each looks
for such deliveries every LOOKED_S. If two make the same one, posts are pushed twice, which changes nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec

from kith.core.together import together
from kith.home.fanout.state import Delivery, FanoutState
from kith.leases.background import LOOKED_S
from kith.leases.holding import Held, Leases

DELIVERIES_MAX = 1_000
"""Deliveries of a worker under way at a time; before another begins, one must end."""
WITHHELD_MAX = 10_000
"""Authors whose posts may be withheld from some timelines; when there are more, the others push to all."""


class Chunks(msgspec.Struct, frozen=True):
    """How many followers a chunk has: as many as take about `target_s` to push to, in memory or on a disk."""

    size_min: int = 1 << 12
    size_first: int = 1 << 15
    size_max: int = 1 << 18
    target_s: float = 0.02
    checkpoint_s: float = 0.5  # between checkpoints, each of which waits for the disk; a crash repeats so much pushing

    def next_size(self, size: int, took_s: float) -> int:
        """The size of the chunk after one of `size` that took so long."""
        if took_s > self.target_s:
            return max(self.size_min, size // 2)
        return min(self.size_max, 2 * size) if 2 * took_s < self.target_s else size


class Deliveries:
    """The deliveries that a worker knows of, the next one first. Of these it holds the first one's lease, or none."""

    def __init__(self, state: FanoutState, leases: Leases, now_s: Callable[[], float] = time.monotonic) -> None:
        self._state, self._leases, self._now_s = state, leases, now_s
        self._known: list[Delivery] = []
        self._look_due_s = -1.0
        self._held: Held | None = None  # of the first
        self._holding = contextlib.AsyncExitStack()

    @property
    def more(self) -> bool:
        """Whether there are any that another worker does not have, as far as is known."""
        return bool(self._known)

    async def first(self) -> Delivery | None:
        """The delivery to work on, once `hold` says so; None: other workers have all there are."""
        await self._look()
        return self._known[0] if self._known else None

    async def hold(self) -> bool:
        """Take the lease of the first delivery. If another worker has it, drop it here; the next look may bring it
        again."""
        if self._held is None:
            leased = self._leases.hold(f"delivery/{self._known[0].post}")
            self._held = await self._holding.enter_async_context(leased)
        if self._held is not None and self._held.ours:
            return True
        await self._let_go()
        del self._known[0]
        return False

    async def begin(self, delivery: Delivery) -> bool:
        """Note one, unless it is known already; false if too many are."""
        await self._look()
        if any(other.post == delivery.post for other in self._known):
            return True
        if len(self._known) >= DELIVERIES_MAX:
            return False
        await self._state.deliver(delivery)
        self._known.append(delivery)
        return True

    async def advance(self, delivery: Delivery, *, saved: bool) -> None:
        """Note how far the first delivery is; `saved`: in the store as well, to resume from after a crash."""
        self._known[0] = delivery
        if saved:
            await self._state.deliver(delivery)

    async def put_behind(self, delivery: Delivery) -> None:
        """A delivery failed: put it behind the others, unless another worker has it."""
        await self._let_go()
        if delivery in self._known:
            failed = delivery._replace(failures=delivery.failures + 1)
            self._known.remove(delivery)
            self._known.append(failed)
            await self._state.deliver(failed)

    async def end(self) -> None:
        """Note that the first delivery is done, and let its lease go."""
        await together(self._state.immediate, self._state.end_delivery(self._known[0].post), self._let_go())
        del self._known[0]

    async def drop(self) -> None:
        """Forget them all, as the timelines are lost."""
        self._known.clear()
        await self._let_go()

    async def close(self) -> None:
        """Leave them to other workers."""
        await self._let_go()

    async def _look(self) -> None:
        """Read again which there are, where it is time."""
        now_s = self._now_s()
        if now_s < self._look_due_s:
            return
        own = self._known[:1] if self._held is not None else []
        others = (await self._state.snapshot()).deliveries
        self._known = [*own, *(one for one in others if not own or one.post != own[0].post)]
        self._look_due_s = now_s + LOOKED_S

    async def _let_go(self) -> None:
        self._held = None
        await self._holding.aclose()
