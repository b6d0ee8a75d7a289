"""Calls about comments. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from kith.client.answers import Id
from kith.client.asking import BASE, PAGE_SIZE, checked_id, listed, nothing, once, reader
from kith.client.objects import Comment, CommentPage, Liked, Sort
from kith.client.posts import post_path
from kith.client.wire import Call

_comment = reader(Comment)
_page = reader(CommentPage)
_liked = reader(Liked)


def create_comment(post: Id, text: str, *, reply_to: Id | None = None, key: str | None = None) -> Call[Comment]:
    """Comment on a post, or reply to its comment `reply_to`. `key`: the idempotency key, as in `create_post`."""
    body = {"text": text} if reply_to is None else {"text": text, "replyTo": checked_id(reply_to, "reply_to")}
    return Call("POST", f"{post_path(post)}/comments", _comment, body=body, headers=once(key))


def post_comments(
    post: Id, *, sort: Sort = "newest", page_size: int = PAGE_SIZE, cursor: str | None = None
) -> Call[CommentPage]:
    """The comments on a post, each with its oldest replies. `sort`: `newest`, `oldest`, or `top` (most liked) first."""
    return listed(f"{post_path(post)}/comments", _page, page_size, cursor).asking(sort=sort)


def comment_replies(
    comment: Id, *, sort: Sort = "oldest", page_size: int = PAGE_SIZE, cursor: str | None = None
) -> Call[CommentPage]:
    """The replies to a comment; `sort` as in `post_comments`."""
    return listed(f"{_path(comment)}/replies", _page, page_size, cursor).asking(sort=sort)


def delete_comment(comment: Id) -> Call[None]:
    """Delete a comment, for good. Only its author and the author of the post may."""
    return Call("DELETE", _path(comment), nothing, deletes=True)


def like_comment(comment: Id) -> Call[Liked]:
    """Like a comment; repeating it changes nothing."""
    return Call("POST", f"{_path(comment)}/like", _liked)


def unlike_comment(comment: Id) -> Call[Liked]:
    """Undo `like_comment`; repeating it changes nothing."""
    return Call("DELETE", f"{_path(comment)}/like", _liked)


def _path(comment: Id) -> str:
    return f"{BASE}/comments/{checked_id(comment, 'comment')}"
