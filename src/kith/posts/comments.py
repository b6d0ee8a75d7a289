"""Creates, deletes and likes comments on posts, and replies to comments.

A comment and the edges that list and count it (`threads`) are one write. A viewer who may not see the post sees none of
its comments. A viewer sees no comment of an author with whom there is a block, nor any reply below it. A comment that
was deleted, or whose author is gone, becomes a stub if it has replies: without text and author, and not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import CommentNotFound, Forbidden, InvalidContent
from kith.core.gathering import gather
from kith.core.ids import NodeId, made_at_ms
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.questions import Questions
from kith.graph.shapes import Listing
from kith.people.accounts import ask_active, check_active
from kith.posts.comment import (
    DEPTH_MAX,
    TEXT_CHARS_MAX,
    Comment,
    comment_record,
    emptied,
    has_visible_ancestry,
    read_comment,
)
from kith.posts.comment_reader import CommentReader, by_id, no_comment, with_ancestors
from kith.posts.engagement import EngagementWritten, disengage, engage
from kith.posts.mentions import mentioned_users
from kith.records.claims import claim_of, first_of
from kith.records.fields import check_text
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite
from kith.records.store import AtVersion, Claim, Put, RecordKind


class Comments(CommentReader):
    """Creates, deletes and likes comments, and reads them."""

    async def create(
        self, actor: NodeId, post: NodeId, text: str, reply_to: NodeId | None = None, key: str | None = None
    ) -> tuple[Comment, WriteMark]:
        """Create a comment of `actor` on a post, or a reply to a comment on it.

        With a `key`, a repetition within 24 h returns the same comment while it exists.

        Errors: InvalidContent, also for a reply with more than DEPTH_MAX comments above it; PostNotFound or
        CommentNotFound if that is deleted or the actor may not see it; Forbidden if the actor is deactivated or the
        post takes no comments; IdempotencyKeyReused if the key came with another comment.
        """
        check_text(text, needed=True, chars_max=TEXT_CHARS_MAX)
        id_, version = self._posts.snowflakes.next(), self._graph.clock.next()
        claim = None
        if key is not None:
            claim = claim_of("comment", actor, key, msgspec.msgpack.encode((post, reply_to, text)), id_, version)
        authors: set[int] = set()
        unchanged: list[AtVersion] = []
        if claim is None or await self._store.claimed([claim]) == [None]:
            authors, unchanged = await self._check_target(actor, post, reply_to)
        else:
            await check_active(self._graph.store, actor)
        mentioned_ids = await mentioned_users(self._store, self._privacy, actor, text)
        comment = Comment(id_, post, reply_to, actor, made_at_ms(id_), text, named=mentioned_ids)
        put = await self._put(comment, version, authors, claim, unchanged)
        again = put.claimed is not None
        if not put.stored and put.claimed is None and put.refusal is None and reply_to is not None:
            raise no_comment(reply_to)  # it was deleted meanwhile
        if claim is not None and put.claimed is not None:
            id_, version = first_of(put.claimed, claim)
            (stored,) = await self.read([id_])
            comment = stored or msgspec.structs.replace(comment, id=id_, created_at=made_at_ms(id_))
            if comment.deleted:
                raise no_comment(id_)
            # completes a first try that stopped half way, such as on a cluster whose store was moved here since
            put = await self._put(comment, version, authors)
        empty = comment_record(emptied(comment), Hlc(version + 1))
        if put.refusal is Outcome.FORBIDDEN:  # somebody blocked meanwhile
            if not self._store.transactional:
                await self._store.put([empty])
            raise self._posts.missing(post)
        await self._posts.raise_if_inactive(actor, put, [empty], self._remove_writes(comment), again=again)
        if reply_to is not None and not self._store.transactional:
            await self._relist_answered(reply_to)
        return comment, put.mark

    async def _relist_answered(self, id_: NodeId) -> None:
        """Without transactions: list a comment again that was deleted before its new reply was listed."""
        (answered,) = await self.read([id_])
        if answered is not None and answered.deleted:
            await self._prune([answered], [])

    async def _check_target(
        self, actor: NodeId, post: NodeId, reply_to: NodeId | None
    ) -> tuple[set[int], list[AtVersion]]:
        """The authors of the post and of the comments above; and the condition that `reply_to` is unchanged.

        Errors as in `create`.
        """
        (commented,), records = await gather(
            self._store.immediate, self._posts.read([post]), self._records([] if reply_to is None else [reply_to])
        )
        thread = await with_ancestors((read_comment(record) for record in records if record is not None), self.read)
        questions = Questions()
        active, visible = ask_active(questions, actor), self._posts.ask_visible(questions, actor, [commented])
        visible_thread = self.ask_visible(questions, actor, thread)
        answers = await self._graph.store.answer(questions)
        active(answers)
        (commented,) = visible(answers)
        if commented is None:
            raise self._posts.missing(post)
        if not commented.allow_comments:
            raise Forbidden("its author takes no comments on this post; those there are stay readable", id=str(post))
        if reply_to is None:
            return {commented.author}, []
        above, (record,) = by_id(visible_thread(answers)), records
        answered = above[reply_to] if has_visible_ancestry(reply_to, above) else None
        if record is None or answered is None or answered.deleted or answered.post != post:
            raise no_comment(reply_to)
        if len(above) > DEPTH_MAX:
            raise InvalidContent(f"replies go {DEPTH_MAX} levels deep; answer a comment above", field="replyTo")
        authors = {comment.author for comment in above.values() if not comment.deleted}
        return {commented.author, *authors}, [AtVersion(RecordKind.COMMENT, reply_to, record.updated_at)]

    async def _put(
        self,
        comment: Comment,
        version: Hlc,
        authors: Iterable[int],
        claim: Claim | None = None,
        unchanged: Sequence[AtVersion] = (),
    ) -> Put:
        """Write a comment and its edges, unless its author is inactive or has a block with one of `authors`."""
        author, id_ = NodeId(comment.author), NodeId(comment.id)
        edge = Edge(self._commented, author, id_, State.NORMAL, comment.created_at, version)
        author_write = EdgeWrite(edge, unless=self._privacy.blocks_between(author, authors), if_active=True)
        edges = [author_write, *self._threads.add_writes(comment, version)]
        return await self._store.put([comment_record(comment, version)], edges, claim=claim, only_if=unchanged)

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Empty a comment for good and stop counting it. Its replies stay.

        Its author and the author of the post may do this, even if there is a block between them by now or they may no
        longer see the post. Errors: CommentNotFound; Forbidden for others.
        """

        async def empty() -> tuple[Put, tuple[Comment, bool]]:
            (record,) = await self._store.get_many(RecordKind.COMMENT, [id_])
            comment, questions = None if record is None else read_comment(record), Questions()
            active, replied = ask_active(questions, actor), self._threads.ask_answered(questions, [id_])
            answers = await self._graph.store.answer(questions)
            active(answers)
            if record is None or comment is None:
                raise no_comment(id_)
            if comment.deleted:
                if not self._store.transactional:  # an earlier try may have stopped before it wrote the edges
                    await self._graph.write(self._remove_writes(comment, keep=replied(answers) == [True]))
                await self._prune([comment], [])  # or before it listed the comment for a reply that came meanwhile
                raise no_comment(id_)
            if actor != comment.author and actor != await self._posts.author_of(comment.post):
                await self.get(actor, id_)
                raise Forbidden("only its author and the author of the post may delete a comment", id=str(id_))
            (answered,) = replied(answers)
            put = await self._store.put(
                [comment_record(emptied(comment), next_version(self._graph.clock, record))],
                self._remove_writes(comment, keep=answered),
                only_if=[AtVersion(RecordKind.COMMENT, id_, record.updated_at)],
            )
            return put, (comment, answered)

        put, (comment, answered) = await rewrite("this comment", id_, empty)
        await self._prune([comment], [] if answered or comment.reply_to is None else [comment.reply_to])
        return put.mark

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty comments of a removed user and remove them from their lists. May be repeated.

        `listing`: the list that is being removed. Only the list of all comments of a user has an effect here.
        """
        if (listing.graph, listing.direction) != (self._commented, Direction.OUT):
            return

        async def empty_remaining() -> tuple[Put, None]:
            records = await self._store.get_many(RecordKind.COMMENT, ids)
            stored = [(record, read_comment(record)) for record in records if record is not None]
            remaining = [
                (record, comment)
                for record, comment in stored
                if comment.author == listing.node and not comment.deleted
            ]
            empty = [
                comment_record(emptied(comment), next_version(self._graph.clock, record))
                for record, comment in remaining
            ]
            answered = await self._threads.answered([comment.id for _, comment in remaining])
            edges = [
                write
                for (_, comment), keep in zip(remaining, answered, strict=True)
                for write in self._threads.remove_writes(comment, keep=keep)
            ]
            unchanged = [AtVersion(RecordKind.COMMENT, record.id, record.updated_at) for record, _ in remaining]
            return (await self._store.put(empty, edges, only_if=unchanged) if remaining else NOTHING_TO_DO), None

        await rewrite("a comment of this account", listing.node, empty_remaining)
        comments = await self.read(ids)
        erased = [comment for comment in comments if comment is not None and comment.author == listing.node]
        await self._prune(erased, [comment.reply_to for comment in erased if comment.reply_to is not None])

    async def beside(self, listing: Listing, ids: Sequence[int]) -> list[tuple[int, int, int]]:
        """The edges that list and count the comments of a user who is being deactivated or reactivated.

        `listing` and `ids` as in `erase`.
        """
        if (listing.graph, listing.direction) != (self._commented, Direction.OUT):
            return []
        return [
            place for comment in await self.read(ids) if comment is not None for place in self._threads.places(comment)
        ]

    async def _prune(self, deleted: Sequence[Comment], above: Sequence[int]) -> None:
        """Unlist deleted comments that have no replies left, then those above them, and so on.

        `above`: comments that lost a reply. A comment that was answered while it was deleted is listed again.
        """
        above = list(above)
        while deleted or above:
            above += await self._threads.prune(deleted) if deleted else []
            comments = await self.read(list(dict.fromkeys(above)))
            deleted, above = [comment for comment in comments if comment is not None and comment.deleted], []

    async def like(self, actor: NodeId, id_: NodeId) -> EngagementWritten:
        """Like a comment. Errors: those of `get`; Forbidden if the actor is deactivated."""
        author = (await self.get(actor, id_)).author
        return await engage(self._graph, self._likes, actor, id_, NodeId(author), CommentNotFound)

    async def unlike(self, actor: NodeId, id_: NodeId) -> EngagementWritten:
        """Undo `like`. A like of a comment that the actor may no longer see is dropped too, with a total of 0.

        CommentNotFound if they may not see the comment and do not like it.
        """
        visible = await self._visible(actor, id_) is not None
        result = await disengage(self._graph, self._likes, actor, id_, counted=visible)
        if not visible and not result.changed:
            raise no_comment(id_)
        return result

    def _remove_writes(self, comment: Comment, *, keep: bool = False) -> list[EdgeWrite]:
        """The writes that remove a comment from all lists. `keep`: it stays in its thread, because it has replies."""
        commented = self._graph.remove_write(self._commented, NodeId(comment.author), NodeId(comment.id))
        return [commented, *self._threads.remove_writes(comment, keep=keep)]
