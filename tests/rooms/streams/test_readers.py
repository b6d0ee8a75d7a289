"""Which connected readers a change concerns, however long the lists are on either side."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL
from stream_world import Play, StreamWorld

from kith.core.ids import NodeId
from kith.streams import readers
from kith.streams.readers import Readers

FOLLOWERS = range(100, 110)


@pytest.mark.parametrize(
    ("at_once", "first_read", "factor"),
    [(64, 512, 8), (0, 512, 8), (0, 3, 8), (0, 3, 0)],
    ids=["few connected", "a short list", "a longer list", "two long lists"],
)
def test_the_audience_of_a_post_is_its_author_and_the_followers_who_are_connected(
    play: Play, monkeypatch: pytest.MonkeyPatch, at_once: int, first_read: int, factor: int
) -> None:
    monkeypatch.setattr(readers, "_ASKED_AT_ONCE_MAX", at_once)
    monkeypatch.setattr(readers, "_FIRST_READ", first_read)
    monkeypatch.setattr(readers, "_ASK_FACTOR", factor)

    async def scene(world: StreamWorld) -> None:
        people = world.graph.people
        for user in FOLLOWERS:
            await people.follow(NodeId(user), ALICE)
        await people.unfollow(CAROL, ALICE)
        world.settle()
        (made,) = await world.posts(1)
        asked = Readers(world.objects)
        for connected, expected in (
            ({BOB, CAROL, ALICE, 104, 109, 7}, {BOB, ALICE, 104, 109}),
            ({CAROL, 7}, set()),
            (set[int](), set()),
        ):
            audience = await asked.audience(int(made), ALICE, connected)
            assert sorted(audience.readers) == sorted(expected)
            assert audience.post is not None
            assert audience.post.id == int(made)
            assert not audience.hidden

    play(scene)
