"""Old names of what stands in `services`."""

from __future__ import annotations

from typing import Any

import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run
from services import Services

from kith.core.ids import NodeId
from kith.posts.post import Post


class Room(Services):
    """Services by their old name."""

    @property
    def store(self) -> Any:
        return self.records


def furnished(run: Run, clock: FakeClock, *, transactional: bool) -> Room:
    made: Room = run(Room.in_memory(transactional=transactional, clock=clock))
    return made


def settle(room: Room) -> None:
    room.settle()


def write(run: Run, room: Room, author: NodeId = ALICE, **fields: Any) -> Post:
    return run(room.write(author, **fields))  # type: ignore[no-any-return]


def block_before_the_next_write(room: Room, monkeypatch: pytest.MonkeyPatch, blocker: NodeId) -> None:
    """`blocker` blocks Bob when what Bob does next was found to be allowed, and is not written yet."""
    apply = room.edges.apply

    async def overtaken(writes: Any) -> Any:
        monkeypatch.setattr(room.edges, "apply", apply)
        await room.graph.people.block(blocker, BOB)
        return await apply(writes)

    monkeypatch.setattr(room.edges, "apply", overtaken)
