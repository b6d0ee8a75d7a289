"""Stories: posts that are over after some hours, on a shelf of their own, so that no other door shows them.

A story is a post of kind STORY in its author's list of the graph `stories`; whoever has seen it is an edge of
`story_views`. When it is over follows from its id, which is a time: so from that millisecond on nobody finds it,
whatever `reclaiming` has or has not taken out yet. Limit: a story is seen whole or not at all, and is not edited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kith.core.clock import wall_ms
from kith.core.errors import Forbidden, InvalidContent, StoryNotFound
from kith.core.ids import NodeId, Snowflakes, made_at_ms
from kith.core.labels import HIDE
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import STORIES, STORY_VIEWS
from kith.graph.store import Ids, Listing
from kith.people.privacy import Privacy
from kith.posts.comments import reversed_page, reversed_window
from kith.posts.engagement import engage
from kith.posts.post import Draft, Post
from kith.posts.posts import Posts, PostWritten, Shelf
from kith.records.store import RecordKind, RecordStore

HOUR_MS = 3_600_000
SHELF = Shelf(RecordKind.STORY, STORIES, "story", StoryNotFound)


class StoryView(NamedTuple):
    """That somebody has seen a story, since when, and the place of the write for read-your-writes."""

    at_ms: int
    mark: WriteMark


class Stories:
    """The rules of stories. `hours`: how long one is there, old ones included when it is changed."""

    def __init__(
        self,
        store: RecordStore,
        graph: Graph,
        snowflakes: Snowflakes,
        *,
        hours: int,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.graph, self.life_ms, self.now_ms = graph, hours * HOUR_MS, now_ms
        self._privacy = Privacy(graph)
        self._shelf = Posts(store, graph, snowflakes, SHELF)
        self._stories, self._views = graph.graphs.number(STORIES), graph.graphs.number(STORY_VIEWS)

    # --- writing ---------------------------------------------------------------------------------------

    async def create(self, actor: NodeId, draft: Draft, key: str | None = None) -> PostWritten:
        """A new story of `actor`; errors and `key` as for posts, and InvalidContent where nobody could see it."""
        if draft.visibility == "private":
            raise InvalidContent("a story is for public, friends or custom; a private one would have no viewers")
        return await self._shelf.create(actor, draft, key)

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Empty a story for good. Errors: StoryNotFound; Forbidden to all but its author."""
        self._check_live(id_)
        return await self._shelf.delete(actor, id_)

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty the stories of an author whose list is taken down; see `Posts.erase`."""
        await self._shelf.erase(listing, ids)

    async def view(self, viewer: NodeId, id_: NodeId) -> StoryView:
        """`viewer` has seen it; repeating it changes nothing, and authors do not count among their viewers.

        Errors: StoryNotFound; Forbidden where the viewer is deactivated.
        """
        story = await self.get(viewer, id_)
        if story.author == viewer:
            return StoryView(story.created_at, WriteMark(0, 0))
        seen = await engage(self.graph, self._views, viewer, id_, NodeId(story.author), StoryNotFound)
        return StoryView(seen.at_ms, seen.mark)

    # --- reading ---------------------------------------------------------------------------------------

    async def visible(self, viewer: NodeId | None, ids: Sequence[int]) -> list[Post | None]:
        """For each id the story, or None where its time is over or `viewer` must not see it; one batch a kind."""
        since = self._since()
        live = [id_ for id_ in ids if made_at_ms(id_) >= since]
        found = dict(zip(live, await self._shelf.visible(viewer, live), strict=True))
        return [found.get(id_) for id_ in ids]

    async def get(self, viewer: NodeId | None, id_: NodeId) -> Post:
        """One story; StoryNotFound where `visible` has none."""
        self._check_live(id_)
        return await self._shelf.get(viewer, id_)

    async def of_author(self, viewer: NodeId | None, author: NodeId, window: Window) -> tuple[list[Post], Page]:
        """The stories of `author` that `viewer` may see, oldest first, as they are played; and their page, as of
        `Posts.outbox`.
        """
        asked = reversed_window(window)._replace(since=self._since())
        stories, page = await self._shelf.outbox(viewer, author, asked)
        return stories[::-1], reversed_page(page)

    async def seen(self, viewer: NodeId | None, stories: Sequence[Post]) -> list[bool]:
        """For each story: has `viewer` seen it? Authors have seen their own."""
        if viewer is None:
            return [False] * len(stories)
        seen = await self.graph.store.exists_many(self._views, [(viewer, story.id) for story in stories])
        return [saw or story.author == viewer for saw, story in zip(seen, stories, strict=True)]

    async def viewers(self, actor: NodeId | None, id_: NodeId, window: Window) -> Page:
        """Who has seen a story, latest first, for its author (or the app); less those a block stands between, and
        those whom the app hides.

        Errors: StoryNotFound; Forbidden to others.
        """
        story = await self.get(actor, id_)
        if actor not in (None, story.author):
            raise Forbidden("only its author may see who has seen a story", id=str(id_))
        page = await self.graph.store.page(self._viewers(id_), window)
        viewers = [mark.id for mark in page.items]
        blocked = await self._privacy.blocked(NodeId(story.author), viewers)
        nodes = await self.graph.store.nodes(viewers)
        shown = [
            mark
            for mark, barred, node in zip(page.items, blocked, nodes, strict=True)
            if not barred and not node.labels & HIDE
        ]
        covers = (page.newest, page.oldest) if page.newest and page.oldest else None
        return Page(shown, page.more_after, page.more_before, covers)

    async def view_counts(self, ids: Sequence[int]) -> list[int]:
        """How many have seen each story; exact."""
        return await self.graph.store.count_many([self._viewers(id_) for id_ in ids])

    async def with_stories(self, authors: Ids) -> list[int]:
        """Those of the authors whose list is not empty: all who have live stories, and some whose are just over.

        One lookup an author, so that of thousands only those are looked at who matter.
        """
        (counts,) = await self.graph.store.counts([(self._stories, Direction.OUT)], authors)
        return [int(author) for author in authors[counts > 0]]

    async def newest(self, author: int, limit: int) -> list[Mark]:
        """The newest live stories of an author, as (made at, id), newest first; who may see them is not asked."""
        return (await self.graph.store.page(self._list(author), Window(limit, since=self._since()))).items

    def over_at(self, story: Post) -> int:
        """From when on nobody sees it, ms since the epoch."""
        return story.created_at + self.life_ms

    def _since(self) -> int:
        """When the oldest live story can have been made."""
        return self.now_ms() - self.life_ms + 1

    def _check_live(self, id_: int) -> None:
        if made_at_ms(id_) < self._since():
            raise StoryNotFound("there is no such story, or it is not there for you", id=str(id_))

    def _list(self, author: int) -> Listing:
        return Listing(self._stories, author, Direction.OUT)

    def _viewers(self, id_: int) -> Listing:
        return Listing(self._views, id_, Direction.IN)
