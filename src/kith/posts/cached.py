"""A cache of posts in each process. An entry is invalidated when the log reports a change of the post."""

from __future__ import annotations

from collections.abc import Sequence

from kith.posts.post import Post
from kith.posts.posts import Posts
from kith.records.memory import ReadMemory
from kith.records.store import RecordKind
from kith.records.tables import Remembered

POSTS_MAX = 20_000
"""Cached posts, 1 KB each."""


class CachedPosts:
    """Reads posts as of the last refresh of the memory, or later."""

    def __init__(self, posts: Posts, memory: ReadMemory) -> None:
        self.posts, self.memory = posts, memory
        self._records: Remembered[Post] = memory.of_records(RecordKind.POST, POSTS_MAX)

    async def read(self, ids: Sequence[int]) -> list[Post]:
        """The posts of these ids, in their order, without missing and deleted ones. Visibility is not checked.

        A post that did not change is the same object as in an earlier call.
        """
        posts = list(map(self._records.now.get, ids))
        if None in posts:
            moment, missing = self.memory.moment, [id_ for id_, post in zip(ids, posts, strict=True) if post is None]
            found = {post.id: post for post in await self.posts.read(missing) if post is not None}
            self._records.keep(moment, found)
            posts = [found.get(id_) if post is None else post for id_, post in zip(ids, posts, strict=True)]
        return [post for post in posts if post is not None and not post.deleted]
