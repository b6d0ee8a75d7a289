"""The stub of a deleted comment is shown to viewers who see something below it, and to nobody else."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, answer
from services import Services

from kith.core.errors import CommentNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import State
from kith.people.privacy import Viewer
from kith.posts import comment_reader
from kith.posts.post import Post

WHOLE = Window(50)


def say(run: Run, room: Services, post: Post, by: NodeId, reply_to: int | None = None) -> NodeId:
    made, _ = run(room.comments.create(by, NodeId(post.id), "well", reply_to))
    room.settle()
    return NodeId(made.id)


def delete(run: Run, room: Services, *comments: NodeId) -> None:
    for one in comments:
        run(room.comments.delete(ALICE, one))
        room.settle()


def found(run: Run, room: Services, viewer: Viewer, post: Post) -> list[tuple[int, list[int]]]:
    """The comments on a post, each with the first replies to it."""
    page = run(room.comments_on(viewer, NodeId(post.id), "oldest", WHOLE))
    return [(one.id, [reply.id for reply, _ in under]) for one, under in zip(page.comments, page.replies, strict=True)]


@pytest.mark.parametrize("replies", [1, 3])
def test_a_stub_whose_replies_a_block_hides_is_shown_to_others_only(run: Run, room: Services, replies: int) -> None:
    post = run(room.write(ALICE))
    stub = say(run, room, post, BOB)
    under = [say(run, room, post, CAROL, stub) for _ in range(replies)]
    delete(run, room, stub)
    assert found(run, room, DANA, post) == [(stub, list(under[:2]))]
    run(room.people.block(CAROL, DANA))
    room.settle()
    assert found(run, room, DANA, post) == []
    assert run(answer(room.replies_to(DANA, stub, "oldest", WHOLE))) is CommentNotFound
    assert found(run, room, BOB, post) == [(stub, list(under[:2]))]


def test_a_stub_whose_repliers_are_deactivated_comes_back_with_them(run: Run, room: Services) -> None:
    post = run(room.write(ALICE))
    stub = say(run, room, post, BOB)
    reply = say(run, room, post, CAROL, stub)
    delete(run, room, stub)
    for state, shown in ((State.ARCHIVED, []), (State.NORMAL, [(stub, [reply])])):
        run(room.edges.change_node(CAROL, state=state))
        assert found(run, room, DANA, post) == shown


def test_a_visible_comment_far_below_keeps_all_stubs_above_it(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = run(room.write(ALICE))
    chain: list[NodeId] = []
    for _ in range(6):
        chain.append(say(run, room, post, BOB, chain[-1] if chain else None))
    last = say(run, room, post, CAROL, chain[-1])
    delete(run, room, *chain[::-1])
    assert found(run, room, DANA, post) == [(chain[0], [chain[1]])]
    for above, below in zip(chain, [*chain[1:], last], strict=True):
        assert [one.id for one in run(room.replies_to(DANA, above, "oldest", WHOLE)).comments] == [below]
    run(room.people.block(DANA, CAROL))
    room.settle()
    assert found(run, room, DANA, post) == []
    monkeypatch.setattr(comment_reader, "STUB_REPLIES_SCANNED_MAX", 3)
    assert found(run, room, DANA, post) == [(chain[0], [chain[1]])], "the search below a stub is bounded"
