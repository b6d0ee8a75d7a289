"""Whom an edit of a post notifies."""

from __future__ import annotations

from cast import ALICE, BOB, CAROL
from coroutines import Run
from notification_world import NotificationWorld

from kith.core.ids import NodeId
from kith.notifications.inbox import PERIOD_MS
from kith.notifications.notice import NOTICE_KEPT_MS
from kith.posts.post import PostEdit


def test_a_draft_that_an_edit_publishes_notifies_those_it_mentions_once(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        post = NodeId((await world.services.write(BOB, text="hello", mentions=(ALICE,), visibility="private")).id)
        await world.handle()
        await world.posts.edit(BOB, post, PostEdit(text="hello again"))
        await world.handle()
        assert await world.types_and_actors(ALICE) == []
        for visibility in ("custom", "public", "private", "public"):
            audience = (CAROL,) if visibility == "custom" else ()
            await world.posts.edit(BOB, post, PostEdit(visibility=visibility, audience=audience))
            await world.handle(times=2)
            expected = [("mention", BOB)] if visibility == "public" else []
            assert await world.types_and_actors(ALICE) == expected, visibility

    run(scenario())


def test_an_edit_of_who_may_see_an_old_post_notifies_nobody_again(run: Run, world: NotificationWorld) -> None:
    """That somebody was notified of a mention is not known for ever."""

    async def scenario() -> None:
        post = NodeId((await world.services.write(BOB, text="hello", mentions=(ALICE,))).id)
        await world.handle()
        world.services.clock.ms += NOTICE_KEPT_MS + PERIOD_MS
        await world.notices.expire(world.services.clock.ms - NOTICE_KEPT_MS)
        await world.posts.edit(BOB, post, PostEdit(visibility="custom", audience=(ALICE,)))
        await world.handle()
        assert await world.types_and_actors(ALICE) == []
        await world.posts.edit(BOB, post, PostEdit(mentions=(ALICE, CAROL), audience=(ALICE, CAROL)))
        await world.handle()
        assert await world.types_and_actors(CAROL) == [("mention", BOB)], "a new mention notifies"

    run(scenario())
