"""A cache of posts in each process. An entry is invalidated when the log reports a change of the post."""

from __future__ import annotations

from collections.abc import Sequence

from kith.posts.post import Post
from kith.posts.posts import Posts
from kith.records.cache_tables import CachedValues
from kith.records.read_cache import ReadCache
from kith.records.store import RecordKind

POSTS_MAX = 20_000
"""Cached posts, 1 KB each."""


class PostCache:
    """Reads posts as of the last refresh of the cache, or later."""

    def __init__(self, posts: Posts, read_cache: ReadCache) -> None:
        self.posts, self.read_cache = posts, read_cache
        self._records: CachedValues[Post] = read_cache.of_records(RecordKind.POST, POSTS_MAX)

    async def read(self, ids: Sequence[int]) -> list[Post]:
        """The posts of these ids, in their order, without missing and deleted ones. Visibility is not checked.

        A post that did not change is the same object as in an earlier call.
        """
        posts = list(map(self._records.now.get, ids))
        if None in posts:
            generation, missing = (
                self.read_cache.generation,
                [id_ for id_, post in zip(ids, posts, strict=True) if post is None],
            )
            posts_by_id = {post.id: post for post in await self.posts.read(missing) if post is not None}
            self._records.keep(generation, posts_by_id)
            posts = [posts_by_id.get(id_) if post is None else post for id_, post in zip(ids, posts, strict=True)]
        return [post for post in posts if post is not None and not post.deleted]
