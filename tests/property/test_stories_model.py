"""For any history of follows, blocks, stories, views and deletions over time, every read of stories equals a naive
model.

This holds whether or not the space of expired stories is reclaimed.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cast import FakeClock
from coroutines import answer
from engines import Engine
from random_histories import run_history
from services import Services
from store_types import EngineStores

from kith.core.errors import Forbidden, StoryNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.people.privacy import SYSTEM, Viewer
from kith.posts.post import Draft
from kith.stories.reclaiming import GRACE_MS, reclaim
from kith.stories.stories import HOUR_MS, Stories
from kith.stories.strip import Strip

PORT = "whole"
PEOPLE = [NodeId(user) for user in range(1, 6)]
HOURS = 2
LIFE_MS = HOURS * HOUR_MS
Pair = tuple[Any, Any]


class ModelStory(NamedTuple):
    """A story in the model."""

    id: int
    author: int
    at_ms: int
    visibility: str
    audience: tuple[int, ...]


class Naive:
    """All past actions, as sets and lists."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.follows: set[Pair] = set()
        self.blocks: set[Pair] = set()
        self.mutes: set[Pair] = set()
        self.private: set[int] = set()
        self.stories: list[ModelStory] = []
        self.views: dict[Pair, int] = {}  # (viewer, story) -> time of the first view

    def sees(self, viewer: Viewer | int, story: ModelStory) -> bool:
        if self.clock.ms >= story.at_ms + LIFE_MS:
            return False
        if viewer in (SYSTEM, story.author):
            return True
        there, back = (viewer, story.author), (story.author, viewer)
        if there in self.blocks or back in self.blocks:
            return False
        if story.author in self.private and there not in self.follows:
            return False
        match story.visibility:
            case "public":
                return True
            case "friends":
                return there in self.follows and back in self.follows
            case _:
                return viewer in story.audience

    def of(self, viewer: Viewer | int, author: int) -> list[int]:
        return [story.id for story in self.stories if story.author == author and self.sees(viewer, story)]

    def viewers(self, story: ModelStory) -> list[int]:
        """The viewers of a story, the latest first; of viewers at the same time, the greatest id first."""
        found = [(at, viewer) for (viewer, id_), at in self.views.items() if id_ == story.id]
        blocked = {other for pair in self.blocks if story.author in pair for other in pair} - {story.author}
        return [viewer for _, viewer in sorted(found, reverse=True) if viewer not in blocked]

    def strip(self, viewer: int, close: dict[Pair, float]) -> list[tuple[int, int, int]]:
        """Rows of (author, stories, unseen), in order."""
        authors = {viewer} | {other for user, other in self.follows if user == viewer}
        rows = []
        for author in authors:
            seen = [story for story in self.stories if story.author == author and self.sees(viewer, story)]
            if not seen or (viewer, author) in self.mutes:
                continue
            unseen = sum(author != viewer and (viewer, story.id) not in self.views for story in seen)
            latest = max(story.at_ms for story in seen) // 1000
            place = (author == viewer, unseen > 0, close[viewer, author], latest, author)
            rows.append((place, (author, len(seen), unseen)))
        return [row for _, row in sorted(rows, reverse=True)]


class History:
    """Random actions, on Kith and on the model alike."""

    def __init__(self, seed: int) -> None:
        self.chosen, self.clock = random.Random(seed), FakeClock()
        self.naive = Naive(self.clock)
        self.close = {(one, other): self.chosen.choice((0.0, 0.5, 2.0)) for one in PEOPLE for other in PEOPLE}
        self.reclaimed = 0

    async def begin(self, whole: EngineStores) -> None:
        services = await Services.over(whole.edges, whole.records, self.clock)
        self.settle = whole.settle
        self.graph, self.records = services.graph, services.records
        self.stories = Stories(self.records, self.graph, services.snowflakes, hours=HOURS, now_ms=self.clock)
        self.strip = Strip(self.graph, self.stories, self.closeness)

    async def closeness(self, viewer: NodeId) -> dict[int, float]:
        return {author: self.close[viewer, author] for author in PEOPLE}

    async def act(self) -> None:
        """Do one random action."""
        chosen, naive = self.chosen, self.naive
        one, other = chosen.sample(PEOPLE, 2)
        pair = (int(one), int(other))
        match chosen.randrange(20):
            case 0 | 1 | 2 | 16 | 17 if pair not in naive.blocks and pair[::-1] not in naive.blocks:
                if other not in naive.private:
                    await self.graph.people.follow(one, other)
                    naive.follows.add(pair)
            case 3:
                await self.graph.people.unfollow(one, other)
                naive.follows.discard(pair)
            case 4:
                await self.graph.people.block(one, other)
                naive.blocks.add(pair)
                naive.follows -= {pair, pair[::-1]}
            case 5 | 6:
                await self.graph.people.unblock(one, other)
                naive.blocks.discard(pair)
            case 7:
                await (self.graph.people.mute if pair not in naive.mutes else self.graph.people.unmute)(one, other)
                naive.mutes ^= {pair}
            case 8:
                await self.graph.store.change_node(one, private=one not in naive.private)
                naive.private ^= {int(one)}
            case 9 | 10 | 11 | 18 | 19:
                await self.make_story(one)
            case 12 | 13 | 14 if naive.stories:
                await self.view(one, chosen.choice(naive.stories[-8:]))
            case 15 if naive.stories:
                await self.delete(one, chosen.choice(naive.stories))

    async def make_story(self, author: NodeId) -> None:
        visibility: Any = self.chosen.choice(("public", "friends", "custom"))
        audience = tuple(map(int, self.chosen.sample(PEOPLE, 2))) if visibility == "custom" else ()
        draft = Draft(text=f"story {len(self.naive.stories)}", visibility=visibility, audience=audience)
        story = (await self.stories.create(author, draft)).post
        self.naive.stories.append(ModelStory(story.id, int(author), story.created_at, visibility, audience))

    async def view(self, viewer: NodeId, story: ModelStory) -> None:
        done = await answer(self.stories.view(viewer, NodeId(story.id)))
        assert (done is StoryNotFound) == (not self.naive.sees(viewer, story))
        if done is not StoryNotFound and viewer != story.author:
            assert self.naive.views.setdefault((int(viewer), story.id), done.at_ms) == done.at_ms

    async def delete(self, actor: NodeId, story: ModelStory) -> None:
        done = await answer(self.stories.delete(actor, NodeId(story.id)))
        if not self.naive.sees(actor, story):
            assert done is StoryNotFound
        elif actor != story.author:
            assert done is Forbidden
        else:
            self.naive.stories.remove(story)

    async def check(self) -> None:
        """Compare every read, for a random user, the back office or a visitor, once lists show all writes."""
        self.settle()
        chosen, naive = self.chosen, self.naive
        viewer, author = chosen.choice([*PEOPLE, SYSTEM, None]), chosen.choice(PEOPLE)
        assert await self.of(viewer, author) == naive.of(viewer, author)
        asked = chosen.sample(naive.stories, min(5, len(naive.stories)))
        found = await self.stories.visible(viewer, [story.id for story in asked])
        assert [story is not None for story in found] == [naive.sees(viewer, story) for story in asked]
        reader = chosen.choice(PEOPLE)
        entries = (await self.strip.page(reader, Window(50))).entries
        assert [(entry.author, entry.stories, entry.unseen) for entry in entries] == naive.strip(reader, self.close)
        for story in asked:
            viewers = await answer(self.stories.viewers(NodeId(story.author), NodeId(story.id), Window(50)))
            if naive.sees(SYSTEM, story):
                assert [mark.id for mark in viewers.items] == naive.viewers(story)
            else:
                assert viewers is StoryNotFound

    async def of(self, viewer: Viewer, author: NodeId) -> list[int]:
        """The ids on all pages of an author's stories, with random limits."""
        found: list[int] = []
        window = Window(self.chosen.randrange(1, 5))
        while True:
            stories, page = await self.stories.of_author(viewer, author, window)
            found += [story.id for story in stories]
            if not page.more_after:
                return found
            window = Window(self.chosen.randrange(1, 5), after=page.oldest)

    async def live(self) -> None:
        for moment in range(250):
            self.clock.ms += self.chosen.choice(
                (0, 1, 5_000, 60_000, 300_000, 1_000_000 if moment % 5 else LIFE_MS // 2)
            )
            await self.act()
            if self.chosen.random() < 0.1:
                self.reclaimed += (await reclaim(self.records, self.graph, HOURS, self.clock)).stories
            await self.check()
        self.clock.ms += LIFE_MS + GRACE_MS
        self.settle()
        await reclaim(self.records, self.graph, HOURS, self.clock)
        assert [chunk async for chunk in self.graph.store.edges(self.graph.graphs.number("stories"))] == []
        assert [chunk async for chunk in self.graph.store.edges(self.graph.graphs.number("story_views"))] == []
        assert self.reclaimed > 0, "no space was reclaimed while stories were created"


@pytest.mark.parametrize("seed", range(10))
def test_stories_equal_a_naive_model(tmp_path: Path, engine: Engine, seed: int) -> None:
    run_history(History(seed), engine, tmp_path)
