"""Posts and comments as clients get them: with their authors and numbers, one batch a kind for a whole page.

Times are RFC 3339 in UTC. Ids are strings; counts are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from kith.api.answers import Call, IdItem
from kith.api.backend import Pagination
from kith.objects.comments import Comment
from kith.objects.posts import NO_ATTRIBUTES, Post, PostType, Visibility

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AuthorAnswer(msgspec.Struct, frozen=True):
    """Who made it. `avatar`: id of a media object."""

    id: str
    name: str
    avatar: str | None


class ContentAnswer(msgspec.Struct, frozen=True):
    """What a post says."""

    type: PostType
    text: str
    link: str | None
    media: list[IdItem]


class EngagementAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What a post has got, exactly; `isLiked` and `isSaved` by the acting user."""

    like_count: int
    comment_count: int
    share_count: int
    view_count: int
    is_liked: bool
    is_saved: bool


class RankingAnswer(msgspec.Struct, frozen=True):
    """A post's score, 0 to 1, and what gave most of it: friend_interaction, recent, popular, content_type, own_post."""

    score: float
    reason: str


class PostAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A post. `audience` is there for its author only, where the visibility is custom; `ranking` in a ranked feed."""

    id: str
    author: AuthorAnswer
    content: ContentAnswer
    engagement: EngagementAnswer
    visibility: Visibility
    audience: list[str] | None
    mentions: list[str]
    attributes: dict[str, Any]
    created_at: datetime
    edited_at: datetime | None
    ranking: RankingAnswer | msgspec.UnsetType = msgspec.UNSET


class PostsAnswer(msgspec.Struct, frozen=True):
    """A page of posts, newest first; it may be short and still have more."""

    items: list[PostAnswer]
    pagination: Pagination


class CommentAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A comment. `replyTo`: the comment it answers."""

    id: str
    post: str
    reply_to: str | None
    author: AuthorAnswer
    text: str
    like_count: int
    reply_count: int
    is_liked: bool
    created_at: datetime


class CommentsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A page of comments. `partial`: the order `top` ranked the newest only, and there are more."""

    items: list[CommentAnswer]
    pagination: Pagination
    total_count: int
    partial: bool


async def present_posts(
    call: Call, posts: Sequence[Post], rankings: Mapping[int, RankingAnswer] = MappingProxyType({})
) -> list[PostAnswer]:
    """Posts that the caller may see, as answers. `rankings`: of those that have one."""
    if not posts:
        return []
    viewer, backend = call.caller.user, call.backend
    authors = await authors_of(call, [post.author for post in posts])
    counts = await backend.engagement.counts(viewer, [post.id for post in posts])
    return [
        PostAnswer(
            id=str(post.id),
            author=authors[post.author],
            content=content_of(post),
            engagement=EngagementAnswer(*numbers),
            visibility=post.visibility,
            audience=list(map(str, post.audience)) if post.audience and viewer in (None, post.author) else None,
            mentions=list(map(str, post.mentions)),
            attributes=read_attributes(post.attributes),
            created_at=time_of(post.created_at),
            edited_at=time_of(post.edited_at) if post.edited_at else None,
            ranking=rankings.get(post.id, msgspec.UNSET),
        )
        for post, numbers in zip(posts, counts, strict=True)
    ]


async def present_comments(call: Call, comments: Sequence[Comment]) -> list[CommentAnswer]:
    """Comments that the caller may see, as answers."""
    if not comments:
        return []
    authors = await authors_of(call, [comment.author for comment in comments])
    counts = await call.backend.comments.counts(call.caller.user, [comment.id for comment in comments])
    return [
        CommentAnswer(
            id=str(comment.id),
            post=str(comment.post),
            reply_to=None if comment.reply_to is None else str(comment.reply_to),
            author=authors[comment.author],
            text=comment.text,
            like_count=numbers.likes,
            reply_count=numbers.replies,
            is_liked=numbers.liked,
            created_at=time_of(comment.created_at),
        )
        for comment, numbers in zip(comments, counts, strict=True)
    ]


def content_of(post: Post) -> ContentAnswer:
    """What a post says, as an answer."""
    return ContentAnswer(post.type, post.text, post.link, [IdItem(str(id_)) for id_ in post.media])


def time_of(ms: int) -> datetime:
    """Milliseconds since the epoch as a time."""
    return _EPOCH + timedelta(milliseconds=ms)


def read_attributes(packed: bytes) -> dict[str, Any]:
    """An app's own JSON object."""
    return {} if packed == NO_ATTRIBUTES else msgspec.json.decode(packed, type=dict[str, Any])


async def authors_of(call: Call, ids: Sequence[int]) -> dict[int, AuthorAnswer]:
    """The users with these ids, as they stand beside what they made; one batch."""
    known = list(dict.fromkeys(ids))
    profiles = await call.backend.profiles.get_many(known)
    return {
        id_: AuthorAnswer(str(id_), profile.name, None if profile.avatar is None else str(profile.avatar))
        for id_, profile in zip(known, profiles, strict=True)
    }
