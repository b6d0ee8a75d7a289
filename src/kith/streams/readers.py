"""Whom a change concerns: which connected users follow an author, may see a post, hid it or muted its author.

The cost depends on how many users are connected, never on how many follow. Of the author's followers and the connected
users, the shorter list is read and looked up in the longer one: in one call of the stores, or two if both are long.
Long lists are processed in parts, so that other requests get their turn.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from kith.core.clock import ms_of
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import FOLLOWS, HIDES, MUTES
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Ids, Listing
from kith.graph.walk import read_whole_list
from kith.posts.post import Post
from kith.posts.posts import Posts

PART = 500
"""Users checked at once: about a millisecond."""
_ASKED_AT_ONCE_MAX = 64
"""Up to this many users are looked up in a list of any length, by one call."""
_FIRST_READ = 512
"""Ids of the list that are read first if there are more users. Most lists are not longer."""
_ASK_FACTOR = 8
"""A list at most this many times longer than the users is read whole, which beats looking up each (as in set programs).
"""


class Audience(NamedTuple):
    """A post (None: it never existed), and the connected users who get its author's posts.

    `hidden`: whether anybody hid the post.
    """

    post: Post | None
    readers: list[int]
    hidden: bool


class PostVisibility(NamedTuple):
    """Which of some users may see a post, and which of them hid it or muted its author.

    `post`: with its author's labels. `seen`: whether each user may see it. `unwanted`: users who hid it or muted its
    author. Even a new post may be hidden already, because the log orders only the events of one source.
    """

    post: Post | None
    seen: dict[int, bool]
    unwanted: set[int]

    @property
    def wanted_by(self) -> list[int]:
        """The users who may see it, and did not hide it or mute its author."""
        return [user for user, sees in self.seen.items() if sees and user not in self.unwanted]


class Readers:
    """Queries the graph and the posts about users and authors."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._store = posts, posts.graph.store
        self.immediate = self._store.immediate
        number = posts.graph.graphs.number
        self._follows, self._mutes, self._hides = number(FOLLOWS), number(MUTES), number(HIDES)

    async def read(self, posts: Sequence[int]) -> list[Post | None]:
        """Each post as stored, or None if it never existed. Visibility is not checked."""
        return await self._posts.read(posts) if posts else []

    async def followers(self, author: int, connected: Collection[int]) -> list[int]:
        """Connected users who follow the author."""
        return await self._members(Listing(self._follows, author, Direction.IN), connected)

    async def followed(self, user: NodeId, authors: Collection[int]) -> set[int]:
        """Which of the authors the user follows, and the user too if they are one of the authors."""
        followed = set(await self._members(Listing(self._follows, user, Direction.OUT), authors))
        return followed | {int(user)} if user in authors else followed

    async def followed_back_until(self, user: NodeId, authors: Collection[int]) -> dict[int, float]:
        """Until when each author followed the user, in ms since the epoch: 0 if never, infinity if they still do."""
        rows = await self._store.get_many(self._follows, [(author, user) for author in authors])
        return {
            author: 0 if row is None else math.inf if row.state is State.NORMAL
            else max(ms_of(row.updated_at), row.expires_ms)
            for author, row in zip(authors, rows, strict=True)
        }  # fmt: skip

    async def unmuted(self, user: NodeId, authors: Collection[int]) -> set[int]:
        """Which of the authors the user did not mute."""
        mutes = await self._store.exists_many(self._mutes, [(user, author) for author in authors])
        return {author for author, is_muted in zip(authors, mutes, strict=True) if not is_muted}

    async def wanted(self, user: NodeId, posts: Sequence[Post]) -> list[Post]:
        """The posts that the user did not hide, by authors whom the user did not mute."""
        questions = Questions()
        muted = questions.states((self._mutes, user, post.author) for post in posts)
        hidden = questions.states((self._hides, user, NodeId(post.id)) for post in posts)
        states = (await self._store.answer(questions)).states
        checked = zip(posts, states[muted], states[hidden], strict=True)
        return [post for post, *states_of_post in checked if State.NORMAL not in states_of_post]

    async def audience(self, post: int, author: int, connected: Collection[int]) -> Audience:
        """A post, and the connected users who get its author's posts: followers and the author."""
        questions = Questions()
        followers = self._ask_members(questions, Listing(self._follows, author, Direction.IN), connected)
        hides = questions.counts([Listing(self._hides, post, Direction.IN)])
        (stored,), answers = await gather(self.immediate, self._posts.read([post]), self._store.answer(questions))
        users = await followers(answers)
        (hidden,) = answers.counts[hides]
        author_too = [author] if author in connected and author not in users else []
        return Audience(stored, [*users, *author_too], hidden > 0)

    async def visibilities(
        self, audience: Audience, users: Sequence[int], *, deleted_too: bool = False
    ) -> AsyncIterator[PostVisibility]:
        """For each part of the users: which of them may see the audience's post, and want it.

        `deleted_too`: also if the post is deleted, as if it were not.
        """
        post = audience.post
        for part in _parts(users):
            if post is None:
                yield PostVisibility(None, dict.fromkeys(part, False), set())
                continue
            questions = Questions()
            visible_to = self._posts.ask_visible_to(questions, post, part, deleted_too=deleted_too)
            mutes = questions.states((self._mutes, user, post.author) for user in part)
            hides = questions.states((self._hides, user, post.id) for user in part if audience.hidden)
            answers = await self._store.answer(questions)
            visible_post, seen = visible_to(answers)
            muted, hidden = answers.states[mutes], answers.states[hides]
            unwanted = {user for rows in (muted, hidden) for user, row in zip(part, rows) if row is State.NORMAL}  # noqa: B905
            yield PostVisibility(visible_post, dict(zip(part, seen, strict=True)), unwanted)
            await asyncio.sleep(0)

    async def visible_to(
        self, post: int, users: Sequence[int], *, deleted_too: bool = False
    ) -> AsyncIterator[tuple[Post | None, dict[int, bool]]]:
        """For each part of the users: the post, and which of them may see it. `deleted_too`: also if it is deleted."""
        for part in _parts(users):
            visible_post, seen = await self._posts.visible_to(post, part, deleted_too=deleted_too)
            yield visible_post, dict(zip(part, seen, strict=True))
            await asyncio.sleep(0)

    async def _members(self, listing: Listing, ids: Collection[int]) -> list[int]:
        """The `ids` that the list holds."""
        questions = Questions()
        read_members = self._ask_members(questions, listing, ids)
        return await read_members(await self._store.answer(questions))

    def _ask_members(
        self, questions: Questions, listing: Listing, ids: Collection[int]
    ) -> Callable[[Answers], Awaitable[list[int]]]:
        """Ask which of `ids` the list holds; returns a function of the answers. It reads more if both are long."""
        wanted_ids: Ids = np.fromiter(ids, np.int64, len(ids))
        if len(ids) <= _ASKED_AT_ONCE_MAX:
            members = questions.members(listing, wanted_ids)

            async def read_members(answers: Answers) -> list[int]:
                return cast(list[int], wanted_ids[answers.members[members]].tolist())

            return read_members
        lengths, first_page = questions.counts([listing]), questions.page(listing, Window(_FIRST_READ))

        async def read_long(answers: Answers) -> list[int]:
            (length,), page = answers.counts[lengths], answers.pages[first_page]
            if not page.more_after:
                return [mark.id for mark in page.items if mark.id in ids]
            if length <= _ASK_FACTOR * len(ids):
                return [id_ for id_ in (await read_whole_list(self._store, listing)).tolist() if id_ in ids]
            return cast(list[int], wanted_ids[await self._store.contains(listing, wanted_ids)].tolist())

        return read_long


def _parts(users: Sequence[int]) -> Iterator[Sequence[int]]:
    return (users[start : start + PART] for start in range(0, len(users), PART))
