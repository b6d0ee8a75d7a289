"""Concurrent changes of posts and comments: what counts is shown, and what was acknowledged stays."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run, answer, run_coroutine, without_waits
from engines import SettledEdges
from reference_edges import ReferenceEdges
from reference_leases import own_leases
from reference_records import RowRecords
from services import Services
from store_wrappers import ProcessDied

from kith.core.errors import CommentNotFound, Forbidden, KithError
from kith.core.paging import Window
from kith.graph.edge import EdgeChange, EdgeWrite, State
from kith.graph.graphs import MENTIONED, POST_REPLIES
from kith.graph.node_jobs import NodeOperation
from kith.people.removal import account_jobs
from kith.posts.post import Draft, PostEdit

PAGE = Window(20)


async def without_transactions(seed: int = 1) -> Services:
    edges = SettledEdges(seed=seed)
    return await Services.over(edges, RowRecords(edges))


async def shown(kith: Services, post: int) -> tuple[int, int]:
    """The number of comments in the post's counts, and the number of those that are listed."""
    (counts,) = await kith.engagement.counts(ALICE, [post])
    return counts.comments, len((await kith.comments_on(ALICE, post, "newest", PAGE)).comments)


async def together(kith: Services, seed: int, *steps: Coroutine[Any, Any, Any]) -> None:
    """Run these concurrently; at each row that is written, others run for a random number of turns."""
    chance, step = random.Random(seed), kith.records.step

    async def give_way() -> None:
        for _ in range(chance.choice((0, 0, 1, 2, 4, 9))):
            await asyncio.sleep(0)

    async def begun(one: Coroutine[Any, Any, Any]) -> None:
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        await answer(one)

    kith.records.step = give_way
    await asyncio.gather(*map(begun, steps))
    kith.records.step = step


def test_a_reply_that_counts_is_listed_though_its_comment_is_deleted_meanwhile() -> None:
    async def check(seed: int) -> bool:
        kith = await without_transactions(seed)
        post = await kith.write(ALICE)
        comment, _ = await kith.comments.create(BOB, post.id, "hello")
        reply = kith.comments.create(CAROL, post.id, "hello you", reply_to=comment.id)
        await together(kith, seed, reply, kith.comments.delete(BOB, comment.id))
        counted, listed = await shown(kith, post.id)
        return counted == listed  # the deleted comment stands above the reply, or both are gone

    assert not [seed for seed in range(300) if not run_coroutine(check(seed))]


@pytest.mark.parametrize("transactional", [True, False])
def test_a_repeated_deletion_lists_the_comment_for_a_reply_that_came_before_a_crash(
    run: Run, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    async def scene() -> tuple[object, tuple[int, int]]:
        kith = await (Services.over(ReferenceEdges()) if transactional else without_transactions())
        post, put = await kith.write(ALICE), kith.records.put
        comment, _ = await kith.comments.create(BOB, post.id, "hello")

        async def overtaken(*written: Any, **named: Any) -> Any:
            monkeypatch.setattr(kith.records, "put", put)
            await kith.comments.create(CAROL, post.id, "hello you", reply_to=comment.id)
            return await put(*written, **named)

        async def dies(*_: object) -> None:
            raise ProcessDied

        monkeypatch.setattr(kith.records, "put", overtaken)
        with monkeypatch.context() as patched:
            patched.setattr(kith.comments, "_prune", dies)
            with pytest.raises(ProcessDied):
                await kith.comments.delete(BOB, comment.id)
        repeated = await answer(kith.comments.delete(BOB, comment.id))
        return repeated, await shown(kith, post.id)

    assert run(scene()) == (CommentNotFound, (1, 1))


@pytest.mark.parametrize("beside", ["an edit", "a label", "its deletion"])
def test_lists_of_mentions_match_the_post_in_the_end(beside: str) -> None:
    async def check(seed: int) -> bool:
        kith = await without_transactions(seed)
        for user, name in ((BOB, "bob"), (CAROL, "carol")):
            await kith.profiles.change(user, lambda found, name=name: msgspec.structs.replace(found, username=name))
        post = await kith.write(ALICE, text="hello @bob")
        change = {
            "an edit": lambda: kith.posts.edit(ALICE, post.id, PostEdit(text="hello @bob again")),
            "a label": lambda: kith.moderation.set("post", post.id, 1, "why"),
            "its deletion": lambda: kith.posts.delete(ALICE, post.id),
        }[beside]
        await together(kith, seed, kith.posts.edit(ALICE, post.id, PostEdit(text="hello @carol")), change())
        (now,) = await kith.posts.read([post.id])
        edges = await kith.edges.get_many(kith.graph.graphs.number(MENTIONED), [(BOB, post.id), (CAROL, post.id)])
        listed = {edge.source for edge in edges if edge is not None and edge.state == State.NORMAL}
        return now is not None and listed == set(now.mentioned)

    assert not [seed for seed in range(300) if not run_coroutine(check(seed))]


def test_a_reply_that_is_deleted_before_it_is_counted_does_not_count(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> tuple[int, int]:
        kith = await without_transactions()
        post = await kith.write(ALICE)
        comment, _ = await kith.comments.create(BOB, post.id, "hello")
        counting, apply = kith.graph.graphs.number(POST_REPLIES), kith.edges.apply

        async def overtaken(writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
            if any(write.edge.graph == counting for write in writes):
                monkeypatch.setattr(kith.edges, "apply", apply)
                (reply,) = (await kith.replies_to(ALICE, comment.id, "newest", PAGE)).comments
                await kith.comments.delete(ALICE, reply.id)
            return await apply(writes)

        monkeypatch.setattr(kith.edges, "apply", overtaken)
        await kith.comments.create(CAROL, post.id, "spam", reply_to=comment.id)
        return await shown(kith, post.id)

    assert run(scene()) == (1, 1)


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("what", ["post", "comment", "board"])
def test_a_repetition_empties_nothing_though_its_author_is_deactivated(
    monkeypatch: pytest.MonkeyPatch, transactional: bool, what: str
) -> None:
    async def scene() -> tuple[type[KithError], bool]:
        kith = await (Services.over(ReferenceEdges()) if transactional else without_transactions())
        post, jobs, put = await kith.write(ALICE), account_jobs(kith.graph, own_leases()), kith.records.put

        async def make() -> int:
            if what == "post":
                return (await kith.posts.create(ALICE, Draft(text="mine"), "key")).post.id
            if what == "comment":
                return (await kith.comments.create(ALICE, post.id, "mine", key="key"))[0].id
            return (await kith.boards.create(ALICE, "mine", key="key")).board.id

        async def go(operation: NodeOperation) -> None:
            await jobs.start(operation, ALICE)
            await jobs.wait()

        async def overtaken(*written: Any, **named: Any) -> Any:
            monkeypatch.setattr(kith.records, "put", put)
            await go(NodeOperation.ARCHIVE)
            return await put(*written, **named)

        made = await make()
        monkeypatch.setattr(kith.records, "put", overtaken)
        repeated = await answer(make())
        await go(NodeOperation.RESTORE)
        read: Any = {"post": kith.posts.read, "comment": kith.comments.read, "board": kith.boards.reconciler.read}[what]
        (found,) = await read([made])
        return repeated, found.deleted

    with without_waits():
        assert run_coroutine(scene()) == (Forbidden, False)


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("what", ["an edit", "a label"])
def test_a_removed_account_keeps_no_post_that_was_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, transactional: bool, what: str
) -> None:
    async def scene() -> str | None:
        kith = await (Services.over(ReferenceEdges()) if transactional else without_transactions())
        post, put = await kith.write(ALICE), kith.records.put
        jobs = account_jobs(kith.graph, own_leases(), kith.posts.erase)

        async def overtaken(*written: Any, **named: Any) -> Any:
            monkeypatch.setattr(kith.records, "put", put)
            await kith.edges.change_node(ALICE, state=State.REMOVED)  # the first step of the job
            return await put(*written, **named)

        monkeypatch.setattr(kith.records, "put", overtaken)
        if what == "an edit":
            await kith.posts.edit(ALICE, post.id, PostEdit(text="a secret"))
        else:
            await kith.moderation.set("post", post.id, 1)
        await jobs.start(NodeOperation.REMOVE, ALICE)
        await jobs.wait()
        (found,) = await kith.posts.read([post.id])
        return None if found is None else found.text

    with without_waits():
        assert run_coroutine(scene()) == ""


@pytest.mark.parametrize("transactional", [True, False])
def test_an_edit_that_mentions_the_same_people_logs_no_mention(run: Run, transactional: bool) -> None:
    async def scene() -> int:
        kith = await (Services.over(ReferenceEdges()) if transactional else without_transactions())
        post = await kith.write(ALICE, mentions=(BOB, CAROL))
        before = len(kith.edges.events.all)
        await kith.posts.edit(ALICE, post.id, PostEdit(text="another text"))
        number = kith.graph.graphs.number(MENTIONED)
        return sum(event.graph == number for event in kith.edges.events.all[before:])

    assert run(scene()) == 0
