"""Named graphs and their numbers.

A graph is a named relation (`follows`, `blocks`, ...). Names are for people and the API; stores keep a
number from 1 to 255, given once and never reused, so that a key spends one byte on it. Apps declare graphs
of their own in settings; the numbers are kept by the store (see `EdgeStore.declare`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kith.core.errors import BadRequest, UnknownGraph

FOLLOWS = "follows"
BLOCKS = "blocks"
MUTES = "mutes"
FOLLOW_REQUESTS = "follow_requests"
LIKES, SAVES, SHARES, HIDES, VIEWS = "likes", "saves", "shares", "hides", "views"  # user -> post
AUTHORED = "authored"  # author -> post, at its time: the author's outbox
COMMENTS = "comments"  # post -> comment
REPLIES = "replies"  # comment -> comment
COMMENT_LIKES = "comment_likes"  # user -> comment
COMMENTED = "commented"  # user -> comment: what a user wrote on whatever
FEWER = "fewer"  # user -> author of whom they want to see less, at the time they said so
STORIES = "stories"  # author -> story, at its time
STORY_VIEWS = "story_views"  # user -> story, when they first saw it
SUGGESTION_HIDES = "suggestion_hides"  # user -> whom they do not want suggested
BUILT_IN = (
    FOLLOWS, BLOCKS, MUTES, FOLLOW_REQUESTS, LIKES, SAVES, SHARES, HIDES,
    VIEWS, AUTHORED, COMMENTS, REPLIES, COMMENT_LIKES, COMMENTED, FEWER, STORIES, STORY_VIEWS,
    SUGGESTION_HIDES,
)  # fmt: skip
"""Stores number them in this order; new ones come last."""
KEEPING_OUT = frozenset((BLOCKS, MUTES, HIDES))
"""What a user does not want to see, or be seen by."""
_BETWEEN_OBJECTS = (COMMENTS, REPLIES)
_TO_OBJECTS = (LIKES, SAVES, SHARES, HIDES, VIEWS, AUTHORED, COMMENT_LIKES, COMMENTED, STORIES, STORY_VIEWS)
GRAPHS_MAX = 255
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def check_name(name: str) -> str:
    """`name` if a graph may be called so; BadRequest otherwise."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"graph name {name!r} must be 1 to 32 of a-z, 0-9 and _, starting with a letter", graph=name)
    return name


class Graphs:
    """The graphs that exist, by name and by number."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = dict(numbers)
        self._names = {number: name for name, number in numbers.items()}
        self.between_objects = frozenset(numbers[name] for name in _BETWEEN_OBJECTS if name in numbers)
        """Graphs without users in them: an id at their ends is nobody's own, whoever has the same number."""
        self.to_objects = self.between_objects | {numbers[name] for name in _TO_OBJECTS if name in numbers}
        """Graphs whose destinations are no users."""

    def number(self, name: str) -> int:
        """The number of a graph; UnknownGraph lists what exists."""
        try:
            return self._numbers[name]
        except KeyError:
            raise UnknownGraph(
                f"no graph is called {name!r}; declare it in the setting `graphs`",
                graphs=sorted(self._numbers),
            ) from None

    def name(self, number: int) -> str:
        """The name of a graph that exists."""
        return self._names[number]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._numbers)


def assign(known: Mapping[str, int], wanted: Iterable[str]) -> dict[str, int]:
    """`known` with numbers for the names in `wanted` that have none yet, in their order."""
    numbers = dict(known)
    for name in wanted:
        if check_name(name) not in numbers:
            number = max(numbers.values(), default=0) + 1
            if number > GRAPHS_MAX:
                raise BadRequest(f"at most {GRAPHS_MAX} graphs can exist", graph=name)
            numbers[name] = number
    return numbers
