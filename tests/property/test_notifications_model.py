"""For any history, every inbox lists what a naive model lists, and the unread count is that of the list.

Users act, write, undo, hide and read. The worker dies, and events are repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cast import FakeClock
from coroutines import answer
from engines import Engine
from notification_world import NotificationWorld
from random_histories import run_history
from store_types import EngineStores

from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import State
from kith.graph.graphs import LIKES, SHARES
from kith.notifications.notice import Notice
from kith.notifications.preferences import Preferences
from kith.people.profiles import Profile
from kith.posts.post import PostEdit

PORT = "whole"
PEOPLE = [NodeId(user) for user in range(1, 6)]
MOMENTS = 150
PAGES_MAX = 500


class Died(Exception):
    """Raised where the worker dies."""


class Dying:
    """A store of a worker that may die before and after each call, while it is `armed`."""

    def __init__(self, store: Any, dies: Callable[[], None]) -> None:
        self._store, self._dies = store, dies

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("put", "add", "remove", "claimed"):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            self._dies()
            answered = await found(*arguments, **named)
            self._dies()
            return answered

        return call


class NoticeKey(NamedTuple):
    """A notice without its id and time."""

    type: str
    actor: int
    recipient: int
    post: int | None = None
    comment: int | None = None


class CommentFacts(NamedTuple):
    """A comment."""

    author: int
    post: int
    above: int | None


class Naive:
    """The current state as sets and dictionaries, and which notices each user got."""

    def __init__(self) -> None:
        self.follows, self.requests = set[tuple[int, int]](), set[tuple[int, int]]()
        self.blocks, self.mutes = set[tuple[int, int]](), set[tuple[int, int]]()
        self.private, self.gone = set[int](), set[int]()
        self.posts: dict[int, tuple[int, str, tuple[int, ...]]] = {}  # author, visibility, mentions
        self.comments: dict[int, CommentFacts] = {}
        self.deleted = set[int]()
        self.edges = set[tuple[str, int, int]]()
        self.wants = {int(user): Preferences() for user in PEOPLE}
        self.pending: list[tuple[NoticeKey, ...]] = []  # for each notice its possible reasons, the first one first
        self.told: dict[int, list[NoticeKey]] = {int(user): [] for user in PEOPLE}

    def apart(self, one: int, other: int) -> bool:
        return (one, other) in self.blocks or (other, one) in self.blocks

    def sees(self, viewer: int, post: int) -> bool:
        author, visibility, _ = self.posts[post]
        if post in self.deleted or author in self.gone:
            return False
        if viewer == author:
            return True
        if self.apart(viewer, author) or (author in self.private and (viewer, author) not in self.follows):
            return False
        return visibility == "public" or (
            visibility == "friends" and {(viewer, author), (author, viewer)} <= self.follows
        )

    def reads(self, viewer: int, comment: int) -> bool:
        said = self.comments[comment]
        if comment in self.deleted or said.author in self.gone or self.apart(viewer, said.author):
            return False
        while (above := said.above) is not None:
            said = self.comments[above]
            stays = above in self.deleted or said.author in self.gone  # as a stub that keeps its replies
            if not stays and self.apart(viewer, said.author):
                return False
        return True

    def shows(self, one: NoticeKey) -> bool:
        user, actor = one.recipient, one.actor
        wants = self.wants[user].allow(one.type, actor, user, user)  # type: ignore[arg-type]
        return wants and (user, actor) not in self.mutes and self.may_show(one)

    def may_show(self, one: NoticeKey) -> bool:
        """Whether the notice may be shown, apart from its recipient's own settings."""
        user, actor = one.recipient, one.actor
        if user == actor or actor in self.gone or self.apart(user, actor):
            return False
        if one.post is not None and not self.sees(user, one.post):
            return False
        if one.comment is not None and not self.reads(user, one.comment):
            return False
        match one.type:
            case "like" | "share":
                return (one.type, actor, one.post if one.comment is None else one.comment) in self.edges
            case "mention" if one.comment is None and one.post is not None:
                return user in self.posts[one.post][2]
            case "follow":
                return (actor, user) in self.follows
            case "follow_request":
                return (actor, user) in self.requests
            case "follow_accepted":
                return (user, actor) in self.follows
            case _:
                return True

    def handle(self) -> None:
        for reasons in self.pending:
            told = self.told[reasons[0].recipient]
            there = [one for one in reasons if one.recipient not in self.gone]
            shown = [one for one in there if self.shows(one)]
            shown += [one for one in there if one.type == "mention" and self.may_show(one)]
            if shown and not {*reasons} & {*told}:
                told.append(shown[0])
        self.pending.clear()


class History:
    """Random actions, on Kith and on the model alike."""

    def __init__(self, seed: int) -> None:
        self.chosen, self.clock, self.naive = random.Random(seed), FakeClock(), Naive()
        self.armed, self.deaths = False, 0
        self.read: dict[int, set[NoticeKey]] = {int(user): set() for user in PEOPLE}

    def dies(self) -> None:
        if self.armed and self.chosen.random() < 0.08:
            self.deaths += 1
            raise Died

    async def begin(self, whole: EngineStores) -> None:
        self.world = await NotificationWorld.over(whole, self.clock)
        self.world.notices.records = Dying(whole.records, self.dies)  # type: ignore[assignment]
        self.world.notices.inbox = Dying(self.world.inbox, self.dies)  # type: ignore[assignment]
        if not whole.records.transactional:

            async def step() -> None:
                self.dies()

            whole.records._store.step = step  # type: ignore[attr-defined]
        for user in PEOPLE:
            await self.world.services.profiles.change(user, lambda _, user=user: Profile(username=f"user{user}"))

    async def handle(self) -> None:
        """Let the worker handle all events. Now and then it dies and is restarted."""
        at, self.armed = self.world._handled_to, True
        while True:
            try:
                await self.world.handle(self.chosen.randint(1, 3))
                break
            except Died:
                self.world._handled_to = at
        self.armed = False
        self.naive.handle()

    async def act(self) -> None:
        one, other = self.chosen.sample([user for user in PEOPLE if user not in self.naive.gone], 2)
        act = self.chosen.choice([self.follow, self.relate, self.write, self.write, self.say, self.say, self.engage])
        await act(one, other)
        if self.chosen.random() < 0.3:
            await self.chosen.choice([self.change, self.want, self.mark])(one, other)
        if self.chosen.random() < 0.004 and len(self.naive.gone) < 2:
            await self.world.services.edges.change_node(one, state=State.REMOVED)
            self.naive.gone.add(int(one))

    async def follow(self, one: NodeId, other: NodeId) -> None:
        naive, people, pair = self.naive, self.world.people, (int(one), int(other))
        if pair in naive.requests and other in naive.private:
            await people.accept(other, one)
            naive.pending.append((NoticeKey("follow_accepted", other, one),))
        elif naive.apart(*pair) or pair in naive.requests:
            return
        elif pair in naive.follows:
            await people.unfollow(one, other)
            naive.follows.discard(pair)
            return
        elif other in naive.private:
            await people.follow(one, other)
            naive.requests.add(pair)
            naive.pending.append((NoticeKey("follow_request", one, other),))
            return
        else:
            await people.follow(one, other)
            naive.pending.append((NoticeKey("follow", one, other),))
        naive.requests.discard(pair)
        naive.follows.add(pair)
        await self.handle()  # whether a follow answers a request is decided when its event is handled

    async def relate(self, one: NodeId, other: NodeId) -> None:
        naive, people, pair = self.naive, self.world.people, (int(one), int(other))
        match self.chosen.randrange(4):
            case 0 if pair in naive.blocks:
                await people.unblock(one, other)
                naive.blocks.discard(pair)
            case 0 | 1 if self.chosen.random() < 0.4:
                await people.block(one, other)
                naive.blocks.add(pair)
                naive.follows -= {pair, pair[::-1]}
                naive.requests -= {pair, pair[::-1]}
            case 2:
                await (people.unmute if pair in naive.mutes else people.mute)(one, other)
                naive.mutes ^= {pair}
            case 3:
                await self.world.services.edges.change_node(one, private=one not in naive.private)
                naive.private ^= {int(one)}

    async def write(self, one: NodeId, other: NodeId) -> None:
        visibility = self.chosen.choice(("public", "public", "friends", "private"))
        text, mentions = self.chosen.choice((("hello", (int(other),)), (f"hello @user{other}", ())))
        post = await self.world.services.write(one, text=text, mentions=mentions, visibility=visibility)
        self.naive.posts[post.id] = (int(one), visibility, (int(other),))
        self.naive.pending.append((NoticeKey("mention", one, other, post.id),))

    async def say(self, one: NodeId, other: NodeId) -> None:
        naive = self.naive
        above = self.chosen.choice([None, *list(naive.comments)[-5:]])
        post = next(reversed(naive.posts), None) if above is None else naive.comments[above].post
        if post is None:
            return
        authors = [naive.posts[post][0], *([] if above is None else [naive.comments[above].author])]
        named = self.chosen.choice((None, int(other), *authors))
        text = "well" if named is None else f"well, @user{named}"
        made = await answer(
            self.world.comments.create(one, NodeId(post), text, None if above is None else NodeId(above))
        )
        if not isinstance(made, tuple):
            return
        comment = made[0].id
        naive.comments[comment] = CommentFacts(int(one), post, above)
        reasons = [("mention", named), ("reply", None if above is None else authors[1]), ("comment", authors[0])]
        for user in {user for _, user in reasons if user is not None}:
            naive.pending.append(
                tuple(NoticeKey(type_, one, user, post, comment) for type_, to in reasons if to == user)
            )

    async def engage(self, one: NodeId, _: NodeId) -> None:
        naive, engagement = self.naive, self.world.services.engagement
        kind, graph = self.chosen.choice((("like", LIKES), ("share", SHARES)))
        if naive.comments and self.chosen.random() < 0.3:
            comment = self.chosen.choice(list(naive.comments))
            edge, said = ("like", int(one), comment), naive.comments[comment]
            if edge in naive.edges:
                await answer(self.world.comments.unlike(one, NodeId(comment)))
                naive.edges.discard(edge)
            elif not isinstance(await answer(self.world.comments.like(one, NodeId(comment))), type):
                naive.edges.add(edge)
                naive.pending.append((NoticeKey("like", one, said.author, said.post, comment),))
        elif naive.posts:
            post = self.chosen.choice(list(naive.posts)[-5:])
            edge = (kind, int(one), post)
            if edge in naive.edges:
                await answer(engagement.drop(graph, one, NodeId(post)))
                naive.edges.discard(edge)
            elif not isinstance(await answer(engagement.add(graph, one, NodeId(post))), type):
                naive.edges.add(edge)
                naive.pending.append((NoticeKey(kind, one, naive.posts[post][0], post),))

    async def change(self, one: NodeId, other: NodeId) -> None:
        """Let an author change what they made."""
        naive = self.naive
        posts = [post for post, (author, _, _) in naive.posts.items() if author == one and post not in naive.deleted]
        comments = [id_ for id_, said in naive.comments.items() if said.author == one and id_ not in naive.deleted]
        if comments and self.chosen.random() < 0.4:
            gone = self.chosen.choice(comments)
            await self.world.comments.delete(one, NodeId(gone))
            naive.deleted.add(gone)
        elif posts and self.chosen.random() < 0.3:
            gone = self.chosen.choice(posts)
            await self.world.posts.delete(one, NodeId(gone))
            naive.deleted.add(gone)
        elif posts:
            post, visibility = self.chosen.choice(posts), self.chosen.choice(("public", "private"))
            edit = PostEdit(text="else", mentions=(int(other),), visibility=visibility)  # type: ignore[arg-type]
            await self.world.posts.edit(one, NodeId(post), edit)
            if other not in naive.posts[post][2]:
                naive.pending.append((NoticeKey("mention", one, other, post),))
            naive.posts[post] = (int(one), visibility, (int(other),))

    async def want(self, one: NodeId, other: NodeId) -> None:
        wanted = self.chosen.choice(
            (
                Preferences(),
                Preferences(off=("like",)),
                Preferences(mentions="none"),
                Preferences(accounts_off=(other,)),
            )
        )
        await self.world.preferences.put(one, wanted)
        self.naive.wants[int(one)] = wanted

    async def mark(self, one: NodeId, _: NodeId) -> None:
        listed = await self.world.listed(one)
        if not listed:
            return
        some = self.chosen.choice(listed)
        if self.chosen.random() < 0.5:
            await self.world.notifications.read(one, [some.id])
            self.read[int(one)].add(key_of(some))
        else:
            await self.world.notifications.read_up_to(one, some.id)
            rows = [row for user, row in self.world.rows.rows if user == one and row <= some.id]
            there = await self.world.notices.read(rows)
            self.read[int(one)] |= {key_of(notice) for notice in there if notice is not None}

    async def check(self) -> None:
        """Compare the inbox of a random user, in pages of random size, grouped or not."""
        user = self.chosen.choice([user for user in PEOPLE if user not in self.naive.gone])
        expected = {one for one in self.naive.told[int(user)] if self.naive.shows(one)}
        listed = await self.world.listed(user)
        assert {key_of(one) for one in listed} == expected
        assert len(listed) == len(expected), "nobody is notified twice"
        unread = await self.world.notifications.unread(user)
        assert unread == (len(expected - self.read[int(user)]), False)
        grouped, window = self.chosen.random() < 0.5, Window(self.chosen.randint(1, 4))
        walked: list[Notice] = []
        for _ in range(PAGES_MAX):
            found = await self.world.notifications.page(user, window, grouped=grouped)
            assert found.unread == unread, "the unread count is on each page"
            walked += [notice for entry in found.entries for notice in entry.notices]
            if not found.page.more_after:
                break
            if found.page.more_before and found.page.newest is not None:
                back = await self.world.notifications.page(user, Window(3, before=found.page.newest), grouped=grouped)
                assert all(entry.notices[0].id > found.page.newest.id for entry in back.entries)
            window = Window(self.chosen.randint(1, 4), after=found.page.oldest)
        assert sorted(one.id for one in walked) == sorted(one.id for one in listed)

    async def live(self) -> None:
        for _ in range(MOMENTS):
            self.clock.ms += self.chosen.choice((0, 1, 1_000))
            await self.act()
            if self.chosen.random() < 0.4:
                await self.handle()
            self.world.whole.settle()
            await self.check()
        assert self.deaths > 0


def key_of(notice: Notice) -> NoticeKey:
    return NoticeKey(notice.type, notice.actor, notice.recipient, notice.post, notice.comment)


@pytest.mark.parametrize("seed", range(6))
def test_inboxes_equal_a_naive_model(tmp_path: Path, engine: Engine, seed: int) -> None:
    run_history(History(seed), engine, tmp_path)
