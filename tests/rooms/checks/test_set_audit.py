"""The auditor of cached sets finds sets that differ from the store, and drops them."""

from __future__ import annotations

import asyncio

import pytest
from cast import ALICE, BOB, CAROL
from checks_world import FOLLOWS, ChecksWorld
from coroutines import Run

from kith.checks.audit import SetAudit, audit_sets
from kith.core.errors import Conflict

SOUND = SetAudit(sets=1)
SPOILT = frozenset([CAROL])


async def filled(world: ChecksWorld) -> None:
    """Alice follows Bob, and her set is cached."""
    await world.follow(BOB)
    await world.keep()
    await world.ask(BOB)


def spoil(world: ChecksWorld) -> None:
    """Make her set say that she follows only Carol, as if a failed primary had lost an invalidation."""
    ((key, (_, ends_ms)),) = world.sets.sets.items()
    world.sets.sets[key] = SPOILT, ends_ms


def test_a_wrong_set_is_found_and_with_repair_dropped(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await filled(world)
        assert await audit_sets(world.sets, world.edges, settle_s=0) == SOUND
        spoil(world)
        assert await world.ask(BOB) == ([False], [("cache", 0, 1)])
        found = await audit_sets(world.sets, world.edges, settle_s=0)
        assert found == SetAudit(sets=1, wrong=1, examples=[f"graph {FOLLOWS}, source {ALICE}"])
        assert found.right_share == 0
        repaired = await audit_sets(world.sets, world.edges, repair=True, settle_s=0)
        assert repaired is not None
        assert repaired.repaired == 1
        assert await world.ask(BOB) == ([True], [("store", 1, 0)])
        assert await audit_sets(world.sets, world.edges, settle_s=0) == SOUND, "it is filled again"

    run(scene())


def test_a_set_that_is_dropped_a_moment_later_is_late_and_not_wrong(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await filled(world)
        await world.unfollow(BOB)
        auditing = asyncio.create_task(audit_sets(world.sets, world.edges, settle_s=0.05))
        await asyncio.sleep(0.01)
        await world.keep()
        assert await auditing == SetAudit(sets=1, late=1)

    run(scene())


def test_sets_that_answer_no_reader_are_not_audited(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        assert await audit_sets(world.sets, world.edges, settle_s=0) is None, "no set is cached yet"
        await filled(world)
        spoil(world)
        world.clock.ms += 60_000
        assert await audit_sets(world.sets, world.edges, settle_s=0) is None
        await world.keep()
        assert await audit_sets(world.sets, world.edges, sample=0, settle_s=0) == SetAudit()

    run(scene())


def test_an_audit_is_refused_if_the_sets_restart_meanwhile(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await filled(world)
        spoil(world)
        auditing = asyncio.create_task(audit_sets(world.sets, world.edges, settle_s=0.05))
        await asyncio.sleep(0.01)
        kept_to = await world.sets.progress()
        assert kept_to is not None
        anew = kept_to._replace(generation=b"another")
        assert await world.sets.note_progress(kept_to.generation, anew, world.clock.ms + 60_000)
        with pytest.raises(Conflict, match="new generation"):
            await auditing

    run(scene())


def test_an_empty_set_is_sound_and_one_with_expiring_edges_is_not_audited(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        await world.unfollow(BOB)
        await world.keep()
        await world.ask(BOB)
        assert await audit_sets(world.sets, world.edges, settle_s=0) == SOUND
        await world.follow(CAROL, expires_ms=world.clock.ms + 3_600_000)
        await world.keep()
        await world.ask(CAROL)
        assert await audit_sets(world.sets, world.edges, settle_s=0) == SetAudit(), (
            "a set with an expiring edge is not cached"
        )

    run(scene())
