"""Stories: posts that expire after some hours, stored apart from other posts, so that only story routes show them.

A story is a post of kind STORY in its author's list of the graph `stories`; each view is an edge of `story_views`. Its
id contains its creation time, so it expires for everybody in the same millisecond, whether or not `reclaiming` has
deleted it yet. Limit: a story cannot be edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kith.core.clock import wall_ms
from kith.core.errors import Forbidden, InvalidContent, StoryNotFound
from kith.core.ids import NodeId, Snowflakes, made_at_ms
from kith.core.labels import HIDE
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import STORIES, STORY_VIEWS
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Ids, Listing
from kith.people.privacy import SYSTEM, Privacy, Viewer
from kith.posts.engagement import engage
from kith.posts.post import Draft, Post
from kith.posts.posts import PostKind, Posts, PostWritten
from kith.posts.threads import reversed_page, reversed_window
from kith.records.store import RecordKind, RecordStore

HOUR_MS = 3_600_000
STORY_KIND = PostKind(RecordKind.STORY, STORIES, "story", StoryNotFound, None)


class StoryView(NamedTuple):
    """When a viewer first saw a story, and the place of the write for read-your-writes."""

    at_ms: int
    mark: WriteMark


class Stories:
    """Creates, deletes, shows and counts stories. `hours`: the life of a story; a change applies to old ones, too."""

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
        self._posts = Posts(store, graph, snowflakes, STORY_KIND._replace(is_expired=self._is_expired))
        self._stories, self._views = graph.graphs.number(STORIES), graph.graphs.number(STORY_VIEWS)

    # --- writing ---------------------------------------------------------------------------------------

    async def create(self, actor: NodeId, draft: Draft, key: str | None = None) -> PostWritten:
        """Create a story of `actor`. `key` and errors as in `Posts.create`.

        Also InvalidContent for a private story; StoryNotFound if a repeated key's story has expired.
        """
        if draft.visibility == "private":
            raise InvalidContent("a story is for public, friends or custom; a private one would have no viewers")
        return await self._posts.create(actor, draft, key)

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Empty a story for good. Errors: StoryNotFound; Forbidden for all but its author."""
        self._check_live(id_)
        return await self._posts.delete(actor, id_)

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty stories of a removed author; see `Posts.erase`."""
        await self._posts.erase(listing, ids)

    async def view(self, viewer: NodeId, id_: NodeId) -> StoryView:
        """Record that `viewer` has seen a story. Repeating it changes nothing; a view by its author does not count.

        Errors: StoryNotFound; Forbidden if the viewer is deactivated.
        """
        story = await self.get(viewer, id_)
        if story.author == viewer:
            return StoryView(story.created_at, NO_MARK)
        written = await engage(self.graph, self._views, viewer, id_, NodeId(story.author), StoryNotFound)
        return StoryView(written.at_ms, written.mark)

    # --- reading ---------------------------------------------------------------------------------------

    async def visible(self, viewer: Viewer, ids: Sequence[int], *, deleted_too: bool = False) -> list[Post | None]:
        """The story of each id, or None if it has expired or `viewer` must not see it; in a few batches.

        `deleted_too`: treat deleted stories as if they were not.
        """
        since = self._oldest_live_ms()
        live = [id_ for id_ in ids if made_at_ms(id_) >= since]
        by_id = dict(zip(live, await self._posts.visible(viewer, live, deleted_too=deleted_too), strict=True))
        return [by_id.get(id_) for id_ in ids]

    async def shown(self, viewer: Viewer, ids: Sequence[int]) -> list[tuple[Post, bool]]:
        """The stories of these ids that are live and that `viewer` may see, each with whether `viewer` has seen it."""
        since = self._oldest_live_ms()
        posts = await self._posts.read([id_ for id_ in ids if made_at_ms(id_) >= since])
        questions = Questions()
        visible = self._posts.ask_visible(questions, viewer, posts)
        read_seen = self._ask_seen(questions, viewer, posts)
        answers = await self.graph.store.answer(questions)
        return [
            (story, is_seen)
            for story, is_seen in zip(visible(answers), read_seen(answers), strict=True)
            if story is not None
        ]

    async def get(self, viewer: Viewer, id_: NodeId) -> Post:
        """One story; StoryNotFound if it has expired or `viewer` must not see it."""
        self._check_live(id_)
        return await self._posts.get(viewer, id_)

    async def of_author(self, viewer: Viewer, author: NodeId, window: Window) -> tuple[list[Post], Page]:
        """The stories of `author` that `viewer` may see, oldest first, the order of playing; and their page, as in
        `Posts.outbox`.
        """
        oriented = reversed_window(window)._replace(since=self._oldest_live_ms())
        stories, page = await self._posts.outbox(viewer, author, oriented)
        return stories[::-1], reversed_page(page)

    async def seen(self, viewer: Viewer, stories: Sequence[Post]) -> list[bool]:
        """For each story, whether `viewer` has seen it. Authors count as having seen their own."""
        questions = Questions()
        read_seen = self._ask_seen(questions, viewer, stories)
        return read_seen(await self.graph.store.answer(questions))

    def _ask_seen(
        self, questions: Questions, viewer: Viewer, stories: Sequence[Post | None]
    ) -> Callable[[Answers], list[bool]]:
        """Ask `seen`. The answer is False for None."""
        if not isinstance(viewer, int):
            return lambda _: [False] * len(stories)
        rows = questions.states([(self._views, viewer, 0 if story is None else story.id) for story in stories])
        return lambda answers: [
            state is State.NORMAL or (story is not None and story.author == viewer)
            for state, story in zip(answers.states[rows], stories, strict=True)
        ]

    async def viewers(self, actor: Viewer, id_: NodeId, window: Window) -> Page:
        """The viewers of a story, latest first, for its author or the app's back office.

        Leaves out viewers with a block between them and the author, and those who left or whom the app hides. Errors:
        StoryNotFound; Forbidden for others.
        """
        story = await self.get(actor, id_)
        if actor not in (SYSTEM, story.author):
            raise Forbidden("only its author may see who has seen a story", id=str(id_))
        page = await self.graph.store.page(self._viewers(id_), window)
        viewers = [mark.id for mark in page.items]
        blocked = await self._privacy.blocked_either_way(NodeId(story.author), viewers)
        nodes = await self.graph.store.nodes(viewers)
        marks = [
            mark
            for mark, barred, node in zip(page.items, blocked, nodes, strict=True)
            if not barred and node.state == State.NORMAL and not node.labels & HIDE
        ]
        covers = (page.newest, page.oldest) if page.newest and page.oldest else None
        return Page(marks, page.more_after, page.more_before, covers)

    async def view_counts(self, ids: Sequence[int]) -> list[int]:
        """The exact number of viewers of each story."""
        return await self.graph.store.count_many([self._viewers(id_) for id_ in ids])

    async def with_stories(self, authors: Ids) -> list[int]:
        """The authors whose list of stories is not empty: all with live stories, and some whose stories just expired.

        Costs one lookup per author, so that of thousands of authors only these few must be read.
        """
        (counts,) = await self.graph.store.counts([(self._stories, Direction.OUT)], authors)
        return [int(author) for author in authors[counts > 0]]

    async def newest(self, authors: Iterable[int], limit: int) -> list[Mark]:
        """The newest `limit` live stories of each author, author by author, newest first, as (creation time, id).

        Visibility is not checked.
        """
        questions, window = Questions(), Window(limit, since=self._oldest_live_ms())
        for author in authors:
            questions.page(self._list(author), window)
        return [mark for page in (await self.graph.store.answer(questions)).pages for mark in page.items]

    def expires_at_ms(self, story: Post) -> int:
        """When a story expires, in ms since the epoch."""
        return story.created_at + self.life_ms

    def _oldest_live_ms(self) -> int:
        """The earliest creation time of a live story, in ms since the epoch."""
        return self.now_ms() - self.life_ms + 1

    def _is_expired(self, id_: int) -> bool:
        return made_at_ms(id_) < self._oldest_live_ms()

    def _check_live(self, id_: int) -> None:
        if self._is_expired(id_):
            raise StoryNotFound("there is no such story, or it is hidden from you", id=str(id_))

    def _list(self, author: int) -> Listing:
        return Listing(self._stories, author, Direction.OUT)

    def _viewers(self, id_: int) -> Listing:
        return Listing(self._views, id_, Direction.IN)
