"""No follow stays beside a block, though whoever blocked did not come to drop it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run
from distant import Stopped
from services import Services

from kith.graph.edge import EdgeChange, EdgeWrite


@pytest.fixture
def kith(run: Run) -> Services:
    return run(Services.in_memory(transactional=False, clock=FakeClock()))  # type: ignore[no-any-return]


def follows(run: Run, kith: Services) -> tuple[bool, bool]:
    (row,) = run(kith.people.relationships(ALICE, [BOB]))
    return row.following, row.followed_by


def test_the_consumer_drops_what_a_block_that_was_half_written_left(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice's owner took its part of the call; the process ended before Bob's was asked."""
    run(kith.people.follow(ALICE, BOB))
    run(kith.people.follow(BOB, ALICE))
    apply = kith.edges.apply

    async def half(writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        await apply([write for write in writes if write.edge.source == ALICE])
        raise Stopped

    with monkeypatch.context() as stopping:
        stopping.setattr(kith.edges, "apply", half)
        with pytest.raises(Stopped):
            run(kith.people.block(ALICE, BOB))
    assert follows(run, kith) == (False, True)
    run(kith.upkeep.handle(kith.edges.events.all))
    assert follows(run, kith) == (False, False)


def test_a_block_that_is_told_again_drops_no_follow_that_came_after_it(run: Run, kith: Services) -> None:
    run(kith.people.block(ALICE, BOB))
    run(kith.people.unblock(ALICE, BOB))
    run(kith.people.follow(BOB, ALICE))
    run(kith.upkeep.handle(kith.edges.events.all))
    assert follows(run, kith) == (False, True)
