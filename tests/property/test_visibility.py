"""For any history of follows, blocks, privacy, deactivation and labels, everybody sees what a naive model shows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from coroutines import run_coroutine
from embedded_engine import open_embedded_stores
from services import Services
from store_types import Stores

from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT
from kith.core.paging import Window
from kith.graph.edge import State
from kith.people.privacy import SYSTEM, Viewer
from kith.posts.post import Draft, PostEdit

PEOPLE = [NodeId(user) for user in range(1, 6)]
MOMENTS = 300


class Naive:
    """All past actions, as sets and dictionaries."""

    def __init__(self) -> None:
        self.follows: set[tuple[Any, int]] = set()
        self.blocks: set[tuple[Any, Any]] = set()
        self.private: set[int] = set()
        self.away: set[int] = set()
        self.labels: dict[Any, int] = {}  # ("post" or "user", id) -> bits
        self.posts: dict[int, tuple[int, str, tuple[int, ...]]] = {}  # id -> author, visibility, audience
        self.comments: dict[int, tuple[int, int]] = {}  # id -> post, author

    def on(self, post: int) -> int:
        """The labels of a post and of its author."""
        return self.labels.get(("post", post), 0) | self.by(self.posts[post][0])

    def by(self, user: int) -> int:
        """The labels of a user."""
        return self.labels.get(("user", user), 0)

    def kept_from(self, viewer: Viewer | int, author: int, labels: int) -> bool:
        """Whether `author`'s content is hidden from the viewer, whatever its own visibility."""
        return (
            author in self.away
            or (viewer, author) in self.blocks
            or (author, viewer) in self.blocks
            or bool(labels & HIDE)
            or (bool(labels & LIMIT) and (viewer, author) not in self.follows)
        )

    def sees(self, viewer: Viewer | int, post: int) -> bool:
        author, visibility, audience = self.posts[post]
        if viewer in (SYSTEM, author):
            return True
        follows = (viewer, author) in self.follows
        if self.kept_from(viewer, author, self.on(post)) or (author in self.private and not follows):
            return False
        friends = follows and (author, viewer) in self.follows
        return {"public": True, "friends": friends, "custom": viewer in audience, "private": False}[visibility]

    def reads(self, viewer: Viewer | int, comment: int) -> bool:
        """Whether a viewer who sees the post sees the comment."""
        _, author = self.comments[comment]
        if viewer is None and author in self.private:
            return False
        return viewer in (SYSTEM, author) or not self.kept_from(viewer, author, self.by(author))


class History:
    """Random actions, on the services and on the model alike."""

    def __init__(self, chosen: random.Random, services: Services) -> None:
        self.chosen, self.services, self.clock = chosen, services, services.clock
        self.graph, self.posts = services.graph, services.posts
        self.comments, self.moderation, self.naive = services.comments, services.moderation, Naive()
        self.shown = self.kept = 0

    async def act(self) -> None:
        """Do one random action."""
        chosen, naive = self.chosen, self.naive
        one, other = chosen.sample(PEOPLE, 2)
        pair = (int(one), int(other))
        barred = pair in naive.blocks or pair[::-1] in naive.blocks
        match chosen.randrange(16):
            case 0 | 1 if not barred and not naive.away & set(pair) and other not in naive.private:
                await self.graph.people.follow(one, other)
                naive.follows.add(pair)
            case 2:
                await self.graph.people.unfollow(one, other)
                naive.follows.discard(pair)
            case 3 if pair in naive.blocks or self.rarely():
                await (self.graph.people.unblock if pair in naive.blocks else self.graph.people.block)(one, other)
                naive.follows -= set() if pair in naive.blocks else {pair, pair[::-1]}
                naive.blocks ^= {pair}
            case 4 if one in naive.private or self.rarely():
                naive.private ^= {int(one)}
                await self.graph.store.change_node(one, private=one in naive.private)
            case 5 if one in naive.away or self.rarely():
                naive.away ^= {int(one)}
                state = State.ARCHIVED if one in naive.away else State.NORMAL
                await self.graph.store.change_node(one, state=state)
            case 6 | 7 if one not in naive.away:
                draft = Draft(text="x", **self.said())
                made = (await self.posts.create(one, draft)).post
                naive.posts[made.id] = (int(one), draft.visibility, draft.audience)
            case 8 | 9:
                what, id_ = self.labelled()
                bits = chosen.choice((0, 0, 1, 2, 4, 6))
                await self.moderation.set(what, id_, bits, chosen.choice(("", "spam")))
                naive.labels[what, id_] = bits
            case 10 if naive.posts:
                post = chosen.choice(list(naive.posts))
                author = NodeId(naive.posts[post][0])
                if author not in naive.away:
                    said = self.said()
                    await self.posts.edit(author, NodeId(post), PostEdit(**said))
                    naive.posts[post] = (author, said["visibility"], said["audience"])
            case 11 | 13 | 14 | 15 if naive.posts:
                post = chosen.choice([post for post in naive.posts if naive.sees(int(one), post)] or [0])
                if post and one not in naive.away:
                    comment, _ = await self.comments.create(one, NodeId(post), "x")
                    naive.comments[comment.id] = (post, int(one))
            case 12 if naive.posts and self.rarely():
                post = chosen.choice(list(naive.posts))
                if naive.posts[post][0] not in naive.away:
                    await self.posts.delete(NodeId(naive.posts.pop(post)[0]), NodeId(post))

    def rarely(self) -> bool:
        return self.chosen.random() < 0.25

    def said(self) -> dict[str, Any]:
        visibility = self.chosen.choice(("public", "public", "friends", "custom", "private"))
        return {"visibility": visibility, "audience": (int(PEOPLE[0]),) if visibility == "custom" else ()}

    def labelled(self) -> tuple[Any, NodeId]:
        if self.naive.posts and self.chosen.random() < 0.5:
            return "post", NodeId(self.chosen.choice(list(self.naive.posts)))
        return "user", self.chosen.choice(PEOPLE)

    async def check(self) -> None:
        """Compare what one random viewer is shown."""
        naive, viewer = self.naive, self.chosen.choice([SYSTEM, None, *PEOPLE])
        posts = list(naive.posts)
        shown = await self.posts.visible(viewer, posts)
        expected = [naive.on(post) if naive.sees(viewer, post) else None for post in posts]
        assert [None if post is None else post.labels for post in shown] == expected
        for post in posts:
            if naive.sees(viewer, post):
                self.shown += len(of_post := [one for one, (on, _) in naive.comments.items() if on == post])
                found = await self.services.comments_on(viewer, NodeId(post), "oldest", Window(100))
                assert [one.id for one in found.comments] == [one for one in of_post if naive.reads(viewer, one)]
                self.kept += len(of_post) - len(found.comments)
                assert [one.labels for one in found.comments] == [naive.by(one.author) for one in found.comments]


async def live(chosen: random.Random, services: Services) -> None:
    history = History(chosen, services)
    for _ in range(MOMENTS):
        services.clock.ms += 1
        await history.act()
        services.settle()
        await history.check()
    assert history.shown > history.kept > 10, "too little was shown or hidden to be a test"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("transactional", [True, False], ids=["transactions", "no-transactions"])
def test_everybody_sees_what_a_naive_model_shows(seed: int, transactional: bool) -> None:
    async def over_memory() -> None:
        await live(random.Random(seed), await Services.in_memory(transactional=transactional, seed=seed))

    run_coroutine(over_memory())


@pytest.mark.parametrize("seed", range(4))
def test_everybody_sees_what_a_naive_model_shows_on_the_embedded_engine(seed: int, tmp_path: Path) -> None:
    async def over(stores: Stores) -> None:
        await live(random.Random(seed), await Services.over(stores.edges, stores.records))

    with open_embedded_stores(tmp_path) as stores:
        run_coroutine(over(stores))
