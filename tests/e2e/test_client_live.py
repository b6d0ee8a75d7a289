"""The Python client against the real server: what docs/client.md shows works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from running import Server, serving

from kith.client import ApiError, AsyncKith, EdgeWrite, Kith, in_, out

ALICE, BOB, CAROL, DANA = 7_001, 7_002, 7_003, 7_004


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("client")) as started:
        yield started


@pytest.fixture(scope="module")
def kith(server: Server) -> Kith:
    return Kith(server.url, server.key)


def test_what_one_client_writes_it_reads_back(kith: Kith) -> None:
    alice = kith.as_user(ALICE)
    assert alice.follow(BOB).changed
    assert not alice.follow(BOB).changed
    assert alice.token is not None
    assert kith.exists("follows", ALICE, BOB)
    assert kith.exists_many("follows", [(ALICE, BOB), (BOB, ALICE)]) == [True, False]
    assert [item.id for item in kith.followers(BOB)] == [ALICE]
    (row,) = alice.relationships([BOB])
    assert (row.following, row.followed_by) == (True, False)
    assert alice.unfollow(BOB).changed
    assert not kith.exists("follows", ALICE, BOB)


def test_long_input_is_split_and_long_lists_are_walked(kith: Kith) -> None:
    fans = range(10_000, 12_500)
    written = kith.write_edges("follows", (EdgeWrite("add", fan, DANA) for fan in fans))
    assert written.applied == len(fans)
    assert sorted(item.id for item in kith.followers(DANA, page_size=400)) == list(fans)
    assert kith.count_in("follows", DANA) == len(fans)
    assert all(kith.exists_many("follows", [(fan, DANA) for fan in fans]))


def test_a_set_program_is_written_as_an_expression(kith: Kith) -> None:
    kith.write_edges(
        "follows", [EdgeWrite("add", CAROL, DANA), EdgeWrite("add", CAROL, BOB), EdgeWrite("add", BOB, DANA)]
    )
    both = out("follows", CAROL) & in_("follows", DANA)
    assert [member.id for member in kith.select(both)] == [BOB]
    assert kith.select_count(both) == 1


def test_stories_are_told_seen_and_deleted(kith: Kith) -> None:
    alice, bob = kith.as_user(ALICE), kith.as_user(BOB)
    bob.follow(ALICE)
    told = alice.create_story("look", attributes={"a": 1})
    assert [(entry.id, entry.unseen_count) for entry in bob.story_strip()] == [(ALICE, 1)]
    bob.view_story(told.id)
    assert [story.seen for story in bob.user_stories(ALICE)] == [True]
    assert [viewer.id for viewer in alice.story_viewers(told.id)] == [BOB]
    assert alice.story(told.id).view_count == 1
    alice.delete_story(told.id)
    with pytest.raises(ApiError) as refused:
        bob.story(told.id)
    assert refused.value.code == "STORY_NOT_FOUND"
    bob.unfollow(ALICE)


def test_many_are_looked_up_and_lists_are_read_by_range_of_time(kith: Kith) -> None:
    assert kith.lookup_posts(range(150)) == [None] * 150
    assert [user and user.id for user in kith.lookup_users([ALICE, BOB])] == [ALICE, BOB]
    kith.write_edges("likes", [EdgeWrite("add", CAROL, at, position=at) for at in range(10)])
    assert [edge.id for edge in kith.edges_out("likes", CAROL, since=3, until=6, page_size=2)] == [5, 4, 3]


def test_a_refusal_carries_its_code_and_not_the_key(kith: Kith, server: Server) -> None:
    with pytest.raises(ApiError) as refused:
        kith.as_user(ALICE).follow(ALICE)
    assert refused.value.code == "SELF_EDGE"
    assert server.key not in repr(refused.value) + repr(kith)


def test_the_async_client_does_the_same(server: Server) -> None:
    async def run() -> list[int]:
        async with AsyncKith(server.url, server.key) as kith:
            await kith.as_user(ALICE).follow(CAROL)
            return [item.id async for item in kith.following(ALICE)]

    assert asyncio.run(run()) == [CAROL]
