"""Edits of posts, over both kinds of engine: what they change, what they keep, and what they log."""

from __future__ import annotations

from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run, answer
from services import Services

from kith.core.errors import InvalidContent, PostNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import State
from kith.people.profiles import Profile
from kith.posts.post import PostEdit
from kith.records.store import RecordKind


def test_an_edit_keeps_the_position_and_is_logged(run: Run, room: Services, clock: FakeClock) -> None:
    post = run(room.write())
    clock.ms += 1_000
    written = run(room.posts.edit(ALICE, post.id, PostEdit(text="better")))
    assert (written.post.text, written.post.edited_at) == ("better", clock.ms)
    assert run(room.posts.visible(BOB, [post.id])) == [written.post]
    told = room.edges.log[-1]
    assert (told.destination, told.position, told.state) == (post.id, post.created_at, State.NORMAL)
    assert written.mark.at == room.edges.events.end


def test_an_edit_without_a_change_edits_nothing_and_mentions_nobody_else(
    run: Run, room: Services, clock: FakeClock
) -> None:
    run(room.profiles.change(BOB, lambda _: Profile(username="Bob")))
    post = run(room.write(text="hello @bob"))
    run(room.profiles.change(BOB, lambda _: Profile()))
    run(room.profiles.change(CAROL, lambda _: Profile(username="Bob")))
    told = len(room.edges.log)
    for _ in range(2):
        clock.ms += 1_000
        assert run(room.posts.edit(ALICE, post.id, PostEdit(text="hello @bob", visibility="public"))).post == post
    assert run(room.posts.read([post.id])) == [post]
    assert not room.records.transactional or len(room.edges.log) == told
    friends = run(room.posts.edit(ALICE, post.id, PostEdit(text="hello @bob", visibility="friends"))).post
    assert (friends.edited_at, friends.mentioned) == (clock.ms, (BOB,))


def test_an_edit_that_is_overtaken_by_a_delete_restores_nothing(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = run(room.write())
    put = room.records.put

    async def overtaken(*args: Any, **conditions: Any) -> Any:
        monkeypatch.setattr(room.records, "put", put)
        await room.posts.delete(ALICE, NodeId(post.id))
        return await put(*args, **conditions)

    monkeypatch.setattr(room.records, "put", overtaken)
    assert run(answer(room.posts.edit(ALICE, post.id, PostEdit(text="back")))) is PostNotFound
    assert run(room.posts.visible(ALICE, [post.id])) == [None]
    assert b"back" not in room.records.records[RecordKind.POST, post.id].data


def test_names_in_a_text_are_mentions_and_an_edit_removes_them(run: Run, room: Services) -> None:
    def mentioning(user: NodeId) -> list[int]:
        room.settle()
        return [post.id for post in run(room.posts.mentioning(user, user, Window(5)))[0]]

    run(room.profiles.change(BOB, lambda _: Profile(username="Bob")))
    post = run(room.write(ALICE, text="hello @bob and @nobody", mentions=(CAROL,)))
    assert post.mentioned == (CAROL, BOB)
    assert mentioning(BOB) == [post.id]
    edited = run(room.posts.edit(ALICE, NodeId(post.id), PostEdit(text="hello"))).post
    assert edited.mentioned == (CAROL,)
    assert (mentioning(BOB), mentioning(CAROL)) == ([], [post.id])
    run(room.posts.edit(ALICE, NodeId(post.id), PostEdit(text="@bob again", mentions=())))
    assert (mentioning(BOB), mentioning(CAROL)) == ([post.id], [])
    with pytest.raises(InvalidContent, match="50 names"):
        run(room.write(text=" ".join(f"@user{at}" for at in range(51))))
