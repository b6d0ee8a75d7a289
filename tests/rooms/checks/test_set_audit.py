"""The auditor of cached sets finds sets that differ from the store, and drops them."""

from __future__ import annotations

import asyncio

import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from layered import FOLLOWS, Layered

from kith.checks.audit import SetAudit, audit_sets
from kith.core.errors import Conflict

SOUND = SetAudit(sets=1)
SPOILT = frozenset([CAROL])


async def filled(layered: Layered) -> None:
    """Alice follows Bob, and her set is cached."""
    await layered.follow(BOB)
    await layered.keep()
    await layered.ask(BOB)


def spoil(layered: Layered) -> None:
    """Make her set say that she follows only Carol, as if a failed primary had lost an invalidation."""
    ((key, (_, ends_ms)),) = layered.sets.sets.items()
    layered.sets.sets[key] = SPOILT, ends_ms


def test_a_wrong_set_is_found_and_with_repair_dropped(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await filled(layered)
        assert await audit_sets(layered.sets, layered.edges, settle_s=0) == SOUND
        spoil(layered)
        assert await layered.ask(BOB) == ([False], [("cache", 0, 1)])
        found = await audit_sets(layered.sets, layered.edges, settle_s=0)
        assert found == SetAudit(sets=1, wrong=1, examples=[f"graph {FOLLOWS}, source {ALICE}"])
        assert found.right_share == 0
        repaired = await audit_sets(layered.sets, layered.edges, repair=True, settle_s=0)
        assert repaired is not None
        assert repaired.repaired == 1
        assert await layered.ask(BOB) == ([True], [("store", 1, 0)])
        assert await audit_sets(layered.sets, layered.edges, settle_s=0) == SOUND, "it is filled again"

    run(scene())


def test_a_set_that_is_dropped_a_moment_later_is_late_and_not_wrong(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await filled(layered)
        await layered.unfollow(BOB)
        auditing = asyncio.create_task(audit_sets(layered.sets, layered.edges, settle_s=0.05))
        await asyncio.sleep(0.01)
        await layered.keep()
        assert await auditing == SetAudit(sets=1, late=1)

    run(scene())


def test_sets_that_answer_no_reader_are_not_audited(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        assert await audit_sets(layered.sets, layered.edges, settle_s=0) is None, "no set is cached yet"
        await filled(layered)
        spoil(layered)
        layered.clock.ms += 60_000
        assert await audit_sets(layered.sets, layered.edges, settle_s=0) is None
        await layered.keep()
        assert await audit_sets(layered.sets, layered.edges, sample=0, settle_s=0) == SetAudit()

    run(scene())


def test_an_audit_is_refused_if_the_sets_restart_meanwhile(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await filled(layered)
        spoil(layered)
        auditing = asyncio.create_task(audit_sets(layered.sets, layered.edges, settle_s=0.05))
        await asyncio.sleep(0.01)
        kept_to = await layered.sets.progress()
        assert kept_to is not None
        anew = kept_to._replace(generation=b"another")
        assert await layered.sets.note_progress(kept_to.generation, anew, layered.clock.ms + 60_000)
        with pytest.raises(Conflict, match="new generation"):
            await auditing

    run(scene())


def test_an_empty_set_is_sound_and_one_with_expiring_edges_is_not_audited(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        await layered.unfollow(BOB)
        await layered.keep()
        await layered.ask(BOB)
        assert await audit_sets(layered.sets, layered.edges, settle_s=0) == SOUND
        await layered.follow(CAROL, expires_ms=layered.clock.ms + 3_600_000)
        await layered.keep()
        await layered.ask(CAROL)
        assert await audit_sets(layered.sets, layered.edges, settle_s=0) == SetAudit(), (
            "a set with an expiring edge is not cached"
        )

    run(scene())
