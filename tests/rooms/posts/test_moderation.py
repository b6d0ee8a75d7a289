"""Labels are stored, logged, and in effect at once; posts and comments of a removed account are emptied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, START_MS, FakeClock
from coroutines import Run, answer, without_waits
from reference_leases import own_leases
from services import Services

from kith.core.errors import (
    Conflict,
    Forbidden,
    InvalidContent,
    KithError,
    Overloaded,
    PostNotFound,
    StoreFull,
    UserNotFound,
)
from kith.core.events import USER_CHANGED, Event
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT, NAMES, SENSITIVE, bits_of, names_of
from kith.core.paging import Window
from kith.core.tokens import NO_MARK
from kith.graph.edge import Direction, State
from kith.graph.graphs import AUTHORED, COMMENTED, LIKES, SHARES
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.removal import account_jobs
from kith.posts.labels import REASON_CHARS_MAX, Labels
from kith.posts.post import Draft, Post, PostEdit, read_post
from kith.records.store import RecordKind


def test_labels_have_names() -> None:
    assert [bits_of([name]) for name in NAMES] == [HIDE, LIMIT, SENSITIVE]
    assert names_of(bits_of(["sensitive", "hide", "hide"])) == ["hide", "sensitive"]
    assert (names_of(0), bits_of([])) == ([], 0)


@pytest.mark.parametrize("what", ["post", "user"])
def test_labels_are_replaced_as_a_whole_and_repeating_it_changes_nothing(
    run: Run, room: Services, clock: FakeClock, what: Any
) -> None:
    id_ = NodeId(run(room.write()).id) if what == "post" else ALICE
    assert run(room.moderation.get(what, id_)) == Labels()
    clock.ms += 10
    labels, mark = run(room.moderation.set(what, id_, HIDE | LIMIT, "spam"))
    assert labels == run(room.moderation.get(what, id_)) == Labels(HIDE | LIMIT, "spam", START_MS + 10)
    assert mark.at == room.edges.events.end
    clock.ms += 10
    again, mark = run(room.moderation.set(what, id_, HIDE | LIMIT, "spam"))
    assert (again, mark) == (labels, NO_MARK)
    assert run(room.moderation.set(what, id_, HIDE | LIMIT, "worse"))[0].changed_at == START_MS + 20
    run(room.moderation.set(what, id_, 0))
    assert run(room.moderation.get(what, id_))[:2] == (0, "")


def test_labels_are_logged(run: Run, room: Services) -> None:
    post = run(room.write())
    run(room.moderation.set("post", NodeId(post.id), HIDE))
    told = room.edges.log[-1]
    assert (told.graph, told.source, told.destination) == (room.graph.graphs.number(AUTHORED), ALICE, post.id)
    run(room.moderation.set("user", BOB, LIMIT))
    told = room.edges.log[-1]
    assert isinstance(told, Event)
    assert (told.state, told.source) == (USER_CHANGED, BOB)


def test_a_label_stays_through_edits_and_edits_through_labels(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = NodeId(run(room.write()).id)
    run(room.moderation.set("user", ALICE, LIMIT))
    put = room.records.put

    async def overtaken(*args: Any, **conditions: Any) -> Any:
        monkeypatch.setattr(room.records, "put", put)
        await room.posts.edit(ALICE, id_, PostEdit(text="new"))
        return await put(*args, **conditions)

    monkeypatch.setattr(room.records, "put", overtaken)
    run(room.moderation.set("post", id_, SENSITIVE))
    edited = run(room.posts.edit(ALICE, id_, PostEdit(attributes=b'{"a":1}'))).post
    assert (edited.text, edited.labels) == ("new", SENSITIVE | LIMIT)
    run(room.moderation.set("user", ALICE, 0))
    assert run(room.posts.get(BOB, id_)).labels == SENSITIVE, "the labels of the author are not written into posts"


def test_a_reason_that_belongs_to_other_labels_is_not_shown(run: Run, room: Services) -> None:
    """The process stopped between the labels and their reason."""
    run(room.moderation.set("user", ALICE, HIDE, "spam"))
    run(room.edges.change_node(ALICE, labels=LIMIT))
    assert run(room.moderation.get("user", ALICE)) == Labels(LIMIT)


def test_deleted_posts_and_removed_users_cannot_be_labelled(run: Run, room: Services) -> None:
    post = run(room.write())
    run(room.posts.delete(ALICE, NodeId(post.id)))
    run(room.edges.change_node(BOB, state=State.REMOVED))
    for what, id_, error in (("post", post.id, PostNotFound), ("post", 5, PostNotFound), ("user", BOB, UserNotFound)):
        assert run(answer(room.moderation.set(what, NodeId(id_), HIDE))) is error  # type: ignore[arg-type]
        assert run(answer(room.moderation.get(what, NodeId(id_)))) is error  # type: ignore[arg-type]
    long = room.moderation.set("user", ALICE, HIDE, "x" * (REASON_CHARS_MAX + 1))
    assert run(answer(long)) is InvalidContent
    assert run(room.moderation.get("user", ALICE)) == Labels()


def test_a_hidden_user_may_continue_and_is_seen_once_the_label_is_removed(run: Run, room: Services) -> None:
    run(room.moderation.set("user", ALICE, HIDE))
    own, other = run(room.write()), run(room.write(BOB))
    comment, _ = run(room.comments.create(ALICE, NodeId(other.id), "hi"))
    assert run(room.posts.visible(BOB, [own.id])) == [None]
    assert run(answer(room.comments.get(BOB, comment.id))).__name__ == "CommentNotFound"
    assert run(room.posts.get(ALICE, own.id)).labels == HIDE
    run(room.moderation.set("user", ALICE, 0))
    assert run(room.posts.visible(BOB, [own.id])) == [own]
    assert run(room.comments.get(BOB, comment.id)) == comment


def test_only_its_author_learns_that_a_hidden_post_was_deleted(run: Run, room: Services) -> None:
    shown, hidden = run(room.write()), run(room.write())
    run(room.moderation.set("post", NodeId(hidden.id), HIDE))
    for post in (shown, hidden):
        run(room.posts.delete(ALICE, NodeId(post.id)))
        _, told = run(room.posts.visible_to(post.id, [ALICE, BOB], deleted_too=True))
        assert told == [True, post is shown]


def test_a_post_takes_comments_and_shares_as_its_author_says(run: Run, room: Services) -> None:
    post = run(room.write(allow_comments=False, allow_sharing=False))
    id_ = NodeId(post.id)
    for actor in (ALICE, BOB):
        assert run(answer(room.comments.create(actor, id_, "x"))) is Forbidden
        assert run(answer(room.engagement.add(SHARES, actor, id_))) is Forbidden
    run(room.posts.edit(ALICE, id_, PostEdit(allow_comments=True, allow_sharing=True)))
    comment, _ = run(room.comments.create(BOB, id_, "x"))
    run(room.engagement.add(SHARES, BOB, id_))
    run(room.posts.edit(ALICE, id_, PostEdit(allow_comments=False, allow_sharing=False)))
    assert run(room.comments.get(ALICE, comment.id)).text == "x", "existing comments stay"
    assert not run(room.engagement.drop(SHARES, BOB, id_)).holds


# --- posts of accounts that are removed --------------------------------------------------------------------


async def remove(room: Services, *erase: Any) -> None:
    """Remove Alice, by a job of this process."""
    with without_waits():
        jobs = account_jobs(room.graph, own_leases(), *erase)
        await jobs.start(NodeOperation.REMOVE, ALICE)
        await asyncio.gather(jobs.wait(), return_exceptions=True)


def left(room: Services, posts: Sequence[Post]) -> list[str]:
    """The stored texts of these posts."""
    return [read_post(room.records.records[RecordKind.POST, post.id]).text for post in posts]


def test_the_posts_of_a_removed_account_are_emptied(run: Run, room: Services, clock: FakeClock) -> None:
    posts = []
    for _ in range(1_100):  # more than two pages
        clock.ms += 1
        posts.append(run(room.write()))
    others = run(room.write(BOB))
    run(room.engagement.add(LIKES, ALICE, NodeId(others.id)))
    run(room.graph.write([room.graph.add_write(room.graph.graphs.number(AUTHORED), ALICE, NodeId(others.id))]))
    run(room.posts.delete(ALICE, NodeId(posts[3].id)))
    room.settle()
    run(remove(room, room.posts.erase))
    assert set(left(room, posts)) == {""}
    assert left(room, [others]) == ["hello"]


def test_the_comments_of_a_removed_account_are_emptied_and_leave_their_lists(
    run: Run, room: Services, clock: FakeClock
) -> None:
    post, made = run(room.write(BOB)), []
    answered, _ = run(room.comments.create(BOB, NodeId(post.id), "hello"))
    for at in range(600):
        clock.ms += 1
        reply_to = NodeId(answered.id) if at % 2 else None
        made.append(run(room.comments.create(ALICE, NodeId(post.id), "word of alice", reply_to))[0])
    run(room.comments.delete(BOB, NodeId(made[3].id)))
    run(room.comments.like(ALICE, NodeId(answered.id)))
    run(room.graph.write([room.graph.add_write(room.graph.graphs.number(COMMENTED), ALICE, NodeId(answered.id))]))
    room.settle()
    run(remove(room, room.posts.erase, room.comments.erase))
    room.settle()
    left = [room.records.records[RecordKind.COMMENT, comment.id].data for comment in made]
    assert not [data for data in left if b"alice" in data]
    assert run(room.comments_on(BOB, NodeId(post.id), "newest", Window(5))).total == 1
    assert run(room.comments.counts(BOB, [answered.id])) == [(0, 0, False, False)]
    assert run(room.comments.get(BOB, answered.id)).text == "hello"


def test_emptying_resumes_where_a_stopped_job_left_it(run: Run, room: Services, clock: FakeClock) -> None:
    posts = []
    for _ in range(600):
        clock.ms += 1
        posts.append(run(room.write()))
    room.settle()
    calls = 0

    async def stopping(listing: Listing, ids: Sequence[int]) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise asyncio.CancelledError
        await room.posts.erase(listing, ids)

    run(remove(room, stopping))
    assert left(room, posts).count("") == 500

    async def resume() -> None:
        with without_waits():
            jobs = account_jobs(room.graph, own_leases(), room.posts.erase)
            await jobs.resume()
            await jobs.wait()

    run(resume())
    assert set(left(room, posts)) == {""}


def test_old_finished_jobs_are_forgotten_when_another_begins(run: Run, room: Services) -> None:
    async def there_and_back() -> None:
        with without_waits():
            jobs = account_jobs(room.graph, own_leases())
            first = await jobs.start(NodeOperation.ARCHIVE, ALICE)
            await jobs.wait()
            old = msgspec.structs.replace(await jobs.get(first.id), finished_at=1.0)
            assert await room.edges.notes("job/") == {}, "a process that looks for jobs reads only running ones"
            for prefix in ("job-done", "job"):  # the second as an older Kith left it
                await room.edges.put_note(f"{prefix}/{first.id}", msgspec.json.encode(old))
            jobs = account_jobs(room.graph, own_leases())
            second = await jobs.start(NodeOperation.RESTORE, ALICE)
            await jobs.wait()
            assert [job.id for job in await jobs.known()] == [second.id]
            assert (await jobs.get(second.id)).done
            assert await room.edges.notes("job/") == {}

    run(there_and_back())


@pytest.mark.parametrize(
    "error", [StoreFull("no room"), Overloaded("too much at once"), Conflict("overtaken")], ids=lambda error: error.code
)
def test_a_removal_waits_for_the_store_and_is_finished_by_the_same_process(
    run: Run, room: Services, error: KithError
) -> None:
    post, comment = run(room.write()), run(room.comments.create(ALICE, NodeId(run(room.write(BOB)).id), "hi"))[0]
    failures = [error] * 5

    async def failing(listing: Listing, ids: Sequence[int]) -> None:
        if failures:
            raise failures.pop()
        await room.posts.erase(listing, ids)
        await room.comments.erase(listing, ids)

    run(remove(room, failing))
    assert not failures
    assert left(room, [post]) == [""]
    assert b"hi" not in room.records.records[RecordKind.COMMENT, comment.id].data


def test_posts_and_comments_that_a_removal_overtakes_are_not_kept(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, put = run(room.write(BOB)), room.records.put

    async def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(room.records, "put", put)
        await remove(room, room.posts.erase, room.comments.erase)
        return await put(*arguments, **options)

    for make in (
        lambda: room.posts.create(ALICE, Draft(text="a word of alice"), "key"),
        lambda: room.comments.create(ALICE, NodeId(post.id), "a word of alice"),
    ):
        run(room.edges.change_node(ALICE, state=State.NORMAL))
        monkeypatch.setattr(room.records, "put", overtaken)
        assert run(answer(make())) is Forbidden
    room.settle()
    assert not [record for record in room.records.records.values() if b"alice" in record.data]
    assert run(room.comments_on(BOB, NodeId(post.id), "newest", Window(5))).total == 0
    assert run(room.edges.count_many([Listing(room.graph.graphs.number(AUTHORED), ALICE, Direction.OUT)])) == [0]


def test_deactivating_keeps_the_text_of_posts(run: Run, room: Services) -> None:
    post = run(room.write())

    async def away() -> None:
        with without_waits():
            jobs = account_jobs(room.graph, own_leases(), room.posts.erase)
            await jobs.start(NodeOperation.ARCHIVE, ALICE)
            await jobs.wait()

    run(away())
    assert left(room, [post]) == ["hello"]
