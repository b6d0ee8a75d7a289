"""Posts, comments and engagement over both kinds of engine: with transactions, and with lists that lag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, START_MS, FakeClock
from coroutines import Run, answer
from services import Services

from kith.core.errors import Forbidden, IdempotencyKeyReused, InvalidContent, PostNotFound, StoreUnavailable
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.core.tokens import NO_MARK
from kith.graph.edge import Direction, State
from kith.graph.graphs import AUTHORED, BOARDS, HIDES, LIKES, SAVES, VIEWS
from kith.graph.shapes import Listing
from kith.media.media import Media, media_record
from kith.people.privacy import SYSTEM, Viewer
from kith.people.profiles import Profile
from kith.posts.post import Draft, PostEdit
from kith.records.claims import KEY_KEPT_MS
from kith.records.fields import pack_attributes


def counting(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that a store gets from now on."""
    calls: list[str] = []

    def watch(name: str, real: Callable[..., Any]) -> None:
        def counted(*args: Any) -> Any:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(store, name, counted)

    for name in ("get_many", "nodes", "exists_many", "count_many"):
        if hasattr(store, name):
            watch(name, getattr(store, name))
    return calls


def test_a_post_is_in_the_outbox_at_its_time(run: Run, room: Services, clock: FakeClock) -> None:
    first = run(room.write())
    clock.ms += 5
    second = run(room.write())
    room.settle()
    posts, page = run(room.posts.outbox(BOB, ALICE, Window(10)))
    assert posts == [second, first]
    assert page.items == [(START_MS + 5, second.id), (START_MS, first.id)]


def test_many_posts_are_read_in_a_few_batches(run: Run, room: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    posts = [run(room.write(NodeId(100 + at), visibility="friends" if at % 2 else "public")) for at in range(40)]
    for name, store in (("records", room.records), ("graph", room.edges)):
        calls = counting(store, monkeypatch)
        run(room.posts.visible(BOB, [post.id for post in posts]))
        assert len(calls) <= 8, (name, calls)  # however many posts; blocks are four lists


def test_ids_without_a_post_give_none_in_their_place(run: Run, room: Services) -> None:
    post = run(room.write())
    assert run(room.posts.visible(BOB, [5, post.id, 6, post.id])) == [None, post, None, post]
    assert run(room.posts.visible(BOB, [])) == []
    assert run(room.posts.visible(BOB, [5])) == [None]


def test_visibility_follows_changes_of_follows_and_blocks(run: Run, room: Services) -> None:
    graph = room.graph
    public, friends = run(room.write()), run(room.write(visibility="friends"))
    private, custom = run(room.write(visibility="private")), run(room.write(visibility="custom", audience=(CAROL,)))
    ids = [public.id, friends.id, private.id, custom.id]

    def seen(viewer: Viewer) -> list[bool]:
        return [post is not None for post in run(room.posts.visible(viewer, ids))]

    assert seen(SYSTEM) == seen(ALICE) == [True] * 4
    assert seen(None) == [True, False, False, False]
    assert seen(BOB) == [True, False, False, False]
    assert seen(CAROL) == [True, False, False, True]
    run(graph.people.follow(BOB, ALICE))
    assert seen(BOB) == [True, False, False, False]
    run(graph.people.follow(ALICE, BOB))
    assert seen(BOB) == [True, True, False, False]
    run(graph.store.change_node(ALICE, private=True))
    assert (seen(BOB), seen(CAROL), seen(None)) == ([True, True, False, False], [False] * 4, [False] * 4)
    run(graph.people.block(BOB, ALICE))
    assert seen(BOB) == [False] * 4
    run(graph.store.change_node(ALICE, private=False))
    run(graph.people.unblock(BOB, ALICE))
    run(graph.people.block(ALICE, BOB))
    assert seen(BOB) == [False] * 4
    run(graph.store.change_node(ALICE, state=State.ARCHIVED))
    assert (seen(CAROL), seen(None), seen(SYSTEM)) == ([False] * 4, [False] * 4, [True] * 4)
    run(graph.store.change_node(ALICE, state=State.REMOVED))
    assert seen(SYSTEM) == [False] * 4


def test_a_deleted_post_is_gone_for_all_and_from_the_outbox(run: Run, room: Services) -> None:
    post = run(room.write())
    run(room.posts.delete(ALICE, post.id))
    room.settle()
    for viewer in (ALICE, BOB, SYSTEM, None):
        assert run(room.posts.visible(viewer, [post.id])) == [None]
    assert run(room.posts.outbox(ALICE, ALICE, Window(10)))[1].items == []
    for again in (room.posts.delete(ALICE, post.id), room.posts.edit(ALICE, post.id, PostEdit(text="x"))):
        assert run(answer(again)) is PostNotFound


def test_only_the_author_changes_a_post_and_others_learn_only_what_they_may(run: Run, room: Services) -> None:
    public, private = run(room.write()), run(room.write(visibility="private"))
    for id_, expected in ((public.id, Forbidden), (private.id, PostNotFound), (5, PostNotFound)):
        assert run(answer(room.posts.edit(BOB, id_, PostEdit(text="mine")))) is expected
        assert run(answer(room.posts.delete(BOB, id_))) is expected
    assert run(room.posts.visible(ALICE, [public.id, private.id])) == [public, private]


def test_the_same_key_makes_one_post_for_a_day(run: Run, room: Services, clock: FakeClock) -> None:
    draft = Draft(text="once")
    first = run(room.posts.create(ALICE, draft, "key")).post
    clock.ms += KEY_KEPT_MS - 1
    assert run(room.posts.create(ALICE, draft, "key")).post == first
    assert run(answer(room.posts.create(ALICE, Draft(text="other"), "key"))) is IdempotencyKeyReused
    others = [run(room.posts.create(BOB, draft, "key")).post, run(room.posts.create(ALICE, draft, "key2")).post]
    clock.ms += 2
    late = run(room.posts.create(ALICE, draft, "key")).post
    assert len({first.id, late.id, *(post.id for post in others)}) == 4


def test_the_next_try_of_a_key_finishes_where_the_first_stopped_after_the_claim(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with transactions: the store may come from a cluster, which has none (`kith move --back`)."""
    put = room.records.put

    async def stopped(*_: Any, claim: Any = None, **__: Any) -> Any:
        monkeypatch.setattr(room.records, "put", put)
        await put([], claim=claim)
        raise StoreUnavailable("the process ends here")

    for create in (
        lambda: room.posts.create(ALICE, Draft(text="once"), "key"),
        lambda: room.boards.create(ALICE, "once", key="key"),
    ):
        monkeypatch.setattr(room.records, "put", stopped)
        assert run(answer(create())) is StoreUnavailable
        run(create())
    room.settle()
    posts, _ = run(room.posts.outbox(BOB, ALICE, Window(10)))
    assert [post.text for post in posts if post] == ["once"]
    assert len(run(room.edges.ids(Listing(room.graph.graphs.number(BOARDS), ALICE, Direction.OUT), 10))) == 1


def test_a_key_ignores_the_order_of_ids_and_attributes(run: Run, room: Services) -> None:
    attributes = [pack_attributes({"a": 1, "b": {"c": 2, "d": 3}}), pack_attributes({"b": {"d": 3, "c": 2}, "a": 1})]
    made = [
        run(
            room.posts.create(
                ALICE, Draft(text="x", visibility="custom", audience=audience, mentions=ids, attributes=a), "k"
            )
        )
        for audience, ids, a in zip([(1, 2), (2, 1)], [(3, 4), (4, 3)], attributes, strict=True)
    ]
    assert made[0].post.id == made[1].post.id


def test_a_repetition_is_answered_even_where_its_media_are_gone(run: Run, room: Services) -> None:
    image = Media(9, ALICE, START_MS, "jpg", 3, 4, 5, 6, bytes(16))
    run(room.records.put([media_record(image, room.graph.clock.next())]))
    first = run(room.posts.create(ALICE, Draft(text="look", media=(9,)), "k")).post
    run(room.records.put([media_record(msgspec.structs.replace(image, deleted=True), room.graph.clock.next())]))
    assert run(room.posts.create(ALICE, Draft(text="look", media=(9,)), "k")).post == first
    bare = run(room.posts.edit(ALICE, first.id, PostEdit(media=()))).post
    assert run(room.posts.create(ALICE, Draft(text="look", media=(9,)), "k")).post == bare
    assert run(answer(room.posts.create(ALICE, Draft(text="look", media=(9,)), "another"))) is InvalidContent
    assert run(answer(room.posts.create(ALICE, Draft(text="other", media=(9,)), "k"))) is IdempotencyKeyReused


def test_a_repetition_answers_the_current_post_and_restores_no_deleted_one(run: Run, room: Services) -> None:
    first = run(room.posts.create(ALICE, Draft(text="once"), "key")).post
    edited = run(room.posts.edit(ALICE, first.id, PostEdit(text="better", visibility="private"))).post
    assert run(room.posts.create(ALICE, Draft(text="once"), "key")).post == edited
    assert run(room.posts.visible(ALICE, [first.id])) == [edited]
    run(room.posts.delete(ALICE, first.id))
    assert run(answer(room.posts.create(ALICE, Draft(text="once"), "key"))) is PostNotFound
    room.settle()
    assert run(room.posts.visible(ALICE, [first.id])) == [None]
    assert run(room.posts.outbox(ALICE, ALICE, Window(10)))[1].items == []


def test_a_repetition_mentions_the_same_users_whoever_has_the_names_by_then(run: Run, room: Services) -> None:
    def made() -> tuple[Any, Any]:
        post = run(room.posts.create(ALICE, Draft(text="hello @bob"), "key")).post
        return post, run(room.comments.create(ALICE, post.id, "hello @bob", None, "key"))[0]

    run(room.profiles.change(BOB, lambda _: Profile(username="Bob")))
    post, comment = first = made()
    run(room.profiles.change(BOB, lambda _: Profile()))
    run(room.profiles.change(CAROL, lambda _: Profile(username="Bob")))
    assert made() == first
    room.settle()
    mentioning = [run(room.posts.mentioning(user, user, Window(5)))[0] for user in (BOB, CAROL)]
    assert (mentioning, comment.named) == ([[post], []], (BOB,))
    assert run(room.posts.read([post.id])) == [post]
    assert run(room.comments.read([comment.id])) == [comment]


def test_a_repetition_finishes_a_post_that_was_left_half_made_without_transactions(run: Run, room: Services) -> None:
    if room.records.transactional:
        pytest.skip("there is no half here")
    first = run(room.posts.create(ALICE, Draft(text="once"), "key")).post
    room.records.records.clear()  # the claim was taken, and then the process ended
    room.edges.rows.clear()
    assert run(room.posts.create(ALICE, Draft(text="once"), "key")).post == first
    assert run(room.posts.visible(BOB, [first.id])) == [first]
    authored = room.graph.graphs.number(AUTHORED)
    assert run(room.edges.exists_many(authored, [(ALICE, first.id)])) == [True]


def test_a_deactivated_account_cannot_post_comment_or_like(run: Run, room: Services) -> None:
    post = run(room.write(BOB))
    run(room.edges.change_node(ALICE, state=State.ARCHIVED))
    for act in (
        room.posts.create(ALICE, Draft(text="x")),
        room.comments.create(ALICE, post.id, "x"),
        room.engagement.add(LIKES, ALICE, post.id),
    ):
        assert run(answer(act)) is Forbidden


# --- engagement --------------------------------------------------------------------------------------------


def test_engagement_is_idempotent_and_counts_exactly(run: Run, room: Services, clock: FakeClock) -> None:
    post = run(room.write())
    for graph in (LIKES, SAVES, VIEWS, HIDES):
        once = run(room.engagement.add(graph, BOB, post.id))
        clock.ms += 10
        twice = run(room.engagement.add(graph, BOB, post.id))
        room.settle()
        other = run(room.engagement.add(graph, CAROL, post.id))
        assert (once.holds, twice.at_ms, other.holds) == (True, once.at_ms, True)
        assert (once.total, twice.total, other.total) == (1, 1, 2), "at once, though counts may lag"
        room.settle()
        dropped = run(room.engagement.drop(graph, BOB, post.id))
        again = run(room.engagement.drop(graph, BOB, post.id))
        assert (dropped.holds, dropped.total, again.total) == (False, 1, 1)
        assert again.mark == NO_MARK, "nothing changed"
    run(room.engagement.add(LIKES, BOB, post.id))
    room.settle()
    (counts,) = run(room.engagement.counts(BOB, [post.id]))
    assert (counts.likes, counts.views, counts.liked, counts.saved) == (2, 1, True, False)
    assert run(room.engagement.counts(None, [post.id]))[0].liked is False
    assert run(room.engagement.counts(BOB, [])) == []


def test_a_post_that_may_not_be_seen_cannot_be_liked(run: Run, room: Services) -> None:
    private, deleted, blocked = run(room.write(visibility="private")), run(room.write()), run(room.write(CAROL))
    run(room.posts.delete(ALICE, deleted.id))
    run(room.graph.people.block(CAROL, BOB))
    for post in (private, deleted, blocked):
        for act in (room.engagement.add, room.engagement.drop):
            assert run(answer(act(LIKES, BOB, post.id))) is PostNotFound


def test_engagement_with_a_post_out_of_sight_can_be_undone_once_and_reveals_no_count(run: Run, room: Services) -> None:
    hidden, deleted = run(room.write()), run(room.write())
    for post in (hidden, deleted):
        for graph in (LIKES, SAVES):
            for actor in (BOB, CAROL):
                run(room.engagement.add(graph, actor, post.id))
    room.settle()
    run(room.graph.people.block(ALICE, BOB))
    run(room.posts.delete(ALICE, deleted.id))
    room.settle()
    for post in (hidden, deleted):
        for graph in (LIKES, SAVES):
            dropped = run(room.engagement.drop(graph, BOB, post.id))
            room.settle()
            assert (dropped.holds, dropped.total) == (False, 0)
            assert run(answer(room.engagement.drop(graph, BOB, post.id))) is PostNotFound
            assert run(room.edges.count_many([Listing(room.graph.graphs.number(graph), post.id, Direction.IN)])) == [1]


def test_a_like_that_a_block_overtakes_is_refused_in_its_commit(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = run(room.write())
    room.block_before_the_next_write(monkeypatch, ALICE)
    assert run(answer(room.engagement.add(LIKES, BOB, post.id))) is PostNotFound
    room.settle()
    likes = Listing(room.graph.graphs.number(LIKES), post.id, Direction.IN)
    assert run(room.edges.count_many([likes])) == [0]


# --- profiles ----------------------------------------------------------------------------------------------


def test_a_profile_is_empty_until_it_is_set_and_changes_are_not_lost(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(room.profiles.get_many([ALICE, BOB])) == [Profile(), Profile()]
    run(room.profiles.change(ALICE, lambda _: Profile("Alice", "fox", None, b'{"a":1}')))
    put = room.records.put

    async def overtaken(*args: Any, **conditions: Any) -> Any:
        monkeypatch.setattr(room.records, "put", put)
        await room.profiles.change(ALICE, lambda old: Profile(old.display_name, "hare", old.avatar, old.attributes))
        return await put(*args, **conditions)

    monkeypatch.setattr(room.records, "put", overtaken)
    run(room.profiles.change(ALICE, lambda old: Profile("Alicia", old.bio, old.avatar, old.attributes)))
    assert run(room.profiles.get_many([BOB, ALICE])) == [Profile(), Profile("Alicia", "hare", None, b'{"a":1}')]


@pytest.mark.parametrize(
    "profile",
    [Profile(display_name="x" * 101), Profile(bio="x" * 1_001), Profile(display_name="\ud800")],
    ids=["too long a name", "too long a bio", "not UTF-8"],
)
def test_a_profile_beyond_its_bounds_is_refused(run: Run, room: Services, profile: Profile) -> None:
    assert run(answer(room.profiles.change(ALICE, lambda _: profile))) is InvalidContent


def test_a_change_after_one_by_a_host_whose_clock_is_ahead_is_newer(run: Run, room: Services) -> None:
    async def play() -> None:
        ahead = await Services.over(room.edges, room.records, FakeClock(START_MS + 30_000))
        post = await room.write()
        await ahead.posts.edit(ALICE, post.id, PostEdit(text="theirs"))
        theirs = ahead.graph.clock.next()
        await room.posts.edit(ALICE, post.id, PostEdit(text="ours"))
        assert room.graph.clock.next() >= theirs
        assert (await room.posts.visible(BOB, [post.id]))[0].text == "ours"

    run(play())
