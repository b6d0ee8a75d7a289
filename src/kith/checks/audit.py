"""The auditor of cached sets: compares each set with the store, and drops those that differ.

A set may differ for a moment, until a change of its source has dropped it. So a set that differs is checked again after
STALE_S, the longest that any answer may lag. It counts as wrong if it is still cached, unchanged, and still differs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kith.checks.layers import STALE_S, members_of
from kith.checks.sets import CachedSets, SetKey
from kith.core.errors import Conflict
from kith.core.gathering import gather
from kith.graph.store import EdgeStore

_CONCURRENT_READS = 32


class SetAudit(msgspec.Struct):
    """What the auditor found in the sets that answer readers. `late`: sets that differed only at the first check."""

    sets: int = 0
    late: int = 0
    wrong: int = 0
    repaired: int = 0
    examples: list[str] = []

    @property
    def right_share(self) -> float:
        """The share of sets that agree with the store, from 0 to 1; 1.0 if there are none."""
        return 1.0 if self.sets == 0 else 1 - self.wrong / self.sets


async def audit_sets(
    sets: CachedSets,
    store: EdgeStore,
    *,
    repair: bool = False,
    sample: float = 1.0,
    settle_s: float = STALE_S,
    progress: Callable[[int], None] = lambda _: None,
) -> SetAudit | None:
    """Compare a `sample` (0 to 1) of the sets; with `repair`, drop the wrong ones, which are then filled again.

    None if no process keeps sets up to date now: no reader is answered from them then. Conflict if a new generation of
    sets began meanwhile. `progress` is called with the number of sets checked so far.
    """
    progress_before = await sets.progress()
    if progress_before is None:
        return None
    generation, generator, audit = progress_before.generation, random.Random(), SetAudit()
    differing: dict[SetKey, frozenset[int]] = {}
    async for keys in sets.keys(generation):
        sampled = keys if sample >= 1 else [key for key in keys if generator.random() < sample]
        cached = await _cached_sets(sets, generation, sampled)
        audit.sets += len(cached)
        differing |= await _differing(store, cached)
        progress(audit.sets)
    if not differing:
        return audit
    await asyncio.sleep(settle_s)
    progress_after = await sets.progress()
    if progress_after is None:
        return None
    if progress_after.generation != generation:
        raise Conflict("a new generation of cached sets began during the audit; audit again")
    reread = await _cached_sets(sets, generation, list(differing))
    unchanged = {key: members for key, members in reread.items() if members == differing[key]}
    wrong = await _differing(store, unchanged)
    audit.late, audit.wrong = len(differing) - len(wrong), len(wrong)
    audit.examples = [f"graph {graph}, source {source}" for graph, source in list(wrong)[:10]]
    if repair and wrong:
        await sets.drop(generation, list(wrong))
        audit.repaired = len(wrong)
    return audit


async def _cached_sets(sets: CachedSets, generation: bytes, keys: Sequence[SetKey]) -> dict[SetKey, frozenset[int]]:
    members = await sets.members(generation, keys) if keys else []
    return {key: ids for key, ids in zip(keys, members, strict=True) if ids is not None}


async def _differing(store: EdgeStore, cached: Mapping[SetKey, frozenset[int]]) -> dict[SetKey, frozenset[int]]:
    """The sets that differ from what would be filled now."""
    remaining, differing = list(cached.items()), dict[SetKey, frozenset[int]]()
    for start in range(0, len(remaining), _CONCURRENT_READS):
        batch = remaining[start : start + _CONCURRENT_READS]
        current = await gather(False, *(members_of(store, key) for key, _ in batch))
        differing |= {
            key: members
            for (key, members), current_members in zip(batch, current, strict=True)
            if current_members != members
        }
    return differing
