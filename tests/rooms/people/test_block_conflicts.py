"""No follow remains beside a block, even if the process that blocked stopped before it dropped the follow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run
from services import Services
from store_wrappers import ProcessDied

from kith.graph.edge import EdgeChange, EdgeWrite


@pytest.fixture
def kith(run: Run) -> Services:
    return run(Services.in_memory(transactional=False, clock=FakeClock()))  # type: ignore[no-any-return]


def follows(run: Run, kith: Services) -> tuple[bool, bool]:
    (row,) = run(kith.people.relationships(ALICE, [BOB]))
    return row.following, row.followed_by


def test_the_consumer_drops_follows_that_a_half_written_block_left(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice's owner did its part of the call; the process ended before Bob's owner was called."""
    run(kith.people.follow(ALICE, BOB))
    run(kith.people.follow(BOB, ALICE))
    apply = kith.edges.apply

    async def half(writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        await apply([write for write in writes if write.edge.source == ALICE])
        raise ProcessDied

    with monkeypatch.context() as stopping:
        stopping.setattr(kith.edges, "apply", half)
        with pytest.raises(ProcessDied):
            run(kith.people.block(ALICE, BOB))
    assert follows(run, kith) == (False, True)
    run(kith.boards_consumer.handle(kith.edges.events.all))
    assert follows(run, kith) == (False, False)


def test_a_repeated_event_of_a_block_drops_no_later_follow(run: Run, kith: Services) -> None:
    run(kith.people.block(ALICE, BOB))
    run(kith.people.unblock(ALICE, BOB))
    run(kith.people.follow(BOB, ALICE))
    run(kith.boards_consumer.handle(kith.edges.events.all))
    assert follows(run, kith) == (False, True)
