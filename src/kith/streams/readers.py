"""Whom a change concerns: which connected users follow an author, may see a post, hid neither it nor its author.

Costs by how many users are connected, never by how many follow: of the author's followers and the connected users the
shorter list is read, and the longer one asked. Long lists are taken in parts, so that other requests get their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence

import numpy as np

from kith.core.ids import NodeId
from kith.graph.edge import Direction, State
from kith.graph.graphs import FOLLOWS, HIDES, MUTES
from kith.graph.questions import Questions
from kith.graph.shapes import Ids, Listing
from kith.graph.together import together
from kith.posts.post import Post
from kith.posts.posts import Posts

PART = 500
"""Users asked about at once: about a millisecond."""
_ASK_FACTOR = 8
"""Reading a whole list beats asking for each id while it is at most this many times longer (as in set programs)."""


class Readers:
    """Asks the graph and the posts about users and authors."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._store = posts, posts.graph.store
        self.immediate = self._store.immediate
        number = posts.graph.graphs.number
        self._follows, self._mutes, self._hides = number(FOLLOWS), number(MUTES), number(HIDES)

    async def followers(self, author: int, connected: Collection[int]) -> list[int]:
        """Connected users who follow the author."""
        return await self._among(Listing(self._follows, author, Direction.IN), connected)

    async def followed(self, user: NodeId, authors: Collection[int]) -> set[int]:
        """Those of the authors whom the user follows; and the user, if they are one of the authors."""
        found = set(await self._among(Listing(self._follows, user, Direction.OUT), authors))
        return found | {int(user)} if user in authors else found

    async def unmuted(self, user: NodeId, authors: Collection[int]) -> set[int]:
        """Those of the authors whom the user did not mute."""
        muted = await self._store.exists_many(self._mutes, [(user, author) for author in authors])
        return {author for author, mute in zip(authors, muted, strict=True) if not mute}

    async def wanted(self, user: NodeId, posts: Sequence[Post]) -> list[Post]:
        """Those of the posts that the user did not hide, by authors whom the user did not mute."""
        questions = Questions()
        muted = questions.states((self._mutes, user, post.author) for post in posts)
        hidden = questions.states((self._hides, user, NodeId(post.id)) for post in posts)
        states = (await self._store.answer(questions)).states
        kept_out = zip(posts, states[muted], states[hidden], strict=True)
        return [post for post, *barred in kept_out if State.NORMAL not in barred]

    async def allowed(
        self, post: int, author: int, users: Sequence[int], *, deleted: bool = False
    ) -> AsyncIterator[tuple[Post, list[int]]]:
        """The post, and the users who may see it and did not hide it or mute its author, in parts.

        Of a new post some may have hidden it already: the log has an order for each source only.
        `deleted`: who might see it if it were not deleted.
        """
        for part in _parts(users):
            (found, seen), muted, (hides,) = await together(
                self.immediate,
                self._posts.seen_by(post, part, deleted=deleted),
                self._store.exists_many(self._mutes, [(NodeId(user), NodeId(author)) for user in part]),
                self._store.count_many([Listing(self._hides, post, Direction.IN)]),
            )
            if found is None:
                return
            allowed = [user for user, sees, mute in zip(part, seen, muted, strict=True) if sees and not mute]
            if hides:
                hid = await self._store.exists_many(self._hides, [(NodeId(user), NodeId(post)) for user in allowed])
                allowed = [user for user, hidden in zip(allowed, hid, strict=True) if not hidden]
            yield found, allowed
            await asyncio.sleep(0)

    async def seeing(
        self, post: int, users: Sequence[int], *, deleted: bool = False
    ) -> AsyncIterator[tuple[Post | None, dict[int, bool]]]:
        """The post, and for each user whether they may see it, in parts. `deleted`: if it were not deleted."""
        for part in _parts(users):
            found, seen = await self._posts.seen_by(post, part, deleted=deleted)
            yield found, dict(zip(part, seen, strict=True))
            await asyncio.sleep(0)

    async def _among(self, listing: Listing, others: Collection[int]) -> list[int]:
        """Those of the others that the list holds."""
        (length,) = await self._store.count_many([listing])
        if not length or not others:
            return []
        if length <= _ASK_FACTOR * len(others):
            return [id_ for id_ in (await self._store.ids(listing)).tolist() if id_ in others]
        asked: Ids = np.fromiter(others, np.int64, len(others))
        return [int(id_) for id_ in asked[await self._store.contains(listing, asked)]]


def _parts(users: Sequence[int]) -> Iterator[Sequence[int]]:
    return (users[at : at + PART] for at in range(0, len(users), PART))
