"""The worker that delivers all webhooks of a store. One process at a time delivers a webhook, and holds its lease.

Several workers share the webhooks. When a worker stops, the others take over its webhooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

import structlog

from kith.core.errors import Unavailable
from kith.core.events import Event, LogPosition
from kith.core.stopping import stop
from kith.graph.graphs import Graphs
from kith.leases.background import Background
from kith.leases.holding import HeldLease, Leases
from kith.log.store import Bell, LogStore
from kith.outbound.outbound import Send
from kith.webhooks.delivery import CHECK_EVERY_S, WebhookDelivery
from kith.webhooks.webhook import Secrets, group_of
from kith.webhooks.webhooks import NAME, Webhooks, WebhookSlot

_BATCH_WINDOW_S = 0.02
"""Shortest time between two rings, so that events that are close together share a delivery."""
_log = structlog.get_logger("kith.webhooks")


class WebhookWorker:
    """Delivers all webhooks that no other process delivers. Implements `delivery.DeliveryContext`, which they share."""

    name = NAME

    def __init__(
        self,
        webhooks: Webhooks,
        log: LogStore,
        graphs: Callable[[], Awaitable[Mapping[str, int]]],
        leases: Leases,
        send: Send,
        secrets: Secrets,
        tokens: Callable[[Sequence[LogPosition]], Sequence[str]],
        *,
        give_up_ms: int,
        now_ms: Callable[[], int],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`graphs`: reads the numbers of all graphs. `give_up_ms`: how long a change is retried before giving up."""
        self.webhooks, self.log, self.send, self.secrets, self.tokens = webhooks, log, send, secrets, tokens
        self.give_up_ms, self.now_ms, self.chance = give_up_ms, now_ms, chance
        self._all_graphs, self._graphs = graphs, Graphs({})
        self._background = Background(leases)
        self._stopping = asyncio.Event()
        self.rings, self._rung = 0, asyncio.Event()

    def stop(self) -> None:
        """Stop. The worker that takes over sends deliveries in flight again."""
        self._stopping.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        with self.log.bell() as bell:
            ringing = asyncio.create_task(self._ring(bell))
            try:
                while not self._stopping.is_set():
                    try:
                        await self._start_all()
                    except Unavailable as error:
                        _log.warning("webhooks wait for the store", error=error.message)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(CHECK_EVERY_S):
                            await self._stopping.wait()
            finally:
                await stop(ringing)
                await self._background.close()

    async def graphs_of(self, events: Sequence[Event], names: Collection[str] = ()) -> Graphs:
        """See `delivery.DeliveryContext`. Reloads the graphs if one is unknown: other processes may declare new
        ones.
        """
        known = set(self._graphs.names())
        if not known.issuperset(names) or not self._graphs.knows({event.graph for event in events if event.graph}):
            self._graphs = Graphs(await self._all_graphs())
        return self._graphs

    async def wait_for_events(self, rings: int, within_s: float) -> None:
        """See `delivery.DeliveryContext`."""
        if self.rings == rings:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._rung.wait()

    async def _start_all(self) -> None:
        """Start to deliver every webhook that no other process delivers."""
        for slot in await self.webhooks.all():
            self._background.start(group_of(slot.webhook.id), partial(self._deliver, slot))

    async def _deliver(self, slot: WebhookSlot, lease: HeldLease) -> None:
        await WebhookDelivery(self, slot, lease).run()

    async def _ring(self, bell: Bell) -> None:
        while True:
            await bell.rung(CHECK_EVERY_S)
            self.rings += 1
            self._rung.set()
            self._rung = asyncio.Event()
            await asyncio.sleep(_BATCH_WINDOW_S)
