"""What people make, as calls take and answer it: posts, comments, stories, media; and what the app says of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import field

from kith.client.answers import Changed, Page, Record

Visibility: TypeAlias = Literal["public", "friends", "private", "custom"]
Sort: TypeAlias = Literal["newest", "oldest", "top"]


class Author(Record, frozen=True, kw_only=True):
    """Who made something. `avatar_url`: of a small picture."""

    id: int
    username: str | None = None
    display_name: str = ""
    avatar_url: str | None = None
    is_verified: bool = False


class ListedUser(Record, frozen=True, kw_only=True):
    """A user in a list, and their place in it."""

    id: int
    position: int
    user: Author


class Location(Record, frozen=True, kw_only=True):
    """In degrees, with what people call the place."""

    latitude: float
    longitude: float
    name: str = ""


class Labels(Record, frozen=True, kw_only=True):
    """What your moderation decided about a post or a user: some of hide, limit, sensitive."""

    id: int
    type: str
    labels: list[str] = field(default_factory=list)
    reason: str = ""
    changed_at: datetime | None = None


class Media(Record, frozen=True, kw_only=True):
    """A picture or video; sizes in pixels. The addresses may be paths of the server. Videos have no thumbnail."""

    id: int
    type: str
    url: str
    thumbnail_url: str | None = None
    width: int = 0
    height: int = 0
    alt_text: str = ""


class Content(Record, frozen=True, kw_only=True):
    """What a post or story says."""

    type: str
    text: str = ""
    link: str | None = None
    media: list[Media] = field(default_factory=list)


class Engagement(Record, frozen=True, kw_only=True):
    """What a post has got, exactly; `comment_count`: with replies. `is_liked` and `is_saved` by the acting user."""

    like_count: int = 0
    comment_count: int = 0
    share_count: int = 0
    view_count: int = 0
    is_liked: bool = False
    is_saved: bool = False


class Made(Record, frozen=True, kw_only=True):
    """What posts and stories have in common. `audience` is there for the author only."""

    id: int
    author: Author
    content: Content
    visibility: str
    audience: list[int] | None = None
    mentions: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)  # of the app's moderation
    created_at: datetime


class Ranking(Record, frozen=True, kw_only=True):
    """A post's score, 0 to 1, and what gave most of it: friend_interaction, recent, popular, content_type, own_post; or
    followed_board, where a board brought it.
    """

    score: float
    reason: str


class Post(Made, frozen=True, kw_only=True):
    """In a ranked feed there is a `ranking`; `seen`: the acting user saw it before; `copies`: posts that are not shown
    because they are copies of this one.
    """

    engagement: Engagement
    allow_comments: bool = True
    allow_sharing: bool = True
    location: Location | None = None
    edited_at: datetime | None = None
    ranking: Ranking | None = None
    seen: bool = False
    copies: list[int] = field(default_factory=list)


class PostCreated(Record, frozen=True, kw_only=True):
    """A post that is stored; its way into the followers' feeds has begun (`fanout_status`)."""

    id: int
    author: Author
    content: Content
    visibility: str
    created_at: datetime
    fanout_status: str = ""


class Engaged(Record, frozen=True, kw_only=True):
    """`timestamp`: since when it is so."""

    timestamp: datetime


class Liked(Engaged, frozen=True, kw_only=True):
    liked: bool
    like_count: int


class Saved(Engaged, frozen=True, kw_only=True):
    saved: bool
    save_count: int


class Shared(Engaged, frozen=True, kw_only=True):
    shared: bool
    share_count: int


class Viewed(Engaged, frozen=True, kw_only=True):
    viewed: bool
    view_count: int


class Hidden(Engaged, frozen=True, kw_only=True):
    hidden: bool


class Comment(Record, frozen=True, kw_only=True):
    """`reply_to`: the comment it answers. `replies`: the oldest of them, in a list; `reply_count` counts all.

    `deleted`: it was deleted, or its author left: no text, no author, and there for its replies only.
    """

    id: int
    post: int
    reply_to: int | None = None
    author: Author | None = None
    text: str
    like_count: int = 0
    reply_count: int = 0
    is_liked: bool = False
    labels: list[str] = field(default_factory=list)  # of the app's moderation, on its author
    created_at: datetime
    deleted: bool = False
    replies: list[Comment] = field(default_factory=list)


class CommentPage(Page[Comment], frozen=True, kw_only=True):
    """Comments. `total_count` counts all, whoever may see them; `partial`: `top` ranked the newest of very many."""

    total_count: int


class FeedMeta(Record, frozen=True, kw_only=True):
    """How a page of home was made. `request_id`: what it is logged under; `degraded`: what was not available."""

    feed_type: str
    generated_at: datetime
    request_id: str
    degraded: list[str] = field(default_factory=list)


class FeedPage(Page[Post], frozen=True, kw_only=True):
    """Part of home. It may be short, even empty, and still have more."""

    meta: FeedMeta


class WhyPart(Record, frozen=True, kw_only=True):
    """One feature of a post: its value (0 to 1), its weight, and what it adds to the score."""

    name: str
    value: float
    weight: float
    adds: float


class Why(Record, frozen=True, kw_only=True):
    """Where a post stands: `score` is what the `parts` add, times `damping` (below 1 after `see_fewer`, and where
    moderation limits your own). `excluded_by`: what keeps it out whatever its score (not_followed, muted, hidden,
    copy), or behind what is unseen (seen). `copy_of`: the post that is shown in its place.
    """

    id: int
    score: float
    reason: str
    parts: list[WhyPart]
    damping: float = 1.0
    excluded_by: list[str] = field(default_factory=list)
    copy_of: int | None = None


class Fewer(Record, frozen=True, kw_only=True):
    """`fewer`: whether the acting user sees fewer posts of someone."""

    fewer: bool


class Story(Made, frozen=True, kw_only=True):
    """`seen` by the acting user; `view_count` is there for the author only."""

    expires_at: datetime
    seen: bool = False
    view_count: int | None = None


class StripEntry(Record, frozen=True, kw_only=True):
    """One author's stories, as far as the acting user may see them; `more`: the counts stop at the newest 50."""

    id: int
    author: Author
    story_count: int
    unseen_count: int
    latest_at: datetime
    more: bool = False


class StoryViewer(Record, frozen=True, kw_only=True):
    id: int
    user: Author
    viewed_at: datetime


class Board(Record, frozen=True, kw_only=True):
    """A board. `follower_count` is of all who follow it, through its owner or by itself; `pin_count` of all pins."""

    id: int
    owner: Author
    name: str
    secret: bool = False
    follower_count: int = 0
    pin_count: int = 0
    created_at: datetime


class BoardFollow(Changed, frozen=True, kw_only=True):
    following: bool


class Pinned(Changed, frozen=True, kw_only=True):
    pinned: bool


class Collaborator(Record, frozen=True, kw_only=True):
    """`member`: whether the user may now pin on the board."""

    member: bool
    token: str | None = None


class FollowedKind(Record, frozen=True, kw_only=True):
    """How the acting user follows a user or board: a user `implicit` by single boards, a board through its owner."""

    id: int
    following: bool
    kind: Literal["explicit", "implicit", "none"]


class BoardsChecked(Record, frozen=True, kw_only=True):
    """In the order asked."""

    users: list[FollowedKind]
    boards: list[FollowedKind]


class Interests(Record, frozen=True, kw_only=True):
    """Exact counts of a user's lists. `boards_unfollowed`: None for all but the user."""

    board_count: int
    boards_followed: int
    boards_unfollowed: int | None = None
    implicit_following: int
    implicit_followers: int
