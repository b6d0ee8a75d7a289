"""Records on an engine with conditions on single rows only: whoever stops, repeats or competes between any two steps.

Each story is told once for every step of it. What is left is what an engine with transactions has left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import answer, run_all
from distant import Stopped
from reference_edges import ReferenceEdges
from reference_records import ReferenceRecords, RowRecords
from scrambled_edges import ScrambledEdges
from services import Services, no_images

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
"""How far the clock of the host that competes is from the other's."""
WHOLE = Window(100)
Change = Callable[["Room"], Awaitable[Any]]


class Room(NamedTuple):
    """Services with a post of Alice's, two comments and a name in them."""

    services: Services
    post: NodeId
    comment: NodeId
    reply: NodeId

    def named(self, user: NodeId, username: str, skew_ms: int = 0) -> Awaitable[Any]:
        """`user` takes a name, on a host whose clock is so far from the others'."""
        clock = HybridClock(FakeClock(self.services.clock.ms + skew_ms))
        profiles = Profiles(self.services.records, clock, no_images, self.services.graph.graphs.number(NAMES))
        return answer(profiles.change(user, lambda old: Profile(old.display_name, username=username)))

    async def left(self) -> object:
        """All that anybody can find, whatever ids it has."""
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


async def room_over(services: Services) -> Room:
    post = NodeId((await services.posts.create(ALICE, Draft(text="look", mentions=(CAROL,)))).post.id)
    comment = NodeId((await services.comments.create(BOB, post, "well"))[0].id)
    reply = NodeId((await services.comments.create(CAROL, post, "no", comment))[0].id)
    await services.profiles.change(ALICE, lambda old: Profile(username="Ann"))
    services.settle()
    return Room(services, post, comment, reply)


async def with_transactions() -> Room:
    edges = ReferenceEdges()
    return await room_over(await Services.over(edges, ReferenceRecords(edges)))


class Disturbed:
    """A room over single rows, in which at one step of what is done there something else happens."""

    def __init__(self) -> None:
        self.happened = False

    async def room(self) -> Room:
        edges = ScrambledEdges(seed=1)
        self._records = RowRecords(edges)
        return await room_over(await Services.over(edges, self._records))

    def before(self, step: int, then: Callable[[], Awaitable[object]]) -> None:
        """From here on, `then` happens before the step with this number, if there are so many."""
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
        """Nothing happens any more."""
        self._records.step = undisturbed


async def undisturbed() -> None:
    pass


async def stopping() -> None:
    raise Stopped


def every_step(story: Callable[[int], Awaitable[bool]]) -> int:
    """Tell a story for each step of it, until it has no such step; returns how many it had."""
    step = 1
    while run_all(story(step)):
        step += 1
    assert step > 3, "nothing was disturbed"
    return step - 1


CHANGES: dict[str, Change] = {
    "post": lambda room: room.services.posts.create(ALICE, Draft(text="new", mentions=(BOB, CAROL)), "key"),
    "comment": lambda room: room.services.comments.create(BOB, room.post, "more", None, "key"),
    "reply": lambda room: room.services.comments.create(ALICE, room.post, "yes", room.comment, "key"),
    "edit": lambda room: room.services.posts.edit(ALICE, room.post, PostEdit(text="see")),
    "delete": lambda room: answer(room.services.posts.delete(ALICE, room.post)),
    "delete a comment": lambda room: answer(room.services.comments.delete(BOB, room.comment)),
    "delete a reply": lambda room: answer(room.services.comments.delete(CAROL, room.reply)),
    "rename": lambda room: room.named(ALICE, "Anna"),
    "give a name up": lambda room: room.named(ALICE, ""),
    "bio": lambda room: room.services.profiles.change(BOB, lambda old: Profile(bio="hi")),
}
"""What somebody does, and does again if they heard no answer."""


@pytest.mark.parametrize("name", CHANGES)
def test_who_stops_anywhere_and_repeats_has_done_it_once(name: str) -> None:
    async def done_with_transactions() -> object:
        room = await with_transactions()
        await CHANGES[name](room)
        return await room.left()

    expected = run_all(done_with_transactions())

    async def story(step: int) -> bool:
        disturbed = Disturbed()
        room = await disturbed.room()
        disturbed.before(step, stopping)
        try:
            await CHANGES[name](room)
        except Stopped:
            await CHANGES[name](room)
        disturbed.over()
        assert await room.left() == expected, f"stopped before step {step}"
        return disturbed.happened

    every_step(story)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("stops", [False, True], ids=["goes on", "stops"])
def test_a_name_is_one_users_whatever_happens_between_two_steps_and_whatever_clocks_say(
    stops: bool, skew_ms: int
) -> None:
    async def story(step: int) -> bool:
        disturbed = Disturbed()
        room = await disturbed.room()
        profiles, answers = room.services.profiles, []

        async def bob_takes_it() -> None:
            answers.append((BOB, await room.named(BOB, "BEN", skew_ms)))
            if stops:
                raise Stopped

        disturbed.before(step, bob_takes_it)
        with suppress(Stopped):
            answers.append((CAROL, await room.named(CAROL, "Ben")))
        disturbed.over()
        said = [one.username.lower() for one in await profiles.get_many([BOB, CAROL])]
        holders = [user for user, name in zip((BOB, CAROL), said, strict=True) if name]
        assert holders == [user for user in [await profiles.named("ben")] if user is not None]
        assert len(holders) == 1, f"at step {step}: {answers}"
        assert all((one is UsernameTaken) == (user not in holders) for user, one in answers)
        assert await room.named(ALICE, "ben") is UsernameTaken
        await room.named(holders[0], "")
        assert await room.named(ALICE, "ben") is not UsernameTaken, "it was given up"
        return disturbed.happened

    every_step(story)


@pytest.mark.parametrize("text", ["new", "other"])
@pytest.mark.parametrize("stops", [False, True], ids=["goes on", "stops"])
def test_a_key_is_used_once(stops: bool, text: str) -> None:
    async def story(step: int) -> bool:
        disturbed = Disturbed()
        room = await disturbed.room()
        posts, answers = room.services.posts, []

        async def again(text: str) -> None:
            written = await answer(posts.create(BOB, Draft(text=text), "key"))
            answers.append(written if isinstance(written, type) else written.post)

        async def compete() -> None:
            await again(text)
            if stops:
                raise Stopped

        disturbed.before(step, compete)
        try:
            await again("new")
        except Stopped:
            await again("new")
        disturbed.over()
        room.services.settle()
        outbox, _ = await posts.outbox(SYSTEM, BOB, WHOLE)
        made = [one for one in answers if one is not IdempotencyKeyReused]
        assert outbox == made[:1]
        assert all(one == made[0] for one in made)
        assert text == "new" or not disturbed.happened or len(made) == 1
        return disturbed.happened

    every_step(story)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_no_change_is_lost(skew_ms: int) -> None:
    async def story(step: int) -> bool:
        disturbed = Disturbed()
        room = await disturbed.room()
        posts, profiles = room.services.posts, room.services.profiles
        clock = HybridClock(FakeClock(room.services.clock.ms + skew_ms))
        others = Profiles(room.services.records, clock, no_images, room.services.graph.graphs.number(NAMES))

        async def others_change() -> None:
            await posts.edit(ALICE, room.post, PostEdit(link="https://example.com/"))
            await others.change(BOB, lambda old: Profile(old.display_name, "hi", username=old.username))

        disturbed.before(step, others_change)
        await posts.edit(ALICE, room.post, PostEdit(text="see"))
        await profiles.change(BOB, lambda old: Profile("Bob", old.bio, username="Ben"))
        disturbed.over()
        post, (said,) = await posts.get(BOB, room.post), await profiles.get_many([BOB])
        assert (post.text, said.display_name, said.username) == ("see", "Bob", "Ben")
        if disturbed.happened:
            assert (post.link, said.bio) == ("https://example.com/", "hi")
        return disturbed.happened

    every_step(story)


def test_what_is_deleted_stays_so_and_nothing_of_it_is_seen_whatever_happens_between_two_steps() -> None:
    async def story(step: int) -> bool:
        disturbed = Disturbed()
        room = await disturbed.room()
        posts = room.services.posts

        async def delete() -> None:
            await posts.delete(ALICE, room.post)

        disturbed.before(step, delete)
        edited = await answer(posts.edit(ALICE, room.post, PostEdit(text="see", mentions=(BOB,))))
        disturbed.over()
        room.services.settle()
        if not disturbed.happened:
            return False
        assert await answer(posts.get(SYSTEM, room.post)) is PostNotFound, edited
        for user in (ALICE, BOB, CAROL):
            assert (await posts.outbox(SYSTEM, user, WHOLE))[0] == []
            assert (await posts.mentioning(SYSTEM, user, WHOLE))[0] == []
        return True

    every_step(story)
