"""/comments, and the comments of a post (article 001)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, delete, get, post
from litestar.params import Parameter

from kith.api.answers import Call
from kith.api.graphs import Cursor, ObjectLimit, PathId, token_header
from kith.api.posts import IdempotencyKey, Liked, liked
from kith.api.presenting import CommentAnswer, CommentsAnswer, present_comments
from kith.core.ids import parse_id
from kith.posts.comments import CommentPage, Order

Sort = Annotated[Order, Parameter(description="top: most liked first.", required=False)]


class CommentRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A new comment. `replyTo`: the comment on the same post that it answers."""

    text: str
    reply_to: int | str | None = None


@post("/posts/{post_id:str}/comments", summary="Comment on a post", status_code=201, name="create_comment")
async def create_comment(
    call: Call, post_id: PathId, data: CommentRequest, idempotency_key: IdempotencyKey = None
) -> Response[CommentAnswer]:
    """Or answer a comment on it."""
    reply_to = None if data.reply_to is None else parse_id(data.reply_to, "replyTo")
    comments, post = call.backend.comments, parse_id(post_id)
    made, mark = await comments.create(call.acting, post, data.text, reply_to, idempotency_key)
    (answer,) = await present_comments(call, [made])
    return Response(answer, status_code=201, headers=token_header(call.backend.token(mark)))


@get("/posts/{post_id:str}/comments", summary="The comments on a post", name="post_comments")
async def post_comments(
    call: Call, post_id: PathId, sort: Sort = "newest", limit: ObjectLimit = None, cursor: Cursor = None
) -> CommentsAnswer:
    """With the first replies to each. `totalCount` counts them all, whoever may see them: where there are some that the
    reader may not see, a page may be short, even empty, and still have more.
    """
    query = f"comments {post_id} {sort}"
    window = call.window_of_objects(query, limit, cursor)
    found = await call.backend.comments.of_post(call.caller.user, parse_id(post_id), sort, window)
    return await _shown(call, query, found)


@get("/comments/{comment_id:str}/replies", summary="The replies to a comment", name="comment_replies")
async def comment_replies(
    call: Call, comment_id: PathId, sort: Sort = "oldest", limit: ObjectLimit = None, cursor: Cursor = None
) -> CommentsAnswer:
    """In the same orders as comments."""
    query = f"replies {comment_id} {sort}"
    window = call.window_of_objects(query, limit, cursor)
    found = await call.backend.comments.of_comment(call.caller.user, parse_id(comment_id), sort, window)
    return await _shown(call, query, found)


@delete("/comments/{comment_id:str}", summary="Delete a comment", status_code=204, name="delete_comment")
async def delete_comment(call: Call, comment_id: PathId) -> Response[None]:
    """For good. Its author, and the author of the post."""
    mark = await call.backend.comments.delete(call.acting, parse_id(comment_id))
    return Response(None, status_code=204, headers=token_header(call.backend.token(mark)))


@post("/comments/{comment_id:str}/like", summary="Like a comment", status_code=200, name="like_comment")
async def like_comment(call: Call, comment_id: PathId) -> Response[Liked]:
    """Repeating it changes nothing."""
    return liked(call, await call.backend.comments.like(call.acting, parse_id(comment_id)))


@delete("/comments/{comment_id:str}/like", summary="Take a like back", status_code=200, name="unlike_comment")
async def unlike_comment(call: Call, comment_id: PathId) -> Response[Liked]:
    """Repeating it changes nothing."""
    return liked(call, await call.backend.comments.unlike(call.acting, parse_id(comment_id)))


async def _shown(call: Call, query: str, found: CommentPage) -> CommentsAnswer:
    pagination = call.backend.paging(call.caller, query, found.page)
    shown = await present_comments(call, found.comments, with_replies=True)
    return CommentsAnswer(shown, pagination, found.total, found.partial)


ROUTES = [create_comment, post_comments, comment_replies, delete_comment, like_comment, unlike_comment]
