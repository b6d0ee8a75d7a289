"""The hard rules of home, applied last, whatever ranking says.

A post shows if the reader may see it, follows its author (or is the author), and has neither muted the author nor
hidden the post.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kith.core.ids import NodeId
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import HIDES, MUTES
from kith.graph.shapes import Listing
from kith.home.sources import Sources
from kith.posts.post import Post
from kith.posts.posts import Posts


class HomeRules:
    """Filters posts for homes."""

    def __init__(self, graph: Graph, posts: Posts) -> None:
        self._posts, self._store, self._sources = posts, graph.store, Sources(graph)
        self._mutes, self._hides = graph.graphs.number(MUTES), graph.graphs.number(HIDES)

    async def allowed(self, reader: NodeId, ids: Sequence[int]) -> list[Post]:
        """Those of the posts that `reader` may and wants to see at home, in their order."""
        posts = [post for post in await self._posts.visible(reader, ids) if post is not None]
        authors = list({post.author for post in posts})
        muted = await self._in_list(self._mutes, reader, authors)
        hidden = await self._in_list(self._hides, reader, [post.id for post in posts])
        wanted = set(await self._sources.followed_of(reader, authors)) - muted
        return [post for post in posts if post.author in wanted and post.id not in hidden]

    async def _in_list(self, graph: int, reader: NodeId, ids: list[int]) -> set[int]:
        """Those of `ids` to which the reader has an edge."""
        there = await self._store.contains(Listing(graph, reader, Direction.OUT), np.array(ids, np.int64))
        if not there.any():
            return set()
        return {id_ for id_, is_there in zip(ids, there.tolist(), strict=True) if is_there}

    async def excluded_by(self, reader: NodeId, post: Post) -> list[str]:
        """Which rules keep a visible post out of the reader's home."""
        rules = {
            "not_followed": not await self._sources.followed_of(reader, [post.author]),
            "muted": bool(await self._in_list(self._mutes, reader, [post.author])),
            "hidden": bool(await self._in_list(self._hides, reader, [post.id])),
        }
        return [name for name, holds in rules.items() if holds]
