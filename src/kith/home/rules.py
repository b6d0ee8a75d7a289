"""The hard rules of home, applied last, whatever ranking says.

A post is shown if the reader may see it, follows its author (or is the author) or follows a board that pins it, and has
neither muted the author nor hidden the post. Records are read first and the rules after them, in one call, so a page
never shows a post that was deleted, or an author who was unfollowed, before the request.

Verdicts are cached by reader and post until the log has a change of the post, of its author's account, or of the
reader's follows, blocks, mutes or hides (`records.read_cache`). The result of each reader's last check is cached in the
same way. So a page is as of the generation of its request, or later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOWS, HIDES, MUTES
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.people.unrestricted import UnrestrictedPeople
from kith.posts.post import Post
from kith.posts.post_cache import PostCache
from kith.posts.visibility import visible_posts
from kith.records.cache_tables import CachedResults, CachedValues
from kith.records.store import RecordKind

AUTHORS_MAX, READERS_MAX = 20_000, 4_000
"""Authors and readers cached in a process, 0.1 KB an author."""
VERDICTS_MAX = 100
"""Verdicts cached for a reader, 0.2 KB each: a page or two."""


class _Verdict(msgspec.Struct, frozen=True, gc=False):
    """The rules' verdict on a post for a reader.

    `post`: as stored. `author`: a token of the author's account, replaced on each change of it; compare both with `is`.
    `shown`: the post as the reader sees it; None: the reader may not see it, muted its author, or hid it.
    """

    post: Post
    author: object
    shown: Post | None
    followed: bool


class _CheckResult(NamedTuple):
    """The result of a request's check: each post as the reader sees it at home; None: not shown."""

    ids: Sequence[int]
    found: Mapping[int, Post | None]


class _RuleInputs(NamedTuple):
    """The inputs of the rules. `visible`: each post as the reader may see it, or None."""

    visible: Sequence[Post | None]
    followed: Collection[int]
    muted: Collection[int]
    hidden: Collection[int]


class HomeRules:
    """Filters posts for home. `immediate`: its stores answer without waiting."""

    def __init__(self, graph: Graph, kept: PostCache, unrestricted: UnrestrictedPeople) -> None:
        self._posts, self._store, self.read_cache, self.read = kept.posts, graph.store, kept.read_cache, kept.read
        self._unrestricted, self._follows = unrestricted, graph.graphs.number(FOLLOWS)
        self._mutes, self._hides = graph.graphs.number(MUTES), graph.graphs.number(HIDES)
        self.immediate, read_cache = graph.store.immediate and kept.posts.store.immediate, kept.read_cache
        self._accounts: CachedValues[object] = read_cache.of_nodes(AUTHORS_MAX)
        relations = [graph.graphs.number(name) for name in (FOLLOWS, BLOCKS, MUTES, HIDES)]
        self._verdicts: CachedValues[dict[int, _Verdict]] = read_cache.of_edges(relations, READERS_MAX)
        self._last_checks: CachedResults[_CheckResult] = read_cache.cached_results(READERS_MAX)
        self.post_changes, self._author_changes = (
            read_cache.changes([RecordKind.POST]),
            read_cache.changes(of_nodes=True),
        )
        self._relation_changes = read_cache.changes(graphs=relations)

    def recall(self, reader: NodeId, ids: Sequence[int]) -> Mapping[int, Post | None] | None:
        """The cached result for exactly these posts, if they were the reader's last check and nothing changed."""
        looked = self._last_checks.get(reader)
        return looked.found if looked is not None and looked.ids == ids else None

    def remember(
        self,
        generation: int,
        reader: NodeId,
        ids: Sequence[int],
        read: Sequence[Post],
        found: Mapping[int, Post | None],
    ) -> None:
        """Cache the result of a check that began at `generation`. `read`: the posts that exist."""
        of_reader, post_changes = (self._relation_changes, (reader,)), (self.post_changes, set(ids))
        of_authors = (self._author_changes, {post.author for post in read})
        self._last_checks.keep(generation, reader, _CheckResult(ids, found), of_reader, post_changes, of_authors)

    async def allowed(self, reader: NodeId, posts: Sequence[Post], pinned: Container[int] = frozenset()) -> list[Post]:
        """Those of the posts, just read, that `reader` may and wants to see at home, in their order.

        `pinned`: posts on boards that the reader follows.
        """
        known, accounts = self._verdicts.now.get(reader, {}), self._accounts.now
        new = [
            post
            for post in posts
            if (one := known.get(post.id)) is None
            or one.post is not post
            or one.author is not accounts.get(post.author)
        ]
        if new:
            known = await self._judge(reader, new, known)
        found = [known[post.id] for post in posts]
        return [one.shown for one in found if one.shown is not None and (one.followed or one.post.id in pinned)]

    async def prepare(self, reader: NodeId) -> None:
        """On an engine across a network, load ahead whether the reader is in any block."""
        if not self.immediate and self.read_cache.generation:
            await self._unrestricted.load_unknown((), reader)

    async def _judge(self, reader: NodeId, posts: Sequence[Post], known: Mapping[int, _Verdict]) -> dict[int, _Verdict]:
        """Judge these posts; returns their verdicts together with the `known` ones."""
        generation, accounts = self.read_cache.generation, self._accounts.now
        authors = {post.author: accounts.get(post.author) or object() for post in posts}
        found = await self._find(reader, posts)
        followed, muted, hidden = found.followed, found.muted, found.hidden
        verdicts = {} if len(known) + len(posts) > VERDICTS_MAX else dict(known)
        for post, visible in zip(posts, found.visible, strict=True):
            wanted = None if post.author in muted or post.id in hidden else visible
            verdicts[post.id] = _Verdict(post, authors[post.author], wanted, post.author in followed)
        self._accounts.keep(generation, authors)
        newest = verdicts if len(verdicts) <= VERDICTS_MAX else dict(islice(verdicts.items(), VERDICTS_MAX))
        self._verdicts.keep(generation, {reader: newest})
        return {**known, **verdicts}

    async def excluded_by(self, reader: NodeId, post: Post, pinned: Container[int]) -> list[str]:
        """The rules that keep a visible post out of the reader's home. `pinned`: as in `allowed`."""
        found = await self._find(reader, [post])
        rules = {
            "not_followed": post.author not in found.followed and post.id not in pinned,
            "muted": post.author in found.muted,
            "hidden": post.id in found.hidden,
        }
        return [name for name, holds in rules.items() if holds]

    async def _find(self, reader: NodeId, posts: Sequence[Post]) -> _RuleInputs:
        questions, authors = Questions(), list({post.author for post in posts})
        muted = _ask_members(questions, Listing(self._mutes, reader, Direction.OUT), authors)
        hidden = _ask_members(questions, Listing(self._hides, reader, Direction.OUT), [post.id for post in posts])
        if await self._are_for_all(reader, posts, authors):
            follows = _ask_members(questions, Listing(self._follows, reader, Direction.OUT), authors)
            answers = await self._store.answer(questions)
            return _RuleInputs(posts, {reader, *follows(answers)}, muted(answers), hidden(answers))
        standings = self._posts.ask_standings(questions, reader, posts)
        if self.immediate or not self.read_cache.generation:
            answers = await self._store.answer(questions)
        else:
            answers, _ = await gather(
                False, self._store.answer(questions), self._unrestricted.load_unknown(authors, reader)
            )
        found = standings(answers)
        followed = {author for author, standing in found.items() if standing.followed or author == reader}
        return _RuleInputs(visible_posts(posts, reader, found), followed, muted(answers), hidden(answers))

    async def _are_for_all(self, reader: NodeId, posts: Sequence[Post], authors: Sequence[int]) -> bool:
        """Whether only mutes and hides can keep these posts from followers of their authors."""
        if any(post.labels or post.visibility != "public" for post in posts):
            return False
        if not self.immediate:
            return self._unrestricted.are_known_unrestricted(authors, reader)
        return await self._unrestricted.is_in_no_block(reader) and await self._unrestricted.are_unrestricted(authors)


def _ask_members(questions: Questions, listing: Listing, ids: list[int]) -> Callable[[Answers], Collection[int]]:
    """Ask which of `ids` are in a list; returns a reader of the answer."""
    at = questions.members(listing, np.array(ids, np.int64))

    def there(answers: Answers) -> Collection[int]:
        found: list[bool] = answers.members[at].tolist()
        return {id_ for id_, is_there in zip(ids, found, strict=True) if is_there} if True in found else ()

    return there
