"""Posts, comments and media as clients get them, with authors and counts. A whole page takes one batch read per kind.

Times are RFC 3339 in UTC. Ids are strings; counts are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from kith.api.answers import Pagination, Time
from kith.core.gathering import gather
from kith.core.labels import shown
from kith.core.paging import Page
from kith.media.library import MediaLibrary
from kith.media.media import Media, MediaType, key_of, thumbnail_key_of
from kith.notifications.answer_cache import RecordedReads
from kith.people.privacy import SYSTEM, Viewer
from kith.people.profiles import Profile, Profiles, read_profile
from kith.posts.comment import Comment
from kith.posts.comment_reader import CommentCounts, CommentPage, CommentReader, StoredComments
from kith.posts.engagement import Engagement, PostCounts
from kith.posts.post import Post, PostType, Visibility
from kith.posts.posts import Prefetch
from kith.records.fields import NO_ATTRIBUTES
from kith.records.store import RecordKind


class MediaAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A picture or video. Everyone who knows its URL can see it. Videos have no thumbnail."""

    id: str
    type: MediaType
    url: str
    thumbnail_url: str | None
    width: int
    height: int
    alt_text: str


class AuthorAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The author of a post, comment or story, or another user."""

    id: str
    username: str | None
    display_name: str
    avatar_url: str | None
    is_verified: bool


class UserItem(msgspec.Struct, frozen=True):
    """A user in a list, with their position in it."""

    id: str
    position: str
    user: AuthorAnswer


class UsersAnswer(msgspec.Struct, frozen=True):
    """A page of users, newest first. A page may be short although more follow."""

    items: list[UserItem]
    pagination: Pagination


class ContentAnswer(msgspec.Struct, frozen=True):
    """The content of a post."""

    type: PostType
    text: str
    link: str | None
    media: list[MediaAnswer]


class EngagementAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The exact counts of a post. `commentCount` counts comments and replies. `isLiked`, `isSaved`, `isShared`: by
    the acting user.
    """

    like_count: int
    comment_count: int
    share_count: int
    view_count: int
    is_liked: bool
    is_saved: bool
    is_shared: bool


class RankingAnswer(msgspec.Struct, frozen=True):
    """A post's score, 0 to 1, and the main reason for it: friend_interaction, recent, popular, content_type or
    own_post; followed_board if a board brought the post.
    """

    score: float
    reason: str


class LocationAnswer(msgspec.Struct, frozen=True):
    """Where a post is from, in degrees."""

    latitude: float
    longitude: float
    name: str


class PostAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A post. `audience`: for its author only, and only if the visibility is `custom`. `labels` come from
    the app's moderation: everyone sees `sensitive`, only the author sees `hide` and `limit`.

    Only in a ranked feed: `ranking`; `seen`, true if the acting user saw the post before; `copies`, the copies of this
    post that are left out.
    """

    id: str
    author: AuthorAnswer
    content: ContentAnswer
    engagement: EngagementAnswer
    visibility: Visibility
    audience: list[str] | None
    mentions: list[str]
    attributes: dict[str, Any]
    allow_comments: bool
    allow_sharing: bool
    location: LocationAnswer | None
    labels: list[str]
    created_at: Time
    edited_at: Time | None
    ranking: RankingAnswer | msgspec.UnsetType = msgspec.UNSET
    seen: bool | msgspec.UnsetType = msgspec.UNSET
    copies: list[str] | msgspec.UnsetType = msgspec.UNSET


class PostsAnswer(msgspec.Struct, frozen=True):
    """A page of posts, newest first. If there are very many, a page may be short although more follow."""

    items: list[PostAnswer]
    pagination: Pagination


class CommentAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A comment. `replyTo`: the comment that it answers. `replies`: its oldest replies, if it is an entry of a page;
    `replyCount` counts all replies. `labels`: those of its author, shown as on posts. `deleted`: the comment was
    deleted or its author left; only a stub without text and author remains, to hold its replies.
    """

    id: str
    post: str
    reply_to: str | None
    author: AuthorAnswer | None
    text: str
    like_count: int
    reply_count: int
    is_liked: bool
    labels: list[str]
    created_at: Time
    deleted: bool
    replies: list[CommentAnswer]


class CommentsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A page of comments. `partial`: the order `top` ranked only the newest comments, and there are more."""

    items: list[CommentAnswer]
    pagination: Pagination
    total_count: int
    partial: bool


class PostDetails(NamedTuple):
    """What posts are shown with, as far as it was read: authors and media by id, and counts by post."""

    authors: dict[int, AuthorAnswer]
    media: dict[int, Media]
    counts: dict[int, PostCounts]


class Presenter:
    """Makes answers from what the services found. `media_base_url` is the URL before the key of a media file."""

    def __init__(
        self,
        profiles: Profiles,
        media: MediaLibrary,
        engagement: Engagement,
        comments: CommentReader,
        media_base_url: str,
    ) -> None:
        self._profiles, self._media = profiles, media
        self._engagement, self._comments = engagement, comments
        self._base_url, self._immediate = media_base_url, profiles.store.immediate

    async def posts(self, viewer: Viewer, posts: Sequence[Post], known: PostDetails | None = None) -> list[PostAnswer]:
        """Posts that the viewer may see, as answers. `known`: what was already read for some of them."""
        if known is None:
            known = PostDetails({}, {}, {})
        missing = [post for post in posts if post.id not in known.counts]
        if missing:
            await self.read_details(viewer, missing, known)
        authors, media, counts = known
        return [self._post(viewer, post, counts[post.id], authors[post.author], media) for post in posts]

    def prefetch_details(self, viewer: Viewer) -> tuple[PostDetails, Prefetch]:
        """An empty `PostDetails`, and a prefetch that fills it."""
        details = PostDetails({}, {}, {})
        return details, partial(self.read_details, viewer, into=details)

    async def read_details(self, viewer: Viewer, posts: Sequence[Post], into: PostDetails) -> None:
        """Read what posts are shown with, `into` a `PostDetails`. It may run before it is known which posts the viewer
        may see.
        """
        if not posts:
            return
        ids = [post.id for post in posts]
        (authors, media), counts = await gather(
            self._immediate,
            self.authors_and_media([post.author for post in posts], (id_ for post in posts for id_ in post.media)),
            self._engagement.counts(viewer, ids),
        )
        into.authors.update(authors)
        into.media.update(media)
        into.counts.update(zip(ids, counts, strict=True))

    async def posts_if_visible(self, viewer: Viewer, posts: Sequence[Post | None]) -> list[PostAnswer | None]:
        """The given posts as answers; None for each that does not exist or that the viewer may not see."""
        existing = [post for post in posts if post is not None]
        if not existing:
            return [None] * len(posts)
        (authors, media), visible = await gather(
            self._immediate,
            self.authors_and_media(
                [post.author for post in existing], (id_ for post in existing for id_ in post.media)
            ),
            self._engagement.seen(viewer, existing),
        )
        visible_by_id = {entry[0].id: entry for entry in visible if entry is not None}
        return [
            None
            if post is None or post.id not in visible_by_id
            else self._post(viewer, *visible_by_id[post.id], authors[post.author], media)
            for post in posts
        ]

    def _post(
        self,
        viewer: Viewer,
        post: Post,
        numbers: PostCounts,
        author: AuthorAnswer,
        media: Mapping[int, Media],
    ) -> PostAnswer:
        return PostAnswer(
            id=str(post.id),
            author=author,
            content=self.content(post, media),
            engagement=EngagementAnswer(*numbers),
            visibility=post.visibility,
            audience=list(map(str, post.audience)) if post.audience and viewer in (SYSTEM, post.author) else None,
            mentions=list(map(str, post.mentioned)) if post.mentioned else [],
            attributes=read_attributes(post.attributes),
            allow_comments=post.allow_comments,
            allow_sharing=post.allow_sharing,
            location=None if post.location is None else LocationAnswer(*msgspec.structs.astuple(post.location)),
            labels=shown_labels(post.labels, viewer, post.author),
            created_at=time_of(post.created_at),
            edited_at=time_of(post.edited_at) if post.edited_at else None,
        )

    async def comments(self, viewer: Viewer, stored: StoredComments) -> tuple[list[CommentAnswer], CommentPage]:
        """A page of comments for a viewer who may see the post, with the first replies to each."""
        page, authors = await gather(
            self._immediate, self._comments.visible_page(viewer, stored), self.authors(stored.authors)
        )
        answers = [
            self.comment(viewer, comment, counts, authors, [self.comment(viewer, *reply, authors) for reply in replies])
            for comment, counts, replies in zip(page.comments, page.counts, page.replies, strict=True)
        ]
        return answers, page

    def comment(
        self,
        viewer: Viewer,
        comment: Comment,
        counts: CommentCounts,
        authors: Mapping[int, AuthorAnswer],
        replies: Sequence[CommentAnswer] = (),
    ) -> CommentAnswer:
        """A comment. `authors` has at least its author. `replies`: those to show under it."""
        return CommentAnswer(
            id=str(comment.id),
            post=str(comment.post),
            reply_to=None if comment.reply_to is None else str(comment.reply_to),
            author=None if comment.deleted else authors[comment.author],
            text=comment.text,
            like_count=counts.likes,
            reply_count=counts.replies,
            is_liked=counts.liked,
            labels=shown_labels(comment.labels, viewer, comment.author),
            created_at=time_of(comment.created_at),
            deleted=comment.deleted,
            replies=list(replies),
        )

    def content(self, post: Post, existing: Mapping[int, Media]) -> ContentAnswer:
        """The content of a post. `existing`: its media that still exist."""
        media = [self.media(existing[id_]) for id_ in post.media if id_ in existing]
        return ContentAnswer(post.type, post.text, post.link, media)

    async def users(self, page: Page) -> list[UserItem]:
        """The users of a page."""
        users = await self.authors([mark.id for mark in page.items])
        return [UserItem(str(mark.id), str(mark.position), users[mark.id]) for mark in page.items]

    async def authors(self, ids: Sequence[int]) -> dict[int, AuthorAnswer]:
        """The users with these ids, as they are shown beside their posts. One batch read per kind."""
        return (await self.authors_and_media(ids))[0]

    async def authors_with_reads(self, ids: Sequence[int], reads: RecordedReads) -> dict[int, AuthorAnswer]:
        """As `authors`, recording in `reads` what was read."""
        records = await reads.records(self._profiles.store, RecordKind.USER, ids)
        profiles = dict(zip(ids, map(read_profile, records), strict=True))
        avatars = [profile.avatar for profile in profiles.values() if profile.avatar is not None]
        return self._authors(profiles, await reads.of(self._media.get_many, avatars) if avatars else {})

    async def authors_and_media(
        self, ids: Sequence[int], media: Iterable[int] = ()
    ) -> tuple[dict[int, AuthorAnswer], dict[int, Media]]:
        """The users with these ids, and the media of `media` that exist. Avatars and media are read in one batch."""
        author_ids = list(dict.fromkeys(ids))
        profiles = await self._profiles.get_many(author_ids)
        avatars = [profile.avatar for profile in profiles if profile.avatar is not None]
        existing = await self._media.get_many([*media, *avatars])
        return self._authors(dict(zip(author_ids, profiles, strict=True)), existing), existing

    def _authors(self, profiles: Mapping[int, Profile], pictures: Mapping[int, Media]) -> dict[int, AuthorAnswer]:
        return {
            id_: AuthorAnswer(
                str(id_), profile.username or None, profile.display_name,
                None if profile.avatar is None else self.avatar_url(profile.avatar, pictures), profile.verified,
            )
            for id_, profile in profiles.items()
        }  # fmt: skip

    def post_answer(
        self, viewer: Viewer, post: Post, numbers: PostCounts, profile: Profile, pictures: Mapping[int, Media]
    ) -> PostAnswer:
        """One post for a viewer who may see it. `pictures`: the existing media of the post and its author."""
        author = self._authors({post.author: profile}, pictures)[post.author]
        return self._post(viewer, post, numbers, author, pictures)

    def media(self, media: Media) -> MediaAnswer:
        """A picture or video."""
        thumbnail = thumbnail_key_of(media)
        return MediaAnswer(
            str(media.id),
            media.type,
            f"{self._base_url}/{key_of(media)}",
            None if thumbnail is None else f"{self._base_url}/{thumbnail}",
            media.width, media.height, media.alt_text,
        )  # fmt: skip

    def avatar_url(self, avatar: int | None, existing: Mapping[int, Media]) -> str | None:
        """The URL of an avatar's thumbnail; None if the profile has no avatar or it was deleted."""
        media = None if avatar is None else existing.get(avatar)
        return None if media is None else self.media(media).thumbnail_url


def time_of(ms: int) -> datetime:
    """Milliseconds since the epoch as a time; exact until the year 2242."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def read_attributes(packed: bytes) -> dict[str, Any]:
    """The app's own JSON object."""
    return {} if packed == NO_ATTRIBUTES else msgspec.json.decode(packed, type=dict[str, Any])


def shown_labels(labels: int, viewer: Viewer, author: int) -> list[str]:
    """The labels that a viewer may see."""
    return shown(labels, own=viewer in (SYSTEM, author)) if labels else []
