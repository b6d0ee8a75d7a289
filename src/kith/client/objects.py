"""The records of what people make, as calls take and return them: posts, comments, stories, media, boards, labels."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import field

from kith.client.answers import Changed, Page, Record

Visibility: TypeAlias = Literal["public", "friends", "private", "custom"]
Sort: TypeAlias = Literal["newest", "oldest", "top"]


class Author(Record, frozen=True, kw_only=True):
    """The author of something, or a user in a list. `avatar_url`: of a small picture."""

    id: int
    username: str | None = None
    display_name: str = ""
    avatar_url: str | None = None
    is_verified: bool = False


class ListedUser(Record, frozen=True, kw_only=True):
    """A user in a list. `position`: their place in it."""

    id: int
    position: int
    user: Author


class Location(Record, frozen=True, kw_only=True):
    """A place, in degrees. `name`: what people call it."""

    latitude: float
    longitude: float
    name: str = ""


class Labels(Record, frozen=True, kw_only=True):
    """The labels that your moderation put on a post or a user: some of `hide`, `limit`, `sensitive`."""

    id: int
    type: str
    labels: list[str] = field(default_factory=list)
    reason: str = ""
    changed_at: datetime | None = None


class Media(Record, frozen=True, kw_only=True):
    """A picture or video. Sizes are in pixels. URLs may be paths on the server. Videos have no thumbnail."""

    id: int
    type: str
    url: str
    thumbnail_url: str | None = None
    width: int = 0
    height: int = 0
    alt_text: str = ""


class Content(Record, frozen=True, kw_only=True):
    """The content of a post or story."""

    type: str
    text: str = ""
    link: str | None = None
    media: list[Media] = field(default_factory=list)


class Engagement(Record, frozen=True, kw_only=True):
    """Exact counts of a post; `comment_count` includes replies. `is_liked`, `is_saved`, `is_shared`: by the
    acting user.
    """

    like_count: int = 0
    comment_count: int = 0
    share_count: int = 0
    view_count: int = 0
    is_liked: bool = False
    is_saved: bool = False
    is_shared: bool = False


class Made(Record, frozen=True, kw_only=True):
    """The common fields of posts and stories. `audience`: only the author gets it; None for others."""

    id: int
    author: Author
    content: Content
    visibility: str
    audience: list[int] | None = None
    mentions: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)  # set by your moderation
    created_at: datetime


class Ranking(Record, frozen=True, kw_only=True):
    """A post's score, 0 to 1. `reason`: what added most to it: `friend_interaction`, `recent`, `popular`,
    `content_type` or `own_post`; or `followed_board`, if the post is here because a followed board pins it.
    """

    score: float
    reason: str


class Post(Made, frozen=True, kw_only=True):
    """A post. Three fields are set in a ranked feed only.

    `ranking`: its score. `seen`: the acting user saw it before. `copies`: ids of posts that are not shown because they
    are copies of this one.
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
    """A post that was just stored. `fanout_status`: `pending` while it is delivered to the followers' feeds."""

    id: int
    author: Author
    content: Content
    visibility: str
    created_at: datetime
    fanout_status: str = ""


class Engaged(Record, frozen=True, kw_only=True):
    """Base of the answers to likes, saves and the like. `timestamp`: since when the state holds."""

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
    """A comment. `reply_to`: the comment that it replies to. `replies`: in lists, its oldest; `reply_count` counts all.

    `deleted`: it was deleted, or its author's account is deactivated or deleted. It then has no text and no author, and
    is listed only because it has replies.
    """

    id: int
    post: int
    reply_to: int | None = None
    author: Author | None = None
    text: str
    like_count: int = 0
    reply_count: int = 0
    is_liked: bool = False
    labels: list[str] = field(default_factory=list)  # set by your moderation on its author
    created_at: datetime
    deleted: bool = False
    replies: list[Comment] = field(default_factory=list)


class CommentPage(Page[Comment], frozen=True, kw_only=True):
    """A page of comments. `total_count` counts the whole list, also those that the acting user must not see.

    `partial`: there are so many that sort `top` ranked only the newest.
    """

    total_count: int


class FeedMeta(Record, frozen=True, kw_only=True):
    """How a page of home was made. `request_id`: the id that the service logs; `degraded`: what was not available."""

    feed_type: str
    generated_at: datetime
    request_id: str
    degraded: list[str] = field(default_factory=list)


class FeedPage(Page[Post], frozen=True, kw_only=True):
    """A page of the home feed. It may be short, even empty, although more pages follow."""

    meta: FeedMeta


class WhyPart(Record, frozen=True, kw_only=True):
    """One ranking feature of a post: its value (0 to 1), its weight, and how much it adds to the score."""

    name: str
    value: float
    weight: float
    adds: float


class Why(Record, frozen=True, kw_only=True):
    """The explanation of a post's place in home. `score` is the sum of what `parts` add, times `damping`.

    `damping` is below 1 after `see_fewer`, and for the acting user's own post that moderation limits. `excluded_by`:
    why the post is left out whatever its score (`not_followed`, `muted`, `hidden`, `copy`), or comes after all unseen
    posts (`seen`). `copy_of`: the post that is shown instead.
    """

    id: int
    score: float
    reason: str
    parts: list[WhyPart]
    damping: float = 1.0
    excluded_by: list[str] = field(default_factory=list)
    copy_of: int | None = None


class Fewer(Record, frozen=True, kw_only=True):
    """`fewer`: whether the acting user sees fewer posts of the user."""

    fewer: bool


class Story(Made, frozen=True, kw_only=True):
    """A story. `seen`: by the acting user. `view_count`: only the author gets it; None for others."""

    expires_at: datetime
    seen: bool = False
    view_count: int | None = None


class StripEntry(Record, frozen=True, kw_only=True):
    """One author's stories that the acting user may see. `more`: there are more; the counts stop at the newest 50."""

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
    """A board. `follower_count`: followers through its owner and direct ones. `pin_count`: all pins, visible or not."""

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
    """How the acting user follows a user or board.

    `implicit`: of a user, they follow one or more boards directly; of a board, they follow its owner.
    """

    id: int
    following: bool
    kind: Literal["explicit", "implicit", "none"]


class BoardsChecked(Record, frozen=True, kw_only=True):
    """The answer to `check_boards`, in the order of its arguments."""

    users: list[FollowedKind]
    boards: list[FollowedKind]


class Interests(Record, frozen=True, kw_only=True):
    """Exact counts of a user's lists. `boards_unfollowed`: only the user gets it; None for others."""

    board_count: int
    boards_followed: int
    boards_unfollowed: int | None = None
    implicit_following: int
    implicit_followers: int
