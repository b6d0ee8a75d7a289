"""The rules of comments: orders, replies, blocks, deletion, keys."""

from __future__ import annotations

from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run, answer
from reference_leases import own_leases
from services import Services

from kith.core.errors import CommentNotFound, Forbidden, IdempotencyKeyReused, InvalidContent, PostNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import COMMENTED
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs
from kith.posts.comment import DEPTH_MAX, TEXT_CHARS_MAX
from kith.posts.post import Draft, Post, PostEdit
from kith.records.claims import KEY_KEPT_MS
from kith.records.store import RecordKind


def comment(run: Run, room: Services, post: Post, text: str, by: NodeId = BOB, reply_to: int | None = None) -> int:
    """A new comment's id."""
    made, _ = run(room.comments.create(by, NodeId(post.id), text, reply_to))
    return int(made.id)


def listed(
    run: Run, room: Services, post: Post, order: Any, limit: int = 2, viewer: NodeId | None = ALICE
) -> list[str]:
    """The texts of all pages of comments in an order, forward."""
    texts: list[str] = []
    window = Window(limit)
    while True:
        found = run(room.comments_on(viewer, NodeId(post.id), order, window))
        texts += [one.text for one in found.comments]
        if not found.page.more_after:
            return texts
        window = Window(limit, after=found.page.oldest)


def test_comments_come_newest_oldest_or_most_liked_first(run: Run, room: Services, clock: FakeClock) -> None:
    post = run(room.write())
    made = []
    for text in "abcde":
        clock.ms += 1
        made.append(comment(run, room, post, text))
    for liker, at in ((ALICE, 1), (CAROL, 1), (ALICE, 3)):
        run(room.comments.like(liker, NodeId(made[at])))
    room.settle()
    assert listed(run, room, post, "newest") == list("edcba")
    assert listed(run, room, post, "oldest") == list("abcde")
    assert listed(run, room, post, "top") == list("bdeca")
    found = run(room.comments_on(ALICE, post.id, "oldest", Window(2)))
    assert (found.total, found.page.more_before, found.partial) == (5, False, False)
    third = run(room.comments_on(ALICE, post.id, "oldest", Window(2, after=found.page.oldest)))
    back = run(room.comments_on(ALICE, post.id, "oldest", Window(2, before=third.page.newest)))
    assert [one.text for one in back.comments] == ["a", "b"]
    run(room.comments.unlike(ALICE, NodeId(made[1])))
    room.settle()
    likes = [counts.likes for counts in run(room.comments.counts(ALICE, made))]
    assert likes == [0, 1, 0, 1, 0]


def test_replies_belong_to_their_comment(run: Run, room: Services) -> None:
    post, other = run(room.write()), run(room.write())
    first = comment(run, room, post, "first")
    reply = comment(run, room, post, "reply", CAROL, first)
    comment(run, room, post, "reply to the reply", ALICE, reply)
    room.settle()
    assert listed(run, room, post, "newest") == ["first"]
    found = run(room.replies_to(DANA, first, "oldest", Window(5)))
    assert [one.text for one in found.comments] == ["reply"]
    assert [counts.replies for counts in run(room.comments.counts(None, [first, reply]))] == [1, 1]
    assert run(answer(room.comments.create(BOB, other.id, "elsewhere", first))) is CommentNotFound
    assert run(answer(room.comments.create(BOB, post.id, "nowhere", 5))) is CommentNotFound


def test_deleted_or_hidden_comments_take_no_reply_and_no_like(run: Run, room: Services) -> None:
    post = run(room.write())
    first = comment(run, room, post, "first")
    run(room.graph.people.block(BOB, CAROL))
    assert run(answer(room.comments.create(CAROL, post.id, "x", first))) is CommentNotFound
    assert run(answer(room.comments.like(CAROL, first))) is CommentNotFound
    run(room.comments.delete(BOB, first))
    for act in (
        room.comments.create(ALICE, post.id, "x", first),
        room.comments.like(ALICE, first),
        room.comments.delete(BOB, first),
        room.replies_to(ALICE, first, "newest", Window(5)),
    ):
        assert run(answer(act)) is CommentNotFound
    second = comment(run, room, post, "second")
    run(room.posts.delete(ALICE, post.id))
    assert run(answer(room.comments.create(BOB, post.id, "x"))) is PostNotFound
    assert run(answer(room.comments.get(BOB, second))) is CommentNotFound


def test_replies_below_an_invisible_comment_are_invisible_too(run: Run, room: Services) -> None:
    post = run(room.write())
    above = comment(run, room, post, "above", CAROL)
    reply = comment(run, room, post, "below", BOB, above)
    run(room.comments.like(ALICE, NodeId(reply)))
    room.settle()
    run(room.people.block(ALICE, CAROL))
    for act in (room.comments.get, room.comments.like):
        assert run(answer(act(ALICE, NodeId(reply)))) is CommentNotFound
    assert run(answer(room.comments.create(ALICE, NodeId(post.id), "an answer", reply))) is CommentNotFound
    taken = run(room.comments.unlike(ALICE, NodeId(reply)))
    room.settle()
    assert (taken.holds, taken.total) == (False, 0)
    assert run(answer(room.comments.unlike(ALICE, NodeId(reply)))) is CommentNotFound
    run(room.comments.delete(BOB, NodeId(reply)))


def test_a_block_covers_all_replies_below_a_comment(run: Run, room: Services) -> None:
    post, line = run(room.write(CAROL)), list[int]()
    for by in (BOB, CAROL, DANA, CAROL):
        line.append(comment(run, room, post, "well", by, line[-1] if line else None))
    top, deep = NodeId(line[0]), NodeId(line[-1])
    room.settle()
    run(room.people.block(BOB, ALICE))
    for act in (
        room.comments.get(ALICE, deep),
        room.comments.like(ALICE, deep),
        room.replies_to(ALICE, deep, "oldest", Window(5)),
        room.comments.create(ALICE, NodeId(post.id), "me too", deep),
    ):
        assert run(answer(act)) is CommentNotFound
    assert run(room.comments.visible(ALICE, line)) == [None] * 4
    assert None not in run(room.comments.visible(DANA, line))
    run(room.comments.delete(BOB, top))
    assert run(room.comments.like(ALICE, deep)).holds, "a deleted comment hides nothing below it"


def test_replies_have_a_greatest_depth_and_all_comments_above_are_checked(run: Run, room: Services) -> None:
    post = run(room.write(CAROL))
    last = comment(run, room, post, "top", BOB)
    for _ in range(DEPTH_MAX):
        last = comment(run, room, post, "well", DANA, last)
    assert run(answer(room.comments.create(CAROL, NodeId(post.id), "deeper", last))) is InvalidContent
    assert run(room.comments.get(ALICE, last)).text == "well"
    run(room.people.block(ALICE, BOB))
    assert run(answer(room.comments.get(ALICE, last))) is CommentNotFound


def shown(run: Run, room: Services, post: Post, limit: int = 1) -> list[tuple[str, list[str]]]:
    """What Dana sees of the comments on a post, oldest first, and of the replies to each; "-" for a stub."""
    room.settle()
    seen, window = [], Window(limit)
    while True:
        found = run(room.comments_on(DANA, NodeId(post.id), "oldest", window))
        for one in found.comments:
            replies = run(room.replies_to(DANA, NodeId(one.id), "oldest", Window(9))).comments
            assert not (one.deleted and one.text)
            seen.append((one.text or "-", [reply.text or "-" for reply in replies]))
        if not found.page.more_after:
            return seen
        window = Window(limit, after=found.page.oldest)


def counted(run: Run, room: Services, post: Post) -> tuple[int, int]:
    """How many comments count: on the post, with replies, and in its list."""
    room.settle()
    (numbers,) = run(room.engagement.counts(DANA, [post.id]))
    return numbers.comments, run(room.comments_on(DANA, NodeId(post.id), "top", Window(9))).total


def test_a_deleted_comment_stays_as_a_stub_while_it_has_replies(run: Run, room: Services, clock: FakeClock) -> None:
    post = run(room.write())
    first = comment(run, room, post, "first")
    clock.ms += 1
    bare = comment(run, room, post, "bare")
    clock.ms += 1
    comment(run, room, post, "last")
    reply = comment(run, room, post, "reply", CAROL, first)
    below = comment(run, room, post, "below", ALICE, reply)
    assert counted(run, room, post) == (5, 3)
    for one in (first, bare):
        run(room.comments.delete(BOB, NodeId(one)))
    assert shown(run, room, post) == [("-", ["reply"]), ("last", [])]
    assert counted(run, room, post) == (3, 1)
    assert run(room.comments.get(DANA, NodeId(reply))).text == "reply"
    assert run(room.comments.like(DANA, NodeId(reply))).holds
    run(room.comments.delete(CAROL, NodeId(reply)))
    assert shown(run, room, post) == [("-", ["-"]), ("last", [])]
    (under, _) = run(room.comments_on(DANA, post.id, "oldest", Window(9))).replies
    assert [reply.deleted for reply, _ in under] == [True]
    assert [one.id for one in run(room.replies_to(DANA, NodeId(reply), "top", Window(9))).comments] == [below]
    assert counted(run, room, post) == (2, 1)
    run(room.comments.delete(ALICE, NodeId(below)))
    if room.records.transactional:  # where lists lag, the stubs may stay
        assert shown(run, room, post) == [("last", [])]
    assert counted(run, room, post) == (1, 1)


def test_a_reply_is_refused_or_keeps_its_comment_that_is_deleted_meanwhile(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, put = run(room.write()), room.records.put
    first, second = comment(run, room, post, "first"), comment(run, room, post, "second")

    def before_the_next_put(act: Any) -> None:
        async def overtaken(*arguments: Any, **conditions: Any) -> Any:
            monkeypatch.setattr(room.records, "put", put)
            await act
            return await put(*arguments, **conditions)

        monkeypatch.setattr(room.records, "put", overtaken)

    before_the_next_put(room.comments.delete(BOB, NodeId(first)))
    assert run(answer(room.comments.create(CAROL, post.id, "late", first))) is CommentNotFound
    before_the_next_put(room.comments.create(CAROL, post.id, "in time", second))
    run(room.comments.delete(BOB, NodeId(second)))
    if room.records.transactional:
        assert shown(run, room, post) == [("-", ["in time"])]
        assert counted(run, room, post) == (1, 0)


def test_comments_of_a_deactivated_user_leave_lists_and_counts_until_the_return(
    run: Run, room: Services, clock: FakeClock
) -> None:
    if not room.records.transactional:
        pytest.skip("its jobs wait for lists that lag")
    post = run(room.write())
    first = comment(run, room, post, "first")
    clock.ms += 1
    comment(run, room, post, "second")
    clock.ms += 1
    third = comment(run, room, post, "third", CAROL)
    comment(run, room, post, "reply", CAROL, first)
    comment(run, room, post, "mine", BOB, third)
    before = shown(run, room, post)
    assert before == [("first", ["reply"]), ("second", []), ("third", ["mine"])]

    async def change(operation: NodeOperation) -> None:
        jobs = account_jobs(room.graph, own_leases(), room.comments.erase, beside=room.comments.beside)
        await jobs.start(operation, BOB)
        await jobs.wait()

    run(change(NodeOperation.ARCHIVE))
    assert shown(run, room, post) == [("-", ["reply"]), ("third", [])]
    assert counted(run, room, post) == (2, 1)
    run(change(NodeOperation.RESTORE))
    assert shown(run, room, post) == before
    assert counted(run, room, post) == (5, 3)
    run(change(NodeOperation.REMOVE))
    assert shown(run, room, post) == [("-", ["reply"]), ("third", [])]
    assert counted(run, room, post) == (2, 1)


@pytest.mark.parametrize("blocker", [ALICE, CAROL], ids=["Alice blocks", "Carol blocks"])
def test_a_comment_that_a_block_overtakes_is_refused_in_its_commit(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch, blocker: NodeId
) -> None:
    """The post is Alice's; the comment that is replied to is Carol's."""
    post = run(room.write())
    answered = comment(run, room, post, "hi", by=CAROL)
    room.block_before_the_next_write(monkeypatch, blocker)
    assert run(answer(room.comments.create(BOB, NodeId(post.id), "a secret", answered))) is PostNotFound
    room.settle()
    assert run(room.replies_to(SYSTEM, answered, "newest", Window(5))).comments == []
    assert not any(b"a secret" in record.data for record in room.records.records.values())
    commented = Listing(room.graph.graphs.number(COMMENTED), BOB, Direction.OUT)
    assert run(room.edges.count_many([commented])) == [0]


def test_a_like_that_a_block_overtakes_finds_no_comment(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = run(room.write())
    made = comment(run, room, post, "hi", by=ALICE)
    room.block_before_the_next_write(monkeypatch, ALICE)
    assert run(answer(room.comments.like(BOB, NodeId(made)))) is CommentNotFound


def test_a_comment_is_deleted_by_its_author_or_the_author_of_the_post(run: Run, room: Services) -> None:
    post = run(room.write())
    one, two = comment(run, room, post, "a secret"), comment(run, room, post, "two")
    assert run(answer(room.comments.delete(CAROL, one))) is Forbidden
    run(room.comments.delete(BOB, one))
    run(room.comments.delete(ALICE, two))
    room.settle()
    assert run(room.comments_on(ALICE, post.id, "newest", Window(5))).total == 0
    assert b"secret" not in room.records.records[RecordKind.COMMENT, one].data


def test_comments_of_blocked_users_are_not_shown_and_pages_continue(run: Run, room: Services) -> None:
    post = run(room.write())
    for by, text in ((BOB, "a"), (CAROL, "b"), (BOB, "c"), (CAROL, "d")):
        comment(run, room, post, text, by)
    room.settle()
    run(room.graph.people.block(DANA, CAROL))
    assert sorted(listed(run, room, post, "newest", 1, DANA)) == ["a", "c"]
    assert sorted(listed(run, room, post, "newest", 1, None)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "text", ["", " \n", "x" * (TEXT_CHARS_MAX + 1), "\ud800"], ids=["empty", "blank", "too long", "not UTF-8"]
)
def test_a_comment_without_text_or_with_too_much_is_refused(run: Run, room: Services, text: str) -> None:
    post = run(room.write())
    assert run(answer(room.comments.create(BOB, post.id, text))) is InvalidContent


# --- idempotency keys --------------------------------------------------------------------------------------


def test_the_same_key_makes_one_comment_for_a_day(run: Run, room: Services, clock: FakeClock) -> None:
    post, other = (NodeId(run(room.write()).id) for _ in range(2))
    first, _ = run(room.comments.create(BOB, post, "once", None, "key"))
    clock.ms += KEY_KEPT_MS - 1
    assert run(room.comments.create(BOB, post, "once", None, "key"))[0] == first
    for asked in ((other, "once", None), (post, "other", None), (post, "once", NodeId(first.id))):
        assert run(answer(room.comments.create(BOB, *asked, "key"))) is IdempotencyKeyReused
    others = [run(room.comments.create(by, post, "once", None, key))[0] for by, key in ((CAROL, "key"), (BOB, "key2"))]
    assert run(room.posts.create(BOB, Draft(text="a post"), "key")).post.text == "a post", "posts have their own keys"
    clock.ms += 2
    late, _ = run(room.comments.create(BOB, post, "once", None, "key"))
    assert len({first.id, late.id, *(one.id for one in others)}) == 4
    room.settle()
    assert run(room.comments_on(SYSTEM, post, "newest", Window(10))).total == 4


def test_a_repeated_comment_is_answered_even_where_a_new_one_would_be_refused(run: Run, room: Services) -> None:
    post = run(room.write())
    first, _ = run(room.comments.create(BOB, NodeId(post.id), "once", None, "key"))
    run(room.posts.edit(ALICE, NodeId(post.id), PostEdit(allow_comments=False)))
    assert run(room.comments.create(BOB, NodeId(post.id), "once", None, "key"))[0] == first
    run(room.graph.people.block(ALICE, BOB))
    assert run(room.comments.create(BOB, NodeId(post.id), "once", None, "key"))[0] == first
    assert run(answer(room.comments.create(BOB, NodeId(post.id), "once", None, "key2"))) is PostNotFound
    room.settle()
    assert run(room.comments_on(SYSTEM, NodeId(post.id), "newest", Window(10))).total == 1


def test_a_repeated_comment_that_was_deleted_is_not_found_and_stays_deleted(run: Run, room: Services) -> None:
    post = NodeId(run(room.write()).id)
    first, _ = run(room.comments.create(BOB, post, "once", None, "key"))
    run(room.comments.delete(ALICE, NodeId(first.id)))
    assert run(answer(room.comments.create(BOB, post, "once", None, "key"))) is CommentNotFound
    room.settle()
    assert run(room.comments_on(SYSTEM, post, "newest", Window(10))).total == 0
    assert b"once" not in room.records.records[RecordKind.COMMENT, first.id].data


def test_a_comment_that_a_block_overtook_leaves_no_text_and_its_key_free(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = NodeId(run(room.write()).id)
    room.block_before_the_next_write(monkeypatch, ALICE)
    assert run(answer(room.comments.create(BOB, post, "a secret", None, "key"))) is PostNotFound
    assert not any(b"a secret" in record.data for record in room.records.records.values())
    run(room.graph.people.unblock(ALICE, BOB))
    room.settle()
    again = run(answer(room.comments.create(BOB, post, "a secret", None, "key")))
    room.settle()
    made = run(room.comments_on(SYSTEM, post, "newest", Window(10))).total
    assert made == 1, "a refused request leaves its key free"
    assert (again is CommentNotFound) == (not made)


def test_posts_and_comments_that_a_deactivation_overtakes_are_not_made(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not room.records.transactional:
        pytest.skip("best effort there: it is made, and away with its author")
    post, apply = NodeId(run(room.write()).id), room.edges.apply

    async def overtaken(writes: Any) -> Any:
        monkeypatch.setattr(room.edges, "apply", apply)
        await room.edges.change_node(BOB, state=State.ARCHIVED)
        return await apply(writes)

    for make in (
        lambda: room.posts.create(BOB, Draft(text="a secret"), "key"),
        lambda: room.comments.create(BOB, post, "a secret", None, "key"),
    ):
        monkeypatch.setattr(room.edges, "apply", overtaken)
        assert run(answer(make())) is Forbidden
        assert not any(b"a secret" in record.data for record in room.records.records.values())
        run(room.edges.change_node(BOB, state=State.NORMAL))


def test_a_repetition_finishes_a_half_made_comment(run: Run, room: Services) -> None:
    if room.records.transactional:
        pytest.skip("there is no half here")
    post = NodeId(run(room.write()).id)
    first, _ = run(room.comments.create(BOB, post, "once", None, "key"))
    room.settle()
    del room.records.records[RecordKind.COMMENT, first.id]  # the claim was taken, and then the process ended
    assert run(room.comments.create(BOB, post, "once", None, "key"))[0] == first
    room.settle()
    assert run(room.comments_on(SYSTEM, post, "newest", Window(10))).comments == [first]
