"""Posts that were read lately are kept in a process, until the log tells a change of them."""

from __future__ import annotations

from collections.abc import Sequence

from kith.posts.post import Post
from kith.posts.posts import Posts
from kith.records.memory import ReadMemory
from kith.records.store import RecordKind
from kith.records.tables import Remembered

POSTS_MAX = 20_000
"""1 KB each."""


class KeptPosts:
    """Reads posts as of the last look at the log, or later."""

    def __init__(self, posts: Posts, memory: ReadMemory) -> None:
        self.posts, self.memory = posts, memory
        self._records: Remembered[Post] = memory.of_records(RecordKind.POST, POSTS_MAX)

    async def read(self, ids: Sequence[int]) -> list[Post]:
        """Those of the posts that are there, in their order, whoever may see them. One that did not change is the very
        object that was answered before.
        """
        known = self._records.now
        posts = {id_: known[id_] for id_ in ids if id_ in known}
        if len(posts) < len(ids):
            moment, missing = self.memory.moment, [id_ for id_ in ids if id_ not in posts]
            found = {post.id: post for post in await self.posts.read(missing) if post is not None}
            self._records.keep(moment, found)
            posts.update(found)
        return [post for id_ in ids if (post := posts.get(id_)) is not None and not post.deleted]
