"""/comments, and the comments on a post (article 001)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Cursor, Id, IdempotencyKey, ObjectLimit
from kith.api.presenter import CommentAnswer, CommentsAnswer, Presenter
from kith.api.resources.engagement import Liked, counted
from kith.core.gathering import gather
from kith.core.ids import parse_id
from kith.posts.comment_reader import NO_COUNTS, StoredComments
from kith.posts.comments import Comments
from kith.posts.threads import ThreadOrder

CommentSort = Annotated[
    ThreadOrder, Meta(description="top: most liked first; with many comments the like counts may be up to 5 s old.")
]


class CommentRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A new comment. `replyTo`: the comment on the same post that it answers."""

    text: str
    reply_to: int | str | None = None


class CommentsResource:
    """Comments on posts, and replies to comments."""

    def __init__(self, comments: Comments, present: Presenter) -> None:
        self._comments, self._present = comments, present

    @post("/posts/{post_id}/comments", "Comment on a post", status=201, callers="acting", quota="engagement")
    async def create_comment(
        self, call: Call, post_id: Id, body: CommentRequest, idempotency_key: IdempotencyKey = None
    ) -> CommentAnswer:
        """With `replyTo` it is a reply to another comment of the post. Replies nest at most 100 levels deep."""
        reply_to = None if body.reply_to is None else parse_id(body.reply_to, "replyTo")
        comment, authors = await gather(
            self._comments.immediate,
            call.perform_write(self._comments.create(call.acting_user, post_id, body.text, reply_to, idempotency_key)),
            self._present.authors([call.acting_user]),
        )
        counts = NO_COUNTS
        if idempotency_key is not None:  # the key may belong to an earlier request: its comment has counts by now
            (counts,) = await self._comments.counts(call.viewer, [comment.id])
        return self._present.comment(call.viewer, comment, counts, authors)

    @get("/posts/{post_id}/comments", "The comments on a post")
    async def post_comments(
        self, call: Call, post_id: Id, sort: CommentSort = "newest", limit: ObjectLimit = None, cursor: Cursor = None
    ) -> CommentsAnswer:
        """Each comment comes with its first replies. `totalCount` counts the comments of this list that are not
        `deleted`, also those that the acting user may not see; `commentCount` of the post counts replies too. A page
        may be short or empty although more follow.
        """
        list_key = f"comments {post_id} {sort}"
        window = call.window_of_objects(list_key, limit, cursor)
        return await self._page(call, list_key, await self._comments.of_post(call.viewer, post_id, sort, window))

    @get("/comments/{comment_id}/replies", "The replies to a comment")
    async def comment_replies(
        self, call: Call, comment_id: Id, sort: CommentSort = "oldest", limit: ObjectLimit = None, cursor: Cursor = None
    ) -> CommentsAnswer:
        """Sorted as the comments on a post can be."""
        list_key = f"replies {comment_id} {sort}"
        window = call.window_of_objects(list_key, limit, cursor)
        return await self._page(call, list_key, await self._comments.of_comment(call.viewer, comment_id, sort, window))

    @delete("/comments/{comment_id}", "Delete a comment", status=204, callers="acting")
    async def delete_comment(self, call: Call, comment_id: Id) -> None:
        """Permanent. The author of the comment and the author of the post may delete it. A comment with replies stays
        as a stub, marked `deleted`.
        """
        call.note_write(await self._comments.delete(call.acting_user, comment_id))

    @post("/comments/{comment_id}/like", "Like a comment", callers="acting", quota="engagement")
    async def like_comment(self, call: Call, comment_id: Id) -> Liked:
        """Repeating it changes nothing."""
        return counted(call, Liked, await self._comments.like(call.acting_user, comment_id))

    @delete("/comments/{comment_id}/like", "Remove a like", callers="acting")
    async def unlike_comment(self, call: Call, comment_id: Id) -> Liked:
        """Repeating it changes nothing."""
        return counted(call, Liked, await self._comments.unlike(call.acting_user, comment_id))

    async def _page(self, call: Call, list_key: str, stored: StoredComments) -> CommentsAnswer:
        comments, page = await self._present.comments(call.viewer, stored)
        return CommentsAnswer(comments, call.pagination(list_key, page.page), page.total, page.partial)
