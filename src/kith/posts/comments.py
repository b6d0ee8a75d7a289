"""Comments on posts, and replies to comments.

A comment is in the list of its post (graph `comments`), a reply in the list of the comment that it answers (graph
`replies`); edge and record are one write. A viewer who may not see the post sees none of its comments, and no comment
of an author whom they block or who blocks them. Limit: the order `top` ranks the newest RANKED_MAX, and the page says
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import CommentNotFound, Forbidden
from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Mark, Page, Window, cut
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.graphs import COMMENT_LIKES, COMMENTED, COMMENTS, REPLIES
from kith.graph.store import Listing
from kith.graph.walk import BELOW_ALL
from kith.people.accounts import check_active
from kith.people.privacy import Privacy, Viewer
from kith.posts.engagement import Engaged, disengage, engage
from kith.posts.posts import Posts
from kith.posts.visibility import may_see_comment
from kith.records.claims import claim_of, first_of
from kith.records.fields import check_text
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind

Order = Literal["top", "newest", "oldest"]
TEXT_CHARS_MAX = 2_000
RANKED_MAX = 2_000
REPLIES_SHOWN = 2
"""How many replies a page of comments shows under each comment."""


class Comment(msgspec.Struct, frozen=True, array_like=True):
    """A comment, as stored: an array in this order. New fields come last and have a default."""

    id: int
    post: int
    reply_to: int | None  # the comment it answers
    author: int
    created_at: int  # ms since the epoch
    text: str
    deleted: bool = False
    labels: int = 0
    """The author's labels (`core.labels`), set by `Comments` on every read; never stored."""


class CommentCounts(NamedTuple):
    """How many likes and replies a comment has, exactly, and whether the viewer likes it."""

    likes: int
    replies: int
    liked: bool


class CommentPage(NamedTuple):
    """The comments of a page that the viewer may see, the page, and the length of the whole list.

    `partial`: there are more comments than were ranked.
    """

    comments: list[Comment]
    page: Page
    total: int
    partial: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Comment).decode


class Comments:
    """Creates, deletes, likes and reads comments."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._store, self._graph = posts, posts.store, posts.graph
        self._privacy = Privacy(self._graph)
        self._comments, self._replies = self._graph.graphs.number(COMMENTS), self._graph.graphs.number(REPLIES)
        self._likes, self._commented = (
            self._graph.graphs.number(COMMENT_LIKES), self._graph.graphs.number(COMMENTED)
        )  # fmt: skip

    async def create(
        self, actor: NodeId, post: NodeId, text: str, reply_to: NodeId | None = None, key: str | None = None
    ) -> tuple[Comment, WriteMark]:
        """Create a comment of `actor` on a post, or a reply to a comment on it. With a `key`, a repetition within 24 h
        returns the same comment while it exists.

        Errors: InvalidContent; PostNotFound or CommentNotFound if it is deleted or the actor may not see it; Forbidden
        if the actor is deactivated or the post takes no comments; IdempotencyKeyReused if the key came with another
        comment.
        """
        check_text(text, needed=True, chars_max=TEXT_CHARS_MAX)
        await check_active(self._graph.store, actor)
        id_, version = self._posts.snowflakes.next(), self._graph.clock.next()
        claim = None
        if key is not None:
            claim = claim_of("comment", actor, key, msgspec.msgpack.encode((post, reply_to, text)), id_, version)
        others: set[int] = set()
        if claim is None or await self._store.claimed(claim) is None:
            others = await self._addressed(actor, post, reply_to)
        comment = Comment(id_, post, reply_to, actor, made_at_ms(id_), text)
        put = await self._put(comment, version, others, claim)
        if claim is not None and put.claimed is not None:
            id_, version = first_of(put.claimed, claim)
            comment = msgspec.structs.replace(comment, id=id_, created_at=made_at_ms(id_))
            (there,) = await self._read([id_])
            if there is not None and there.deleted:
                raise _no_comment(id_)
            if not self._store.transactional:  # the first try may have stopped half way; writing it again finishes it
                put = await self._put(comment, version, others)
        empty = Record(RecordKind.COMMENT, id_, Hlc(version + 1), _encode(_emptied(comment)))
        if put.refusal is Outcome.FORBIDDEN:  # a block came in between
            if not self._store.transactional:
                await self._store.put([empty])
            raise self._posts.missing(post)
        dropping = [self._graph.dropping(*place, id_) for place in self._places(comment)]
        await self._posts.raise_if_inactive(actor, put, [empty], dropping)
        return comment, put.mark

    async def _addressed(self, actor: NodeId, post: NodeId, reply_to: NodeId | None) -> set[int]:
        """The authors of the post and of the comment that is answered; errors as in `create`."""
        commented = await self._posts.get(actor, post)
        if not commented.allow_comments:
            raise Forbidden("its author takes no comments on this post; those there are stay readable", id=str(post))
        if reply_to is None:
            return {commented.author}
        answered = await self._visible(actor, reply_to)
        if answered is None or answered.post != post:
            raise _no_comment(reply_to)
        return {commented.author, answered.author}

    async def _put(self, comment: Comment, version: Hlc, others: Iterable[int], claim: Claim | None = None) -> Put:
        """Write a comment and its edges, unless its author is inactive or has a block with one of `others`."""
        shown, kept = (
            Edge(*place, NodeId(comment.id), State.NORMAL, comment.created_at, version)
            for place in self._places(comment)
        )
        blocks = self._privacy.blocks_between(NodeId(comment.author), others)
        edges = [EdgeWrite(kept, unless=blocks, if_active=True), EdgeWrite(shown, chained=True)]
        record = Record(RecordKind.COMMENT, comment.id, version, _encode(comment))
        return await self._store.put([record], edges, claim=claim)

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Empty a comment for good and remove it from its list; for its author and the author of the post.

        They may do so even if one blocks the other by now, or may no longer see the post. Errors: CommentNotFound;
        Forbidden for others.
        """
        await check_active(self._graph.store, actor)

        async def empty() -> tuple[Put, None]:
            (record,) = await self._store.get_many(RecordKind.COMMENT, [id_])
            comment = None if record is None else _decode(record.data)
            if record is None or comment is None or comment.deleted:
                raise _no_comment(id_)
            if actor != comment.author and actor != await self._posts.author_of(comment.post):
                await self.get(actor, id_)
                raise Forbidden("only its author and the author of the post may delete a comment", id=str(id_))
            version = next_version(self._graph.clock, record)
            put = await self._store.put(
                [Record(RecordKind.COMMENT, id_, version, _encode(_emptied(comment)))],
                [self._graph.dropping(*place, id_) for place in self._places(comment)],
                only_if=[AtVersion(RecordKind.COMMENT, id_, record.updated_at)],
            )
            return put, None

        put, _ = await rewrite("this comment", id_, empty)
        return put.mark

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty comments of a removed user and remove them from the lists that show them; may be repeated.

        `listing`: the list that is being removed. Only the list of all that a user commented matters here.
        """
        if (listing.graph, listing.direction) != (self._commented, Direction.OUT):
            return

        async def empty_those_left() -> tuple[Put, None]:
            records = await self._store.get_many(RecordKind.COMMENT, ids)
            found = [(record, _decode(record.data)) for record in records if record is not None]
            left = [(record, one) for record, one in found if one.author == listing.node and not one.deleted]
            empty = [
                Record(RecordKind.COMMENT, one.id, next_version(self._graph.clock, record), _encode(_emptied(one)))
                for record, one in left
            ]
            edges = [self._graph.dropping(*self._places(one)[0], NodeId(one.id)) for _, one in left]
            seen = [AtVersion(RecordKind.COMMENT, record.id, record.updated_at) for record, _ in left]
            return (await self._store.put(empty, edges, only_if=seen) if left else NOTHING_TO_DO), None

        await rewrite("a comment of this account", listing.node, empty_those_left)

    async def like(self, actor: NodeId, id_: NodeId) -> Engaged:
        """Like a comment. Errors as in `get`; Forbidden if the actor is deactivated."""
        author = (await self.get(actor, id_)).author
        return await engage(self._graph, self._likes, actor, id_, NodeId(author), CommentNotFound)

    async def unlike(self, actor: NodeId, id_: NodeId) -> Engaged:
        """Undo `like`. A like of a comment that the actor may no longer see is dropped too, with a total of 0.

        CommentNotFound if they may not see the comment and do not like it.
        """
        there = await self._visible(actor, id_) is not None
        found = await disengage(self._graph, self._likes, actor, id_, counted=there)
        if not there and not found.changed:
            raise _no_comment(id_)
        return found

    async def get(self, viewer: Viewer, id_: int) -> Comment:
        """A comment. CommentNotFound unless `viewer` may see it, its post, and the comment that it answers."""
        comment = await self._visible(viewer, id_)
        if comment is None:
            raise _no_comment(id_)
        return comment

    async def _visible(self, viewer: Viewer, id_: int) -> Comment | None:
        (comment,) = await self._filtered(viewer, await self._read([id_]))
        if comment is None or await self._posts.visible(viewer, [comment.post]) == [None]:
            return None
        answered = [] if comment.reply_to is None else await self._read([comment.reply_to])
        return None if None in await self._filtered(viewer, answered) else comment

    async def of_post(self, viewer: Viewer, post: NodeId, order: Order, window: Window) -> CommentPage:
        """A page of the comments on a post; PostNotFound if `viewer` may not see the post."""
        await self._posts.get(viewer, post)
        return await self._page(viewer, Listing(self._comments, post, Direction.OUT), order, window)

    async def of_comment(self, viewer: Viewer, comment: NodeId, order: Order, window: Window) -> CommentPage:
        """A page of the replies to a comment; CommentNotFound if `viewer` may not see the comment."""
        await self.get(viewer, comment)
        return await self._page(viewer, Listing(self._replies, comment, Direction.OUT), order, window)

    async def posts_of(self, ids: Sequence[int]) -> list[int | None]:
        """The post of each comment, whoever may see it; None where there is no such comment."""
        return [None if comment is None else comment.post for comment in await self._read(ids)]

    async def counts(self, viewer: Viewer, ids: Sequence[int]) -> list[CommentCounts]:
        """The counts of each comment, in one batch."""
        likes = [Listing(self._likes, id_, Direction.IN) for id_ in ids]
        replies = [Listing(self._replies, id_, Direction.OUT) for id_ in ids]
        numbers = await self._graph.store.count_many([*likes, *replies])
        own = [(int(viewer), id_) for id_ in ids] if isinstance(viewer, int) else []
        liked = await self._graph.store.exists_many(self._likes, own) if own else [False] * len(ids)
        return [CommentCounts(*row) for row in zip(numbers[: len(ids)], numbers[len(ids) :], liked, strict=True)]

    async def previews(self, viewer: Viewer, ids: Sequence[int]) -> list[list[Comment]]:
        """The oldest REPLIES_SHOWN replies to each of these comments, without those that `viewer` may not see."""
        window = reversed_window(Window(REPLIES_SHOWN))
        pages = [await self._graph.store.page(Listing(self._replies, id_, Direction.OUT), window) for id_ in ids]
        found = iter(await self._filtered(viewer, await self._read([mark.id for page in pages for mark in page.items])))
        return [[reply for _ in page.items if (reply := next(found)) is not None][::-1] for page in pages]

    async def _page(self, viewer: Viewer, listing: Listing, order: Order, window: Window) -> CommentPage:
        (total,) = await self._graph.store.count_many([listing])
        match order:
            case "top":
                page = cut(await self._ranked(listing), window)
            case "newest":
                page = await self._graph.store.page(listing, window)
            case "oldest":
                page = reversed_page(await self._graph.store.page(listing, reversed_window(window)))
        found = await self._filtered(viewer, await self._read([mark.id for mark in page.items]))
        shown = [comment for comment in found if comment is not None]
        return CommentPage(shown, page, total, order == "top" and total > RANKED_MAX)

    async def _ranked(self, listing: Listing) -> list[Mark]:
        """(likes, id) of the newest RANKED_MAX, the most liked first, then the newest."""
        ids = (await self._graph.store.ids(listing, RANKED_MAX)).tolist()
        likes = await self._graph.store.count_many([Listing(self._likes, id_, Direction.IN) for id_ in ids])
        return sorted(map(Mark, likes, ids), reverse=True)

    async def _read(self, ids: Sequence[int]) -> list[Comment | None]:
        records = await self._store.get_many(RecordKind.COMMENT, ids)
        return [None if record is None else _decode(record.data) for record in records]

    async def _filtered(self, viewer: Viewer, comments: Sequence[Comment | None]) -> list[Comment | None]:
        """The comments, with None for each that the viewer, who may see the post, must not see."""
        authors = await self._privacy.standings(viewer, (comment.author for comment in comments if comment is not None))
        return [
            _labelled(comment, authors[comment.author].labels)
            if comment is not None and may_see_comment(comment.deleted, comment.author, viewer, authors[comment.author])
            else None
            for comment in comments
        ]

    def _places(self, comment: Comment) -> tuple[tuple[int, NodeId], tuple[int, NodeId]]:
        """The two lists of a comment as (graph, node): the one that shows it, and the one of all its author wrote."""
        commented = self._commented, NodeId(comment.author)
        if comment.reply_to is None:
            return (self._comments, NodeId(comment.post)), commented
        return (self._replies, NodeId(comment.reply_to)), commented


def reversed_window(window: Window) -> Window:
    """The window of a list, newest first, for a `window` of the same list, oldest first."""
    if window.before is not None:
        return window._replace(after=window.before, before=None)
    return window._replace(after=None, before=window.after or BELOW_ALL)


def reversed_page(page: Page) -> Page:
    """The same page in the other order."""
    return Page(page.items[::-1], page.more_before, page.more_after, page.covers and page.covers[::-1])


def _emptied(comment: Comment) -> Comment:
    """What remains of a deleted comment: its author and its place, no text."""
    return msgspec.structs.replace(comment, text="", deleted=True, labels=0)


def _labelled(comment: Comment, labels: int) -> Comment:
    return msgspec.structs.replace(comment, labels=labels) if labels else comment


def _no_comment(id_: int) -> CommentNotFound:
    return CommentNotFound("there is no such comment, or it is not there for you", id=str(id_))
