"""The hard rules of home, applied last, whatever ranking says.

A post shows if the reader may see it, follows its author (or is the author) or a board on which it is, and has neither
muted the author nor hidden the post. Records are read first and the rules asked after it, in one call: a post or a tie
that is gone by the time of a page is not on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import HIDES, MUTES
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.posts.post import Post
from kith.posts.posts import Posts, seen_of


class _Found(NamedTuple):
    """What the rules are decided by. `seen`: of each post, what the reader may see of it."""

    seen: list[Post | None]
    followed: Collection[int]
    muted: Collection[int]
    hidden: Collection[int]


class HomeRules:
    """Filters posts for homes. `immediate`: whether the stores that it reads answer at once."""

    def __init__(self, graph: Graph, posts: Posts) -> None:
        self._posts, self._store = posts, graph.store
        self._mutes, self._hides = graph.graphs.number(MUTES), graph.graphs.number(HIDES)
        self.immediate = graph.store.immediate and posts.store.immediate

    async def read(self, ids: Sequence[int]) -> list[Post]:
        """Those of the posts that are there, in their order, whoever may see them."""
        return [post for post in await self._posts.read(ids) if post is not None and not post.deleted]

    async def allowed(self, reader: NodeId, posts: Sequence[Post], pinned: Container[int] = frozenset()) -> list[Post]:
        """Those of the posts, which were just read, that `reader` may and wants to see at home, in their order.

        `pinned`: those that are on boards which the reader follows.
        """
        if not posts:
            return []
        found = await self._find(reader, posts)
        followed, muted, hidden = found.followed, found.muted, found.hidden
        return [
            post
            for post in found.seen
            if post is not None
            and (post.author in followed or post.id in pinned)
            and post.author not in muted
            and post.id not in hidden
        ]

    async def excluded_by(self, reader: NodeId, post: Post, pinned: Container[int]) -> list[str]:
        """Which rules keep a visible post out of the reader's home. `pinned`: as in `allowed`."""
        found = await self._find(reader, [post])
        rules = {
            "not_followed": post.author not in found.followed and post.id not in pinned,
            "muted": post.author in found.muted,
            "hidden": post.id in found.hidden,
        }
        return [name for name, holds in rules.items() if holds]

    async def _find(self, reader: NodeId, posts: Sequence[Post]) -> _Found:
        questions = Questions()
        standings = self._posts.ask_standings(questions, reader, posts)
        muted = _ask_in(questions, Listing(self._mutes, reader, Direction.OUT), list({post.author for post in posts}))
        hidden = _ask_in(questions, Listing(self._hides, reader, Direction.OUT), [post.id for post in posts])
        answers = await self._store.answer(questions)
        authors = standings(answers)
        followed = {author for author, standing in authors.items() if standing.followed or author == reader}
        return _Found(seen_of(posts, reader, authors), followed, muted(answers), hidden(answers))


def _ask_in(questions: Questions, listing: Listing, ids: list[int]) -> Callable[[Answers], Collection[int]]:
    """Ask which of `ids` are in a list."""
    at = questions.members(listing, np.array(ids, np.int64))

    def there(answers: Answers) -> Collection[int]:
        found: list[bool] = answers.members[at].tolist()
        return {id_ for id_, is_there in zip(ids, found, strict=True) if is_there} if True in found else ()

    return there
