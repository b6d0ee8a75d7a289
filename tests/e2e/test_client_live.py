"""The Python client against a real server: the calls of docs/client.md."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pictures import decoded, photo
from servers import Server, serving

from kith.client import ApiError, AsyncKith, EdgeWrite, Kith, Location, in_, out

ALICE, BOB, CAROL, DANA = 7_001, 7_002, 7_003, 7_004


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("client")) as started:
        yield started


@pytest.fixture(scope="module")
def kith(server: Server) -> Kith:
    return Kith(server.url, server.key)


def test_a_client_reads_its_own_writes(kith: Kith) -> None:
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


def test_long_input_is_split_and_long_lists_are_paged(kith: Kith) -> None:
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


def test_stories_are_created_seen_and_deleted(kith: Kith) -> None:
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


def test_a_post_is_created_once_read_edited_cleared_and_deleted(kith: Kith) -> None:
    alice, bob = kith.as_user(ALICE), kith.as_user(BOB)
    place = Location(latitude=48.86, longitude=2.35, name="Paris")
    hello: dict[str, Any] = {"link": "https://example.com", "mentions": [BOB], "location": place, "key": "monday"}
    made = alice.create_post("hello", **hello)
    assert alice.create_post("hello", **hello).id == made.id
    seen = bob.post(made.id)
    assert (seen.content.text, seen.content.link, seen.location, seen.mentions) == (
        "hello", "https://example.com", place, [BOB],
    )  # fmt: skip
    edited = alice.edit_post(made.id, text="hello all", link=None, location=None, attributes={"mood": "good"})
    assert (edited.content.text, edited.content.link, edited.location) == ("hello all", None, None)
    assert (edited.attributes, edited.mentions, edited.edited_at is not None) == ({"mood": "good"}, [BOB], True)
    assert [post.id for post in bob.user_posts(ALICE)] == [made.id]
    with pytest.raises(ApiError) as refused:
        bob.edit_post(made.id, text="mine")
    assert refused.value.code == "FORBIDDEN"
    alice.delete_post(made.id)
    assert bob.lookup_posts([made.id]) == [None]
    assert list(bob.user_posts(ALICE)) == []


def test_every_write_gives_a_token_that_the_next_read_carries(kith: Kith) -> None:
    alice = kith.as_user(ALICE)
    post = alice.create_post("tell me").id
    tokens = [alice.token]
    comment = alice.create_comment(post, "told").id
    picture = alice.upload_media(photo()).id
    for write in (
        lambda: alice.like_post(post), lambda: alice.like_comment(comment), lambda: alice.see_fewer(BOB),
        lambda: alice.see_as_before(BOB), lambda: alice.edit_media(picture, alt_text="x"),
        lambda: alice.delete_media(picture), lambda: alice.delete_comment(comment),
        lambda: alice.edit_post(post, text="told"), lambda: alice.delete_post(post),
    ):  # fmt: skip
        write()
        tokens.append(alice.token)
    assert None not in tokens
    assert len(set(tokens)) == len(tokens)
    other = kith.as_user(ALICE, token=alice.token)
    assert post not in [one.id for one in other.feed("latest")]


def test_likes_saves_and_shares_are_counted_and_can_be_undone(kith: Kith) -> None:
    alice, bob = kith.as_user(ALICE), kith.as_user(BOB)
    post = alice.create_post("count me").id
    assert [bob.like_post(post).like_count for _ in range(2)] == [1, 1]
    assert (bob.save_post(post).save_count, bob.share_post(post).share_count) == (1, 1)
    assert (bob.view_post(post).view_count, bob.hide_post(post).hidden) == (1, True)
    got = bob.post(post).engagement
    assert (got.like_count, got.share_count, got.view_count) == (1, 1, 1)
    assert (got.is_liked, got.is_saved, got.is_shared) == (True, True, True)
    assert (bob.unlike_post(post).like_count, bob.unlike_post(post).liked) == (0, False)
    assert (bob.unsave_post(post).saved, bob.unshare_post(post).shared, bob.unhide_post(post).hidden) == (False,) * 3


def test_comments_are_answered_liked_sorted_and_deleted(kith: Kith) -> None:
    alice, bob = kith.as_user(ALICE), kith.as_user(BOB)
    post = alice.create_post("say something").id
    first, second = bob.create_comment(post, "first"), bob.create_comment(post, "second")
    answer = alice.create_comment(post, "thanks", reply_to=first.id)
    assert alice.like_comment(first.id).like_count == 1
    assert [one.id for one in alice.post_comments(post, page_size=1)] == [second.id, first.id]
    assert [one.text for one in alice.post_comments(post, sort="oldest")] == ["first", "second"]
    page = alice.post_comments_page(post, sort="top")
    assert ([one.id for one in page.items], page.total_count) == ([first.id, second.id], 2)
    assert (page.items[0].replies, page.items[0].is_liked) == ([answer], True)
    assert list(bob.comment_replies(first.id)) == [answer]
    assert not alice.unlike_comment(first.id).liked
    alice.delete_comment(first.id)
    (stub,) = [one for one in bob.post_comments(post) if one.id != second.id]
    assert (stub.id, stub.deleted, stub.author, stub.text, stub.replies) == (first.id, True, None, "", [answer])
    alice.delete_comment(answer.id)
    assert [one.id for one in bob.post_comments(post)] == [second.id]


def test_home_is_paged_explained_and_adjusted(kith: Kith) -> None:
    carol, dana = kith.as_user(CAROL), kith.as_user(DANA)
    made = [dana.create_post(f"number {n} of {n * 7919}").id for n in range(5)]
    carol.follow(DANA)
    assert [post.id for post in carol.feed("latest", page_size=2)] == made[::-1]
    ranked = list(carol.feed(page_size=2))
    assert {post.id for post in ranked} == set(made)
    assert all(post.ranking is not None and post.ranking.score > 0 for post in ranked)
    page = carol.feed_page("latest", page_size=3, request_id="of-carol")
    assert (len(page.items), page.has_more, page.meta.request_id) == (3, True, "of-carol")
    before = carol.why_post(made[0])
    assert before.score == pytest.approx(sum(part.adds for part in before.parts), abs=1e-3)
    assert carol.see_fewer(DANA).fewer
    assert carol.why_post(made[0]).damping < before.damping == 1.0
    assert not carol.see_as_before(DANA).fewer
    carol.hide_post(made[4])
    assert made[4] not in [post.id for post in carol.feed("latest")]
    carol.unfollow(DANA)


def test_a_picture_is_uploaded_from_a_file_shown_and_deleted(kith: Kith, server: Server, tmp_path: Path) -> None:
    alice, bob = kith.as_user(ALICE), kith.as_user(BOB)
    file = tmp_path / "fox.jpg"
    file.write_bytes(photo())
    picture = alice.upload_media(file, alt_text="a fox")
    assert (picture.type, picture.width, picture.height, picture.alt_text) == ("image", 120, 80, "a fox")
    assert decoded(server.get(picture.url).content).size == (120, 80)
    post = alice.create_post(media=[picture.id]).id
    assert bob.post(post).content.media == [picture]
    assert alice.edit_media(picture.id, alt_text="a red fox") == alice.media(picture.id)
    assert bob.post(post).content.media[0].alt_text == "a red fox"
    assert alice.patch_user(ALICE, avatar=picture.id).avatar_url == picture.thumbnail_url
    assert alice.patch_user(ALICE, avatar=None).avatar is None
    assert alice.edit_post(post, text="no picture", media=None).content.media == []
    alice.delete_media(picture.id)
    with pytest.raises(ApiError) as refused:
        alice.media(picture.id)
    assert refused.value.code == "MEDIA_NOT_FOUND"


def test_a_label_hides_a_post_until_it_is_removed(kith: Kith) -> None:
    bob, post = kith.as_user(BOB), kith.as_user(ALICE).create_post("buy now").id
    assert kith.put_labels("post", post, ["hide"], reason="spam").labels == ["hide"]
    assert kith.labels("post", post).reason == "spam"
    assert bob.lookup_posts([post]) == [None]
    assert kith.delete_labels("post", post).labels == []
    assert bob.post(post).id == post


def test_many_ids_are_looked_up_and_lists_are_read_by_time_range(kith: Kith) -> None:
    assert kith.lookup_posts(range(150)) == [None] * 150
    assert [user and user.id for user in kith.lookup_users([ALICE, BOB])] == [ALICE, BOB]
    kith.write_edges("mutes", [EdgeWrite("add", CAROL, 100 + at, position=at) for at in range(10)])
    assert [edge.id for edge in kith.edges_out("mutes", CAROL, since=3, until=6, page_size=2)] == [105, 104, 103]


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


def test_the_async_client_posts_uploads_and_reads_home(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "fox.jpg"
    file.write_bytes(photo())

    async def run() -> None:
        async with AsyncKith(server.url, server.key, user=BOB) as bob:
            picture = await bob.upload_media(str(file), alt_text="a fox")
            made = [(await bob.create_post(f"async {n}", media=[picture.id])).id for n in range(3)]
            home = [post async for post in bob.feed("latest", page_size=2)]
            assert [post.id for post in home[:3]] == made[::-1]
            assert home[0].content.media == [picture]
            await bob.create_comment(made[0], "to myself")
            assert [one.text async for one in bob.post_comments(made[0])] == ["to myself"]
            for post in made:
                await bob.delete_post(post)

    asyncio.run(run())
