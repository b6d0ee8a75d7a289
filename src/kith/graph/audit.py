"""The auditor: checks that both ends of every edge and every count agree, and repairs what disagrees.

On an engine without transactions the two ends may differ for a moment after a write. So the auditor waits `settle_s`
(30 s, as article 000's reconciler does), looks at those edges again, and counts and repairs what still differs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from kith.graph.shapes import Ends
from kith.graph.store import Scans

_SETTLE_S = 30.0


class Audit(msgspec.Struct, rename="camel"):
    """What the auditor found in one graph."""

    graph: str
    edges: int = 0
    disagreeing: int = 0
    strays: int = 0  # list entries without an edge
    wrong_counts: int = 0
    repaired: int = 0
    examples: list[str] = []

    @property
    def consistent_share(self) -> float:
        """The share of checked edges whose ends agree, from 0 to 1; 1.0 where there was none."""
        return 1.0 if self.edges == 0 else 1 - self.disagreeing / self.edges

    @property
    def clean(self) -> bool:
        """Whether everything agreed."""
        return not (self.disagreeing or self.strays or self.wrong_counts)


async def audit(
    store: Scans,
    name: str,
    number: int,
    *,
    repair: bool = False,
    sample: float = 1.0,
    settle_s: float = _SETTLE_S,
    progress: Callable[[int], None] = lambda _: None,
) -> Audit:
    """Check a `sample` (0 to 1) of a graph's edges and all of its counts; with `repair`, repair what disagrees.

    `progress` is called with the number of edges checked so far.
    """
    found = Audit(name)
    suspects: list[Ends] = []
    chosen = random.Random(0)
    async for chunk in store.edges(number):
        looked_at = chunk if sample >= 1 else [ends for ends in chunk if chosen.random() < sample]
        found.edges += len(looked_at)
        suspects += [ends for ends in looked_at if not ends.agree]
        progress(found.edges)
    if suspects and not store.transactional:
        await asyncio.sleep(settle_s)
        pairs = [(ends.edge.source, ends.edge.destination) for ends in suspects]
        suspects = [ends for ends in await store.ends(number, pairs) if ends is not None and not ends.agree]
    found.disagreeing = len(suspects)
    found.examples = [f"{ends.edge.source} -> {ends.edge.destination}" for ends in suspects[:10]]
    if repair and suspects:
        await store.repair([ends.edge for ends in suspects])
        found.repaired = len(suspects)
    found.strays = await store.strays(number, repair)
    found.wrong_counts = len(await store.check_counts(number, repair))
    return found
