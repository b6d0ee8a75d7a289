"""Mentions that are stored though nobody sees them: the recipient hides them or is away, or a store refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from cast import ALICE, BOB
from coroutines import Run
from interleaving import finished
from notification_world import NotificationWorld
from reference_leases import own_leases

from kith.core.errors import Overloaded
from kith.core.ids import NodeId
from kith.graph.node_jobs import NodeOperation
from kith.notifications.preferences import CACHED_MS, Preferences
from kith.people.removal import account_jobs
from kith.posts.post import PostEdit

Act = Callable[[NotificationWorld], Awaitable[None]]


async def mention(world: NotificationWorld) -> None:
    await world.services.write(BOB, text="hello", mentions=(ALICE,))


async def _mute(world: NotificationWorld) -> None:
    await world.people.mute(ALICE, BOB)


def test_a_store_that_refuses_for_hours_gets_one_row_in_the_end(
    run: Run, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await mention(world)
        put = world.notices.records.put_many

        async def refuses(*_: object) -> None:
            raise Overloaded("not now")

        monkeypatch.setattr(world.notices.records, "put_many", refuses)
        for _ in range(20):
            world.services.clock.ms += 5_000
            with pytest.raises(Overloaded):
                await world.handle()
        monkeypatch.setattr(world.notices.records, "put_many", put)
        await world.handle(times=2)
        assert await world.types_and_actors(ALICE) == [("mention", BOB)]
        assert [user for user, _ in world.rows.rows] == [ALICE]

    run(scenario())


async def _want_none(world: NotificationWorld) -> None:
    await world.preferences.put(ALICE, Preferences(mentions="none"))


async def _want_nothing_of_bob(world: NotificationWorld) -> None:
    await world.preferences.put(ALICE, Preferences(accounts_off=(BOB,)))


HIDING: list[Act] = [_mute, _want_none, _want_nothing_of_bob]


@pytest.mark.parametrize("hide", HIDING)
def test_notices_of_followers_do_not_reveal_whom_the_mentioned_user_muted(
    run: Run, world: NotificationWorld, hide: Act
) -> None:
    """Followers are notified from the mentioned account's notice, which is stored even if that account hides it."""

    async def scenario() -> None:
        await hide(world)
        world.services.clock.ms += 2 * CACHED_MS
        await mention(world)
        await world.handle(times=2)
        assert await world.types_and_actors(ALICE) == []
        (notice,) = [notice for user, notice in world.rows.rows if user == ALICE]
        (stored,) = await world.notices.read([notice])
        assert stored is not None
        assert (stored.type, stored.actor) == ("mention", BOB)
        await world.people.unmute(ALICE, BOB)
        await world.preferences.put(ALICE, Preferences())
        assert await world.types_and_actors(ALICE) == [("mention", BOB)], (
            "what is hidden comes back when the reason ends"
        )

    run(scenario())


@pytest.mark.parametrize("when", ["while they are away", "in a draft that is published while they are away"])
def test_a_mention_of_a_deactivated_user_is_shown_when_they_come_back(
    run: Run, world: NotificationWorld, when: str
) -> None:
    async def scenario() -> None:
        jobs = account_jobs(world.services.graph, own_leases())
        if when == "while they are away":
            await finished(jobs, NodeOperation.ARCHIVE, ALICE)
            await mention(world)
        else:
            draft = await world.services.write(BOB, text="hello", mentions=(ALICE,), visibility="private")
            await world.handle()
            await finished(jobs, NodeOperation.ARCHIVE, ALICE)
            await world.posts.edit(BOB, NodeId(draft.id), PostEdit(visibility="public"))
        await world.handle(times=2)
        await finished(jobs, NodeOperation.RESTORE, ALICE)
        await world.handle(times=2)
        assert await world.types_and_actors(ALICE) == [("mention", BOB)]
        await jobs.close()

    run(scenario())
