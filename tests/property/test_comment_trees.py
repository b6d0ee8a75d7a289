"""All live comments can be reached from the post, although comments are deleted, and accounts leave, return or are
removed.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from cast import ALICE
from coroutines import answer, run_coroutine
from history_lengths import seeds
from reference_leases import own_leases
from services import Services

from kith.core.errors import CommentNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.node_jobs import NodeOperation
from kith.people.removal import account_jobs
from kith.posts.comment_reader import CommentPage

PEOPLE = [NodeId(user) for user in range(2, 8)]
READER = NodeId(99)
DEEDS = ("new", *["reply"] * 4, *["delete"] * 2, "away", "back", "remove")
STEPS = 150
AWAY_MAX, REMOVED_MAX = 3, 2
WHOLE = Window(100)


class Shown(NamedTuple):
    """The comments below a post or comment: those with a text, and stubs without any reply."""

    comments: set[int]
    bare: set[int]


class Trees:
    """Random actions on the comments of a post of Alice's, and a naive model of them."""

    def __init__(self, chosen: random.Random, services: Services, post: int) -> None:
        self.chosen, self.services, self.post = chosen, services, NodeId(post)
        comments = services.comments
        self.jobs = account_jobs(services.graph, own_leases(), comments.erase, beside=comments.beside)
        self.authors: dict[int, NodeId] = {}  # by comment, unless it was deleted
        self.away, self.removed = set[NodeId](), set[NodeId]()

    @property
    def live(self) -> set[int]:
        """The comments that must be visible: not deleted, and of an active author."""
        return {one for one, author in self.authors.items() if author not in self.away}

    async def act(self) -> None:
        """Do one random action."""
        author = self.chosen.choice([one for one in PEOPLE if one not in self.away | self.removed])
        match self.chosen.choice(DEEDS):
            case "new":
                await self.say(author, None)
            case "reply" if self.live:
                await self.say(author, NodeId(self.chosen.choice(sorted(self.live))))
            case "delete" if self.authors:
                one = self.chosen.choice(sorted(self.authors))
                await self.services.comments.delete(ALICE, NodeId(one))
                del self.authors[one]
            case "away" if len(self.away) < AWAY_MAX:
                await self.change(NodeOperation.ARCHIVE, author)
                self.away.add(author)
            case "back" if self.away:
                await self.change(NodeOperation.RESTORE, back := self.chosen.choice(sorted(self.away)))
                self.away.discard(back)
            case "remove" if len(self.removed) < REMOVED_MAX and self.chosen.random() < 0.2:
                gone = self.chosen.choice([one for one in PEOPLE if one not in self.removed])  # may be inactive
                await self.change(NodeOperation.REMOVE, gone)
                self.removed.add(gone)
                self.away.discard(gone)
                self.authors = {one: by for one, by in self.authors.items() if by != gone}

    async def say(self, author: NodeId, reply_to: NodeId | None) -> None:
        made = await answer(self.services.comments.create(author, self.post, "well", reply_to))
        if made is not CommentNotFound:  # a reply to a deactivated author's comment is refused
            self.authors[made[0].id] = author

    async def change(self, operation: NodeOperation, user: NodeId) -> None:
        await self.jobs.start(operation, user)
        await self.jobs.wait()

    async def below(self, page: CommentPage) -> Shown:
        """All comments that a reader finds who opens every reply on a page."""
        found = Shown(set(), set())
        for one in page.comments:
            under = await self.below(await self.services.replies_to(READER, NodeId(one.id), "oldest", WHOLE))
            found.comments.update(under.comments, () if one.deleted else [one.id])
            found.bare.update(under.bare, [one.id] if one.deleted and not under.comments else ())
        return found

    async def check(self) -> None:
        found = await self.below(await self.services.comments_on(READER, self.post, "oldest", WHOLE))
        (counts,) = await self.services.engagement.totals([self.post])
        assert (found.comments, counts.comments) == (self.live, len(self.live))
        assert not found.bare


@pytest.mark.parametrize("seed", seeds(6, STEPS))
def test_all_live_comments_are_reached_from_the_post(seed: int) -> None:
    async def live() -> None:
        services = await Services.in_memory()
        trees = Trees(random.Random(seed), services, (await services.write()).id)
        for _ in range(STEPS):
            services.clock.ms += 5
            await trees.act()
            await trees.check()
        assert trees.authors

    run_coroutine(live())
