"""Stories over one store, with a clock that a test sets."""

from __future__ import annotations

from typing import Any

from cast import ALICE, BOB
from coroutines import Run, answer
from services import Services

from kith.core.errors import StoryNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.people.privacy import Viewer
from kith.posts.post import Draft, Post
from kith.stories.stories import HOUR_MS, Stories
from kith.stories.strip import Strip, StripPage

DAY_MS = 24 * HOUR_MS
FIRST_PAGE = Window(50)


class StoryScene:
    """Stories and their strip over one store. `close`: closeness of each author, the same for all viewers."""

    def __init__(self, run: Run, services: Services) -> None:
        self.run, self.services, self.settle = run, services, services.settle
        self.clock, self.graph, self.posts = services.clock, services.graph, services.posts
        self.stories = Stories(services.records, self.graph, services.snowflakes, hours=24, now_ms=self.clock)
        self.close: dict[int, float] = {}
        self.strips = Strip(self.graph, self.stories, self.closeness)

    async def closeness(self, viewer: NodeId) -> dict[int, float]:
        return self.close

    def tell(self, author: NodeId = ALICE, later_ms: int = 1_000, **fields: Any) -> Post:
        """Create a story, `later_ms` after the current time."""
        self.clock.ms += later_ms
        made = self.run(self.stories.create(author, Draft(**{"text": "look", **fields}))).post
        self.settle()
        return made

    def follow(self, *pairs: tuple[NodeId, NodeId]) -> None:
        for pair in pairs:
            self.run(self.graph.people.follow(*pair))
        self.settle()

    def found(self, viewer: Viewer, story: Post) -> bool:
        """Whether the viewer sees a story. Checks that `get` and `visible` agree."""
        (listed,) = self.run(self.stories.visible(viewer, [story.id]))
        got = self.run(answer(self.stories.get(viewer, story.id)))
        assert (listed is not None) == (got is not StoryNotFound)
        return listed is not None

    def of(self, author: NodeId, viewer: Viewer = BOB, window: Window = FIRST_PAGE) -> list[int]:
        return [story.id for story in self.run(self.stories.of_author(viewer, author, window))[0]]

    def strip(self, viewer: NodeId = BOB, window: Window = FIRST_PAGE) -> StripPage:
        return self.run(self.strips.page(viewer, window))

    def authors(self, viewer: NodeId = BOB) -> list[int]:
        return [entry.author for entry in self.strip(viewer).entries]

    def view(self, viewer: NodeId, *stories: Post) -> None:
        for story in stories:
            self.run(self.stories.view(viewer, story.id))
        self.settle()

    def viewers(self, story: Post, actor: Viewer = ALICE) -> list[int]:
        return [mark.id for mark in self.run(self.stories.viewers(actor, story.id, FIRST_PAGE)).items]
