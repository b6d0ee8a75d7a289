"""What calls about the graph and users take and answer: frozen records, 64-bit values as int.

Fields that a newer server adds are ignored, so an older client keeps working. What people make is in `objects`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

Id: TypeAlias = int | str  # 0 to 2**63-1; a string of digits serves as well
State: TypeAlias = Literal["normal", "negative", "archived", "removed"]
Direction: TypeAlias = Literal["out", "in"]
Sort: TypeAlias = Literal["name"]
Op: TypeAlias = Literal["add", "move", "remove", "archive", "negate"]

Item = TypeVar("Item")


class EdgeWrite(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One edge to write. Of two writes to one edge the newer `updated_at` wins, so resending is harmless."""

    op: Op
    source: Id
    destination: Id
    position: int | None = None  # orders lists, newest first; the service's time in ms if left out
    updated_at: int | None = None  # hybrid logical clock: ms << 16 | counter; the service's if left out
    expires_at: datetime | None = None  # with a time zone: when an edge that is added ends by itself


class Record(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of the answers."""


class Edge(Record, frozen=True, kw_only=True):
    """An edge as stored, in any state."""

    source: int
    destination: int
    state: State
    position: int
    updated_at: int
    expires_at: datetime | None = None  # when it ends by itself


class ListedEdge(Record, frozen=True, kw_only=True):
    """A row of a list of edges: the other end, and its place in the list."""

    id: int
    position: int


class ListedNode(Record, frozen=True, kw_only=True):
    """A row of a computed list (a set program, friends, mutuals); `position` where the service gives one."""

    id: int
    position: int | None = None


class Pagination(Record, frozen=True, kw_only=True):
    next_cursor: str | None = None
    prev_cursor: str | None = None
    has_more: bool = False


class Page(Record, Generic[Item], frozen=True, kw_only=True):
    """Part of a list, newest first, with the cursors of the pages around it."""

    items: list[Item]
    pagination: Pagination
    partial: bool = False  # the service left something out of the whole list, and says so

    @property
    def next_cursor(self) -> str | None:
        """Asks for the older items that follow; None at the end."""
        return self.pagination.next_cursor

    @property
    def prev_cursor(self) -> str | None:
        """Asks for the newer items before these; None at the start."""
        return self.pagination.prev_cursor

    @property
    def has_more(self) -> bool:
        """Whether older items follow."""
        return self.pagination.has_more


class Written(Record, frozen=True, kw_only=True):
    """`applied`: how many writes changed something. After a lost answer, the retry counts only its own."""

    applied: int
    token: str | None = None


class Changed(Record, frozen=True, kw_only=True):
    """`changed`: false if it was so already."""

    changed: bool
    token: str | None = None


class Follow(Changed, frozen=True, kw_only=True):
    """`requested`: the account is private, so it was asked. `following` is false until it accepts, unless a follow
    that ends by itself was asked to last longer.
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
    """Someone to follow. `mutual_count`: how many of the user's followees follow them; `mutuals`: up to 3 of these."""

    id: int
    mutual_count: int
    mutuals: list[int]


class Relationship(Record, frozen=True, kw_only=True):
    """What holds between the acting user and user `id`."""

    id: int
    following: bool
    followed_by: bool
    requested: bool
    blocking: bool
    blocked_by: bool
    muting: bool


class Profile(Record, frozen=True, kw_only=True):
    """A user. `private`: a follow needs their consent; the counts are exact; `attributes` are your own."""

    id: int
    state: State
    private: bool
    following_count: int
    followers_count: int
    post_count: int = 0  # of all their posts, whoever may see them
    username: str | None = None
    display_name: str = ""
    bio: str = ""
    avatar: int | None = None  # id of a picture of theirs
    avatar_url: str | None = None
    is_verified: bool = False
    attributes: dict[str, Any] = {}
    labels: list[str] = []  # of the app's moderation


class Job(Record, frozen=True, kw_only=True):
    """Work on all edges of `user` that goes on after the answer; `edges` counts those done so far."""

    id: str
    operation: str
    user: int
    edges: int
    done: bool
