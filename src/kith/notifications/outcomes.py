"""What became of each mention that went to followers: a record per notice, for counts and audits.

    record MENTION_OUTCOME, id of the notice   MessagePack: a list of `TierOutcome`, one a tier that ended

If a tier ends again, its outcome is replaced, except that `told` never decreases. A mention that no follower was to be
notified of has no record.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.core.clock import HybridClock
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk
from kith.records.rewriting import NOTHING_TO_DO, newer_fields_of_each, next_version, rewrite
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore


class TierOutcome(msgspec.Struct, frozen=True, array_like=True):
    """How a tier of a mention ended.

    `told`: rows that were new, without those of a chunk that a stopped process wrote but did not note. `suppressed`:
    followers in the tier who do not want it, including those of the tiers within it. `left`, `dead`: about how many
    chunks were not delivered, because the tier was skipped or because the chunk kept failing; their followers find the
    mention on opening the inbox.
    """

    tier: Tier
    told: int = 0
    suppressed: int = 0
    left: int = 0
    dead: int = 0


class Outcomes:
    """The outcomes of all mentions."""

    def __init__(self, records: RecordStore, clock: HybridClock) -> None:
        self._records, self._clock = records, clock

    async def note(self, ended: EndedWalk) -> None:
        """Store how a walk ended. May be repeated."""
        walk = ended.walk
        outcome = TierOutcome(walk.tier, walk.told, walk.suppressed, ended.left, ended.dead)
        if outcome == TierOutcome(walk.tier):
            return

        async def attempt() -> tuple[Put, None]:
            (stored,) = await self._records.get_many(RecordKind.MENTION_OUTCOME, [walk.notice])
            old = [] if stored is None else _decode(stored.data)
            new = _with(old, outcome)
            if new == old:
                return NOTHING_TO_DO, None
            version = next_version(self._clock, stored)
            data = _encode(new) if stored is None else newer_fields_of_each(_encode(new), stored.data)
            record = Record(RecordKind.MENTION_OUTCOME, walk.notice, version, data)
            at_version = AtVersion(RecordKind.MENTION_OUTCOME, walk.notice, 0 if stored is None else stored.updated_at)
            return await self._records.put([record], only_if=[at_version]), None

        await rewrite("the outcome of a mention", walk.notice, attempt)

    async def of(self, notices: Sequence[int]) -> list[list[TierOutcome]]:
        """For each notice, the stored outcomes of its tiers that ended."""
        records = await self._records.get_many(RecordKind.MENTION_OUTCOME, notices) if notices else []
        return [[] if record is None else _decode(record.data) for record in records]


def _with(old: Sequence[TierOutcome], outcome: TierOutcome) -> list[TierOutcome]:
    row_count = max([outcome.told, *(earlier.told for earlier in old if earlier.tier == outcome.tier)])
    others = [earlier for earlier in old if earlier.tier != outcome.tier]
    return sorted([*others, msgspec.structs.replace(outcome, told=row_count)], key=lambda earlier: earlier.tier)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[TierOutcome]).decode
