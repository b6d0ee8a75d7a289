"""The mark of a write covers all that the write changed, also where the log has partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter

import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run
from reference_logs import Partitions, ReferenceLog
from scrambled_edges import ScrambledEdges
from services import Services

from kith.core.ids import NodeId
from kith.core.tokens import WriteMark

Action = Callable[[Services, dict[NodeId, int]], Awaitable[WriteMark]]


async def blocked(kith: Services, boards: dict[NodeId, int]) -> WriteMark:
    return (await kith.people.block(ALICE, BOB)).mark


async def unfollowed(kith: Services, boards: dict[NodeId, int]) -> WriteMark:
    return (await kith.people.unfollow(ALICE, BOB)).mark


async def board_unfollowed(kith: Services, boards: dict[NodeId, int]) -> WriteMark:
    return (await kith.board_following.unfollow(ALICE, boards[BOB])).mark


async def made_secret(kith: Services, boards: dict[NodeId, int]) -> WriteMark:
    return (await kith.boards.change(BOB, boards[BOB], secret=True)).mark


@pytest.mark.parametrize("do", [blocked, unfollowed, board_unfollowed, made_secret], ids=attrgetter("__name__"))
def test_a_mark_covers_all_that_a_write_changed_in_any_partition(run: Run, do: Action) -> None:
    edges = ScrambledEdges(seed=1, late_max=0, events=Partitions(5))
    log = ReferenceLog(edges)
    kith: Services = run(Services.over(edges, clock=FakeClock()))
    boards = {NodeId(user): run(kith.boards.create(user, "Recipes")).board.id for user in (ALICE, BOB)}
    run(kith.board_following.follow(BOB, boards[NodeId(ALICE)]))
    run(kith.board_following.follow(ALICE, boards[NodeId(BOB)]))
    before = len(edges.log)
    mark = run(do(kith, boards))
    changed = edges.log[before:]
    assert changed
    assert [event for event in changed if not log.covers(mark.at, event.log_position)] == []
    assert mark.updated_at == max(event.updated_at for event in changed)
