"""The records that calls about the graph and users take and return. They are frozen; 64-bit values are int.

Fields that a newer server adds are ignored, so an older client keeps working. `objects` has the records of what people
make.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

Id: TypeAlias = int | str  # 0 to 2**63-1; a string of digits works too
State: TypeAlias = Literal["normal", "negative", "archived", "removed"]
Direction: TypeAlias = Literal["out", "in"]
Sort: TypeAlias = Literal["name"]
Op: TypeAlias = Literal["add", "move", "remove", "archive", "negate"]

Item = TypeVar("Item")


class EdgeWrite(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A write of one edge. Of two writes to the same edge the newer `updated_at` wins, so resending is safe."""

    op: Op
    source: Id
    destination: Id
    position: int | None = None  # orders lists, greatest first; default: the service's time in ms
    updated_at: int | None = None  # hybrid logical clock: ms << 16 | counter; default: the service's
    expires_at: datetime | None = None  # with a time zone; when an added edge expires


class Record(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base class of answers."""


class Edge(Record, frozen=True, kw_only=True):
    """An edge as stored, in any state."""

    source: int
    destination: int
    state: State
    position: int
    updated_at: int
    expires_at: datetime | None = None  # None: it never expires


class ListedEdge(Record, frozen=True, kw_only=True):
    """A row of a list of edges. `id`: the node at the other end; `position`: its place in the list."""

    id: int
    position: int


class ListedNode(Record, frozen=True, kw_only=True):
    """A row of a computed list (a set program, friends, mutuals). `position`: None if the service gives none."""

    id: int
    position: int | None = None


class Pagination(Record, frozen=True, kw_only=True):
    next_cursor: str | None = None
    prev_cursor: str | None = None
    has_more: bool = False


class Page(Record, Generic[Item], frozen=True, kw_only=True):
    """A page of a list, newest first, with the cursors of the pages before and after it."""

    items: list[Item]
    pagination: Pagination
    partial: bool = False  # the service left items out of the list

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page, with older items; None at the end."""
        return self.pagination.next_cursor

    @property
    def prev_cursor(self) -> str | None:
        """The cursor of the previous page, with newer items; None at the start."""
        return self.pagination.prev_cursor

    @property
    def has_more(self) -> bool:
        """Whether older items follow."""
        return self.pagination.has_more


class Written(Record, frozen=True, kw_only=True):
    """The answer to `write_edges`. `applied`: how many writes changed something.

    If an answer was lost and the request retried, only the changes of the retry are counted.
    """

    applied: int
    token: str | None = None


class Changed(Record, frozen=True, kw_only=True):
    """The answer to a change. `changed`: false if nothing had to change."""

    changed: bool
    token: str | None = None


class Follow(Changed, frozen=True, kw_only=True):
    """The answer to a follow or unfollow.

    `requested`: the account is private, so a follow request was sent. `following` is then false until the account
    accepts. It is true if the acting user already follows and requests another expiry.
    """

    following: bool
    requested: bool = False


class Block(Changed, frozen=True, kw_only=True):
    blocking: bool


class Mute(Changed, frozen=True, kw_only=True):
    muting: bool


class HiddenSuggestion(Changed, frozen=True, kw_only=True):
    hidden: bool


class Suggestion(Record, frozen=True, kw_only=True):
    """A user to follow. `mutual_count`: how many of the user's followees follow them; `mutuals`: up to 3 of these."""

    id: int
    mutual_count: int
    mutuals: list[int]


class Relationship(Record, frozen=True, kw_only=True):
    """How the acting user and user `id` are related."""

    id: int
    following: bool
    followed_by: bool
    requested: bool
    blocking: bool
    blocked_by: bool
    muting: bool


class Profile(Record, frozen=True, kw_only=True):
    """A user. `private`: follows need their consent. Counts are exact. `attributes`: your app's own data."""

    id: int
    state: State
    private: bool
    following_count: int
    followers_count: int
    post_count: int = 0  # all their posts, also those that the acting user must not see
    username: str | None = None
    display_name: str = ""
    bio: str = ""
    avatar: int | None = None  # media id of their picture
    avatar_url: str | None = None
    is_verified: bool = False
    attributes: dict[str, Any] = {}
    labels: list[str] = []  # set by your moderation


class Job(Record, frozen=True, kw_only=True):
    """A background job over all edges of `user`. `edges`: how many are done so far."""

    id: str
    operation: str
    user: int
    edges: int
    done: bool
