"""The auditor: checks that both ends of every edge and every count agree, and repairs what disagrees.

On an engine without transactions the two ends may differ for a moment after a write. So the auditor checks such edges
again after 2, 10 and 30 s (article 000's reconciler waits 30). It reports how many still differed each time, and
repairs those that differ at the last check.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from kith.graph.shapes import EdgeEnds
from kith.graph.store import Scans

RECHECK_DELAYS_S = (2.0, 10.0, 30.0)
"""When edges whose ends differ are checked again, in seconds after the first check."""


class UnsettledEdges(msgspec.Struct, rename="camel"):
    """How many edges still had differing ends this long after their first check."""

    seconds: float
    edges: int


class Audit(msgspec.Struct, rename="camel"):
    """What the auditor found in one graph."""

    graph: str
    edges: int = 0
    unsettled: list[UnsettledEdges] = []  # one entry per check, the first at 0 s; empty if nothing differed at first
    disagreeing: int = 0
    strays: int = 0  # list entries without an edge
    wrong_counts: int = 0
    repaired: int = 0
    examples: list[str] = []

    @property
    def consistent_share(self) -> float:
        """The share of checked edges whose ends agree, from 0 to 1; 1.0 if no edge was checked."""
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
    recheck_delays_s: Sequence[float] = RECHECK_DELAYS_S,
    progress: Callable[[int], None] = lambda _: None,
) -> Audit:
    """Check a `sample` (0 to 1) of a graph's edges and all of its counts; with `repair`, repair what disagrees.

    `recheck_delays_s`: when edges that differ are checked again, in seconds. `progress` is called with the number of
    edges checked so far.
    """
    found = Audit(name)
    suspects: list[EdgeEnds] = []
    chosen = random.Random()
    async for chunk in store.edges(number):
        checked = chunk if sample >= 1 else [ends for ends in chunk if chosen.random() < sample]
        found.edges += len(checked)
        suspects += [ends for ends in checked if not ends.agree]
        progress(found.edges)
    if suspects:
        found.unsettled = [UnsettledEdges(0, len(suspects))]
    for before_s, after_s in pairwise((0.0, *(() if store.transactional else recheck_delays_s))):
        if not suspects:
            break
        await asyncio.sleep(after_s - before_s)
        pairs = [(ends.edge.source, ends.edge.destination) for ends in suspects]
        suspects = [ends for ends in await store.ends(number, pairs) if ends is not None and not ends.agree]
        found.unsettled.append(UnsettledEdges(after_s, len(suspects)))
    found.disagreeing = len(suspects)
    found.examples = [f"{ends.edge.source} -> {ends.edge.destination}" for ends in suspects[:10]]
    if repair and suspects:
        await store.repair([ends.edge for ends in suspects])
        found.repaired = len(suspects)
    found.strays = await store.strays(number, repair)
    found.wrong_counts = len(await store.check_counts(number, repair))
    return found
