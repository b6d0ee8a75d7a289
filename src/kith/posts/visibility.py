"""Who may see which post or comment: the hard rules, which no ranking and no route may break. Pure.

The standing of an author to a viewer comes from `people.privacy`, in batches. A post's labels are in its record.

Names are the same for all kinds of things: `may_see` decides about one thing, `visible_posts` and the like about many.
`ask_visible` asks the graph for what they need; `visible` reads, asks and decides for one viewer, `visible_to` for many
viewers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kith.core.labels import HIDE, LIMIT
from kith.graph.edge import State
from kith.people.privacy import SYSTEM, Standing, Viewer
from kith.posts.comment import Comment, emptied, with_author_labels
from kith.posts.post import Post, with_labels


def may_see(post: Post, viewer: Viewer, author: Standing) -> bool:
    """Whether `viewer` may see the post. Authors see their own posts, whatever the labels."""
    if post.deleted or author.state == State.REMOVED:
        return False
    if viewer is SYSTEM or viewer == post.author:
        return True
    if author.state != State.NORMAL or author.blocked or (author.private and not author.followed):
        return False
    if _hidden_by_labels(post.labels | author.labels, author.followed):
        return False
    match post.visibility:
        case "public":
            return True
        case "friends":
            return author.followed and author.follows_back
        case "custom":
            return viewer is not None and viewer in post.audience
        case "private":
            return False


def visible_posts(posts: Sequence[Post | None], viewer: Viewer, authors: Mapping[int, Standing]) -> list[Post | None]:
    """Each post with its author's labels, or None if `viewer` must not see it. `authors`: the authors' standings."""
    return [
        with_labels(post, authors[post.author].labels)
        if post is not None and not post.deleted and may_see(post, viewer, authors[post.author])
        else None
        for post in posts
    ]


def may_see_comment(deleted: bool, by: int, viewer: Viewer, author: Standing) -> bool:
    """Whether `viewer`, who may see the post, may see a comment on it. `by`: the author; `author`: their standing."""
    if deleted or author.state == State.REMOVED:
        return False
    if viewer is SYSTEM or viewer == by:
        return True
    if viewer is None and author.private:
        return False
    return author.state == State.NORMAL and not author.blocked and not _hidden_by_labels(author.labels, author.followed)


def visible_comments(
    comments: Sequence[Comment | None], viewer: Viewer, authors: Mapping[int, Standing]
) -> list[Comment | None]:
    """What `viewer`, who may see the post, sees of each comment. `authors`: the standings of their authors to `viewer`.

    That is the comment with its author's labels; a stub if it is gone for everybody; None if `viewer` must not see it.
    """

    def visible(comment: Comment, author: Standing) -> Comment | None:
        if may_see_comment(comment.deleted, comment.author, viewer, author):
            return with_author_labels(comment, author.labels)
        return emptied(comment) if _is_gone(comment.deleted, author) else None

    return [None if comment is None else visible(comment, authors[comment.author]) for comment in comments]


def _is_gone(deleted: bool, author: Standing) -> bool:
    """Whether a comment is gone for everybody: it was deleted, or its author is not active. Its replies may stay."""
    return deleted or author.state != State.NORMAL


def _hidden_by_labels(labels: int, followed: bool) -> bool:
    """Whether labels hide something from a viewer who did not make it. `followed`: the viewer follows its author."""
    return bool(labels & HIDE or (labels & LIMIT and not followed))
