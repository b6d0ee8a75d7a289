"""Comments on posts, and replies to comments.

A comment and the edges that show and count it (`threads`) are one write. A viewer who may not see the post sees none of
its comments, and no comment of an author whom they block or who blocks them, nor the replies to it. A deleted comment,
and one whose author left, is a stub where it has replies: no text, no author, and not counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import CommentNotFound, Forbidden
from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.graphs import COMMENT_LIKES, COMMENTED
from kith.graph.shapes import Listing
from kith.people.accounts import check_active
from kith.people.privacy import Privacy, Viewer
from kith.posts.comment import TEXT_CHARS_MAX, Comment, comment_record, emptied, read_comment, with_labels
from kith.posts.engagement import Engaged, disengage, engage
from kith.posts.posts import Posts
from kith.posts.threads import Order, Threads
from kith.posts.visibility import is_gone, may_see_comment
from kith.records.claims import claim_of, first_of
from kith.records.fields import check_text
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite
from kith.records.store import AtVersion, Claim, Put, RecordKind

REPLIES_SHOWN = 2
"""How many replies a page of comments shows under each comment."""


class CommentCounts(NamedTuple):
    """How many likes and replies a comment has, exactly, and whether the viewer likes it."""

    likes: int
    replies: int
    liked: bool
    answered: bool  # by replies that count, or that were deleted and stay for theirs


class CommentPage(NamedTuple):
    """The comments of a page that the viewer may see, the page, and how many comments count in the whole list.

    `partial`: there are more comments than were ranked.
    """

    comments: list[Comment]
    page: Page
    total: int
    partial: bool = False


class Comments:
    """Creates, deletes, likes and reads comments."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._store, self._graph = posts, posts.store, posts.graph
        self._privacy, self._threads = Privacy(self._graph), Threads(self._graph)
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
        others, unchanged = set[int](), list[AtVersion]()
        if claim is None or await self._store.claimed(claim) is None:
            others, unchanged = await self._addressed(actor, post, reply_to)
        comment = Comment(id_, post, reply_to, actor, made_at_ms(id_), text)
        put = await self._put(comment, version, others, claim, unchanged)
        if not put.stored and put.claimed is None and put.refusal is None and reply_to is not None:
            raise _no_comment(reply_to)  # it was deleted meanwhile
        if claim is not None and put.claimed is not None:
            id_, version = first_of(put.claimed, claim)
            comment = msgspec.structs.replace(comment, id=id_, created_at=made_at_ms(id_))
            (there,) = await self._read([id_])
            if there is not None and there.deleted:
                raise _no_comment(id_)
            if not self._store.transactional:  # the first try may have stopped half way; writing it again finishes it
                put = await self._put(comment, version, others)
        empty = comment_record(emptied(comment), Hlc(version + 1))
        if put.refusal is Outcome.FORBIDDEN:  # a block came in between
            if not self._store.transactional:
                await self._store.put([empty])
            raise self._posts.missing(post)
        await self._posts.raise_if_inactive(actor, put, [empty], self._dropping(comment))
        return comment, put.mark

    async def _addressed(
        self, actor: NodeId, post: NodeId, reply_to: NodeId | None
    ) -> tuple[set[int], list[AtVersion]]:
        """The authors of the post and of the comment that is answered, and that this comment is as it was read; errors
        as in `create`.
        """
        commented = await self._posts.get(actor, post)
        if not commented.allow_comments:
            raise Forbidden("its author takes no comments on this post; those there are stay readable", id=str(post))
        if reply_to is None:
            return {commented.author}, []
        (record,) = await self._store.get_many(RecordKind.COMMENT, [reply_to])
        answered = await self._visible(actor, reply_to)
        if record is None or answered is None or answered.post != post:
            raise _no_comment(reply_to)
        return {commented.author, answered.author}, [AtVersion(RecordKind.COMMENT, reply_to, record.updated_at)]

    async def _put(
        self,
        comment: Comment,
        version: Hlc,
        others: Iterable[int],
        claim: Claim | None = None,
        unchanged: Sequence[AtVersion] = (),
    ) -> Put:
        """Write a comment and its edges, unless its author is inactive or has a block with one of `others`."""
        author, id_ = NodeId(comment.author), NodeId(comment.id)
        kept = Edge(self._commented, author, id_, State.NORMAL, comment.created_at, version)
        first = EdgeWrite(kept, unless=self._privacy.blocks_between(author, others), if_active=True)
        edges = [first, *self._threads.adding(comment, version)]
        return await self._store.put([comment_record(comment, version)], edges, claim=claim, only_if=unchanged)

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Empty a comment for good; for its author and the author of the post. Its replies stay, and it is not counted.

        They may do so even if one blocks the other by now, or may no longer see the post. Errors: CommentNotFound;
        Forbidden for others.
        """
        await check_active(self._graph.store, actor)

        async def empty() -> tuple[Put, tuple[Comment, bool]]:
            (record,) = await self._store.get_many(RecordKind.COMMENT, [id_])
            comment = None if record is None else read_comment(record)
            if record is None or comment is None or comment.deleted:
                raise _no_comment(id_)
            if actor != comment.author and actor != await self._posts.author_of(comment.post):
                await self.get(actor, id_)
                raise Forbidden("only its author and the author of the post may delete a comment", id=str(id_))
            (answered,) = await self._threads.answered([id_])
            put = await self._store.put(
                [comment_record(emptied(comment), next_version(self._graph.clock, record))],
                self._dropping(comment, keep=answered),
                only_if=[AtVersion(RecordKind.COMMENT, id_, record.updated_at)],
            )
            return put, (comment, answered)

        put, (comment, answered) = await rewrite("this comment", id_, empty)
        await self._prune([comment], [] if answered or comment.reply_to is None else [comment.reply_to])
        return put.mark

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty comments of a removed user and take them out of the lists that show them; may be repeated.

        `listing`: the list that is being removed. Only the list of all that a user commented matters here.
        """
        if (listing.graph, listing.direction) != (self._commented, Direction.OUT):
            return

        async def empty_those_left() -> tuple[Put, None]:
            records = await self._store.get_many(RecordKind.COMMENT, ids)
            found = [(record, read_comment(record)) for record in records if record is not None]
            left = [(record, one) for record, one in found if one.author == listing.node and not one.deleted]
            empty = [comment_record(emptied(one), next_version(self._graph.clock, record)) for record, one in left]
            answered = await self._threads.answered([one.id for _, one in left])
            edges = [
                write
                for (_, one), keep in zip(left, answered, strict=True)
                for write in self._threads.dropping(one, keep=keep)
            ]
            seen = [AtVersion(RecordKind.COMMENT, record.id, record.updated_at) for record, _ in left]
            return (await self._store.put(empty, edges, only_if=seen) if left else NOTHING_TO_DO), None

        await rewrite("a comment of this account", listing.node, empty_those_left)
        found = await self._read(ids)
        erased = [one for one in found if one is not None and one.author == listing.node]
        await self._prune(erased, [one.reply_to for one in erased if one.reply_to is not None])

    async def beside(self, listing: Listing, ids: Sequence[int]) -> list[tuple[int, int, int]]:
        """The edges that show and count the comments of a user who goes away for a time, or comes back.

        `listing` and `ids`: as in `erase`.
        """
        if (listing.graph, listing.direction) != (self._commented, Direction.OUT):
            return []
        return [place for one in await self._read(ids) if one is not None for place in self._threads.places(one)]

    async def _prune(self, deleted: Sequence[Comment], above: Sequence[int]) -> None:
        """Take deleted comments out of the lists where no reply needs them any more, and so on upwards.

        `above`: comments that lost a reply already. A comment that was answered while it was deleted is put back.
        """
        above = list(above)
        while deleted or above:
            above += await self._threads.prune(deleted) if deleted else []
            found = await self._read(list(dict.fromkeys(above)))
            deleted, above = [one for one in found if one is not None and one.deleted], []

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

    async def _visible(self, viewer: Viewer, id_: int, *, or_stub: bool = False) -> Comment | None:
        """A comment that `viewer` may see; `or_stub`: or that is shown for its replies."""
        (comment,) = await self._seen(viewer, await self._read([id_]))
        if comment is None or await self._posts.visible(viewer, [comment.post]) == [None]:
            return None
        if comment.deleted and not (or_stub and await self._threads.answered([id_]) == [True]):
            return None
        above = [] if comment.reply_to is None else await self._read([comment.reply_to])
        return None if None in await self._seen(viewer, above) else comment

    async def of_post(self, viewer: Viewer, post: NodeId, order: Order, window: Window) -> CommentPage:
        """A page of the comments on a post; PostNotFound if `viewer` may not see the post."""
        await self._posts.get(viewer, post)
        return await self._page(viewer, self._threads.of_post(post), order, window)

    async def of_comment(self, viewer: Viewer, comment: NodeId, order: Order, window: Window) -> CommentPage:
        """A page of the replies to a comment; CommentNotFound if `viewer` may see neither the comment nor a stub."""
        if await self._visible(viewer, comment, or_stub=True) is None:
            raise _no_comment(comment)
        return await self._page(viewer, self._threads.of_comment(comment), order, window)

    async def posts_of(self, ids: Sequence[int]) -> list[int | None]:
        """The post of each comment, whoever may see it; None where there is no such comment."""
        return [None if comment is None else comment.post for comment in await self._read(ids)]

    async def counts(self, viewer: Viewer, ids: Sequence[int]) -> list[CommentCounts]:
        """The counts of each comment, in one batch."""
        liking = [Listing(self._likes, id_, Direction.IN) for id_ in ids]
        answering = [self._threads.of_comment(id_) for id_ in ids]
        deleted = [listing._replace(state=State.NEGATIVE) for listing in answering]
        numbers, size = iter(await self._graph.store.count_many([*liking, *answering, *deleted])), len(ids)
        columns = [list(itertools.islice(numbers, size)) for _ in range(3)]
        own = [(int(viewer), id_) for id_ in ids] if isinstance(viewer, int) else []
        liked = await self._graph.store.exists_many(self._likes, own) if own else [False] * size
        return [
            CommentCounts(likes, replies, likes_it, bool(replies or kept))
            for likes, replies, kept, likes_it in zip(*columns, liked, strict=True)
        ]

    async def previews(self, viewer: Viewer, ids: Sequence[int]) -> list[list[Comment]]:
        """The oldest REPLIES_SHOWN replies to each of these comments, without those that `viewer` may not see."""
        window = Window(REPLIES_SHOWN)
        pages = [(await self._threads.page(self._threads.of_comment(id_), "oldest", window)).page for id_ in ids]
        found = iter(await self._listed(viewer, [mark.id for page in pages for mark in page.items]))
        return [[reply for _ in page.items if (reply := next(found)) is not None] for page in pages]

    async def _page(self, viewer: Viewer, listing: Listing, order: Order, window: Window) -> CommentPage:
        page, total, partial = await self._threads.page(listing, order, window)
        found = await self._listed(viewer, [mark.id for mark in page.items])
        return CommentPage([comment for comment in found if comment is not None], page, total, partial)

    async def _listed(self, viewer: Viewer, ids: Sequence[int]) -> list[Comment | None]:
        """The comments of a list as `viewer` sees them: a stub only where it has replies."""
        found = await self._seen(viewer, await self._read(ids))
        stubs = [comment.id for comment in found if comment is not None and comment.deleted]
        bare = {id_ for id_, kept in zip(stubs, await self._threads.answered(stubs), strict=True) if not kept}
        return [None if comment is None or comment.id in bare else comment for comment in found]

    async def _read(self, ids: Sequence[int]) -> list[Comment | None]:
        records = await self._store.get_many(RecordKind.COMMENT, ids)
        return [None if record is None else read_comment(record) for record in records]

    async def _seen(self, viewer: Viewer, comments: Sequence[Comment | None]) -> list[Comment | None]:
        """The comments as the viewer, who may see the post, sees them: a stub for each that is gone for everybody, None
        for each that the viewer must not see.
        """
        authors = await self._privacy.standings(viewer, (comment.author for comment in comments if comment is not None))

        def seen(comment: Comment) -> Comment | None:
            author = authors[comment.author]
            if may_see_comment(comment.deleted, comment.author, viewer, author):
                return with_labels(comment, author.labels)
            return emptied(comment) if is_gone(comment.deleted, author) else None

        return [None if comment is None else seen(comment) for comment in comments]

    def _dropping(self, comment: Comment, *, keep: bool = False) -> list[EdgeWrite]:
        """The writes that take a comment out of all lists; `keep`: it stays where its replies need it."""
        commented = self._graph.dropping(self._commented, NodeId(comment.author), NodeId(comment.id))
        return [commented, *self._threads.dropping(comment, keep=keep)]


def _no_comment(id_: int) -> CommentNotFound:
    return CommentNotFound("there is no such comment, or it is not there for you", id=str(id_))
