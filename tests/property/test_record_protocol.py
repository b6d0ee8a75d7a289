"""Records on an engine with conditions on single rows only: processes stop, repeat or compete between any two steps.

Each scenario runs once for every step of it. The result must equal that of an engine with transactions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import answer, run_coroutine
from reference_edges import ReferenceEdges
from reference_records import ReferenceRecords, RowRecords
from scrambled_edges import ScrambledEdges
from services import Services, no_images
from store_wrappers import ProcessDied

from kith.core.clock import HybridClock
from kith.core.errors import CommentNotFound, IdempotencyKeyReused, PostNotFound, UsernameTaken
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction
from kith.graph.graphs import NAMES
from kith.graph.shapes import Listing
from kith.people.privacy import SYSTEM
from kith.people.profiles import Profile, Profiles
from kith.posts.post import Draft, PostEdit

SKEWS_MS = (-3_600_000, 0, 3_600_000)
"""Offsets of the competing host's clock from the other host's, in ms."""
WHOLE = Window(100)
Change = Callable[["Scene"], Awaitable[Any]]


class Scene(NamedTuple):
    """Services with a post of Alice's, two comments and a username."""

    services: Services
    post: NodeId
    comment: NodeId
    reply: NodeId

    def named(self, user: NodeId, username: str, skew_ms: int = 0) -> Awaitable[Any]:
        """Let `user` take a name on a host with a clock that is off by `skew_ms`."""
        clock = HybridClock(FakeClock(self.services.clock.ms + skew_ms))
        profiles = Profiles(self.services.records, clock, no_images, self.services.graph.graphs.number(NAMES))
        return answer(profiles.change(user, lambda old: Profile(old.display_name, username=username)))

    async def left(self) -> object:
        """Everything that anybody can find, except for ids."""
        self.services.settle()
        posts, comments, profiles = self.services.posts, self.services.comments, self.services.profiles
        found: list[object] = []
        for user in (ALICE, BOB, CAROL):
            outbox, page = await posts.outbox(SYSTEM, user, WHOLE)
            mentioning, _ = await posts.mentioning(SYSTEM, user, WHOLE)
            (count,) = await self.services.edges.count_many([Listing(posts._authored, user, Direction.OUT)])
            found.append(([(post.text, post.mentions) for post in outbox], page.more_after, count))
            found.append([post.text for post in mentioning])
        if await answer(posts.get(SYSTEM, self.post)) is not PostNotFound:
            thread = await self.services.comments_on(SYSTEM, self.post, "oldest", WHOLE)
            shown = zip(thread.comments, thread.replies, strict=True)
            found.append([(one.text, one.deleted, [reply.text for reply, _ in replies]) for one, replies in shown])
            found.append(thread.total)
        said = await profiles.get_many([ALICE, BOB, CAROL])
        found.append([(one.username, one.bio) for one in said])
        found.append([await profiles.named(name) for name in ("ann", "anna", "ben")])
        found.append(await answer(comments.get(SYSTEM, self.comment)) is CommentNotFound)
        return found


async def scene_over(services: Services) -> Scene:
    post = NodeId((await services.posts.create(ALICE, Draft(text="look", mentions=(CAROL,)))).post.id)
    comment = NodeId((await services.comments.create(BOB, post, "well"))[0].id)
    reply = NodeId((await services.comments.create(CAROL, post, "no", comment))[0].id)
    await services.profiles.change(ALICE, lambda old: Profile(username="Ann"))
    services.settle()
    return Scene(services, post, comment, reply)


async def with_transactions() -> Scene:
    edges = ReferenceEdges()
    return await scene_over(await Services.over(edges, ReferenceRecords(edges)))


class Disturbed:
    """A scene on an engine without transactions. A disturbance happens before one of its steps."""

    def __init__(self) -> None:
        self.happened = False

    async def scene(self) -> Scene:
        edges = ScrambledEdges(seed=1)
        self._records = RowRecords(edges)
        return await scene_over(await Services.over(edges, self._records))

    def before(self, step: int, then: Callable[[], Awaitable[object]]) -> None:
        """From now on, let `then` happen before the step with this number, if there are so many steps."""
        made = 0

        async def disturbed() -> None:
            nonlocal made
            made += 1
            if made == step:
                self.over()
                self.happened = True
                await then()

        self._records.step = disturbed

    def over(self) -> None:
        """Disturb no further steps."""
        self._records.step = undisturbed


async def undisturbed() -> None:
    pass


async def stopping() -> None:
    raise ProcessDied


def every_step(scenario: Callable[[int], Awaitable[bool]]) -> int:
    """Run a scenario once for each of its steps; returns the number of steps."""
    step = 1
    while run_coroutine(scenario(step)):
        step += 1
    assert step > 3, "too few steps were disturbed"
    return step - 1


CHANGES: dict[str, Change] = {
    "post": lambda scene: scene.services.posts.create(ALICE, Draft(text="new", mentions=(BOB, CAROL)), "key"),
    "comment": lambda scene: scene.services.comments.create(BOB, scene.post, "more", None, "key"),
    "reply": lambda scene: scene.services.comments.create(ALICE, scene.post, "yes", scene.comment, "key"),
    "edit": lambda scene: scene.services.posts.edit(ALICE, scene.post, PostEdit(text="see")),
    "delete": lambda scene: answer(scene.services.posts.delete(ALICE, scene.post)),
    "delete a comment": lambda scene: answer(scene.services.comments.delete(BOB, scene.comment)),
    "delete a reply": lambda scene: answer(scene.services.comments.delete(CAROL, scene.reply)),
    "rename": lambda scene: scene.named(ALICE, "Anna"),
    "give a name up": lambda scene: scene.named(ALICE, ""),
    "bio": lambda scene: scene.services.profiles.change(BOB, lambda old: Profile(bio="hi")),
}
"""Changes that a client makes, and repeats if it got no answer."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_stops_anywhere_and_is_repeated_takes_effect_once(name: str) -> None:
    async def done_with_transactions() -> object:
        scene = await with_transactions()
        await CHANGES[name](scene)
        return await scene.left()

    expected = run_coroutine(done_with_transactions())

    async def scenario(step: int) -> bool:
        disturbed = Disturbed()
        scene = await disturbed.scene()
        disturbed.before(step, stopping)
        try:
            await CHANGES[name](scene)
        except ProcessDied:
            await CHANGES[name](scene)
        disturbed.over()
        assert await scene.left() == expected, f"stopped before step {step}"
        return disturbed.happened

    every_step(scenario)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("stops", [False, True], ids=["continues", "stops"])
def test_a_name_belongs_to_one_user_whatever_happens_between_two_steps(stops: bool, skew_ms: int) -> None:
    async def scenario(step: int) -> bool:
        disturbed = Disturbed()
        scene = await disturbed.scene()
        profiles, answers = scene.services.profiles, []

        async def bob_takes_it() -> None:
            answers.append((BOB, await scene.named(BOB, "BEN", skew_ms)))
            if stops:
                raise ProcessDied

        disturbed.before(step, bob_takes_it)
        with suppress(ProcessDied):
            answers.append((CAROL, await scene.named(CAROL, "Ben")))
        disturbed.over()
        said = [one.username.lower() for one in await profiles.get_many([BOB, CAROL])]
        holders = [user for user, name in zip((BOB, CAROL), said, strict=True) if name]
        assert holders == [user for user in [await profiles.named("ben")] if user is not None]
        assert len(holders) == 1, f"at step {step}: {answers}"
        assert all((one is UsernameTaken) == (user not in holders) for user, one in answers)
        assert await scene.named(ALICE, "ben") is UsernameTaken
        await scene.named(holders[0], "")
        assert await scene.named(ALICE, "ben") is not UsernameTaken, "the name is free again"
        return disturbed.happened

    every_step(scenario)


@pytest.mark.parametrize("text", ["new", "other"])
@pytest.mark.parametrize("stops", [False, True], ids=["continues", "stops"])
def test_an_idempotency_key_creates_one_post(stops: bool, text: str) -> None:
    async def scenario(step: int) -> bool:
        disturbed = Disturbed()
        scene = await disturbed.scene()
        posts, answers = scene.services.posts, []

        async def again(text: str) -> None:
            written = await answer(posts.create(BOB, Draft(text=text), "key"))
            answers.append(written if isinstance(written, type) else written.post)

        async def compete() -> None:
            await again(text)
            if stops:
                raise ProcessDied

        disturbed.before(step, compete)
        try:
            await again("new")
        except ProcessDied:
            await again("new")
        disturbed.over()
        scene.services.settle()
        outbox, _ = await posts.outbox(SYSTEM, BOB, WHOLE)
        made = [one for one in answers if one is not IdempotencyKeyReused]
        assert outbox == made[:1]
        assert all(one == made[0] for one in made)
        assert text == "new" or not disturbed.happened or len(made) == 1
        return disturbed.happened

    every_step(scenario)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_no_change_is_lost(skew_ms: int) -> None:
    async def scenario(step: int) -> bool:
        disturbed = Disturbed()
        scene = await disturbed.scene()
        posts, profiles = scene.services.posts, scene.services.profiles
        clock = HybridClock(FakeClock(scene.services.clock.ms + skew_ms))
        others = Profiles(scene.services.records, clock, no_images, scene.services.graph.graphs.number(NAMES))

        async def others_change() -> None:
            await posts.edit(ALICE, scene.post, PostEdit(link="https://example.com/"))
            await others.change(BOB, lambda old: Profile(old.display_name, "hi", username=old.username))

        disturbed.before(step, others_change)
        await posts.edit(ALICE, scene.post, PostEdit(text="see"))
        await profiles.change(BOB, lambda old: Profile("Bob", old.bio, username="Ben"))
        disturbed.over()
        post, (said,) = await posts.get(BOB, scene.post), await profiles.get_many([BOB])
        assert (post.text, said.display_name, said.username) == ("see", "Bob", "Ben")
        if disturbed.happened:
            assert (post.link, said.bio) == ("https://example.com/", "hi")
        return disturbed.happened

    every_step(scenario)


def test_a_post_deleted_between_two_steps_of_an_edit_stays_deleted_and_hidden() -> None:
    async def scenario(step: int) -> bool:
        disturbed = Disturbed()
        scene = await disturbed.scene()
        posts = scene.services.posts

        async def delete() -> None:
            await posts.delete(ALICE, scene.post)

        disturbed.before(step, delete)
        edited = await answer(posts.edit(ALICE, scene.post, PostEdit(text="see", mentions=(BOB,))))
        disturbed.over()
        scene.services.settle()
        if not disturbed.happened:
            return False
        assert await answer(posts.get(SYSTEM, scene.post)) is PostNotFound, edited
        for user in (ALICE, BOB, CAROL):
            assert (await posts.outbox(SYSTEM, user, WHOLE))[0] == []
            assert (await posts.mentioning(SYSTEM, user, WHOLE))[0] == []
        return True

    every_step(scenario)
