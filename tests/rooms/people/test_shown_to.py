"""Which users of a page a viewer sees: those of short pages are looked up one by one, of long ones in a block list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cast import FakeClock
from coroutines import Run
from scrambled_edges import ScrambledEdges
from services import Services

from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Mark, Page
from kith.graph.edge import State

VIEWER, BLOCKER, BLOCKED, HIDDEN, AWAY, PRIVATE = range(1, 7)
CROWD = [VIEWER, BLOCKER, BLOCKED, HIDDEN, AWAY, PRIVATE, *range(50, 70)]


@pytest.mark.parametrize("size", [1, 2, 6, 7, 26])
@pytest.mark.parametrize("transactional", [True, False])
def test_pages_of_any_length_leave_out_users_who_block_the_viewer_or_are_hidden(
    run: Run, clock: FakeClock, size: int, transactional: bool
) -> None:
    async def check() -> None:
        services = await Services.in_memory(transactional=transactional, clock=clock)
        await services.people.block(NodeId(BLOCKER), NodeId(VIEWER))
        await services.people.block(NodeId(VIEWER), NodeId(BLOCKED))
        await services.edges.change_node(HIDDEN, labels=HIDE)
        await services.edges.change_node(AWAY, state=State.ARCHIVED)
        await services.edges.change_node(PRIVATE, private=True)
        if isinstance(services.edges, ScrambledEdges):
            services.edges.settle()

        async def shown(users: Sequence[int], viewer: int | None) -> list[int]:
            page = Page([Mark(9, user) for user in users], False, False)
            there = await services.graph.privacy.without_blockers(None if viewer is None else NodeId(viewer), page)
            return [mark.id for mark in there.items]

        for at in range(0, len(CROWD), size):
            users = CROWD[at : at + size]
            assert await shown(users, VIEWER) == [user for user in users if user not in (BLOCKER, HIDDEN, AWAY)]
            assert await shown(users, None) == [user for user in users if user not in (HIDDEN, AWAY, PRIVATE)]

    run(check())
