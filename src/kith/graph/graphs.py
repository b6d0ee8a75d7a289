"""Named graphs and their numbers.

A graph is a named relation (`follows`, `blocks`, ...). People and the API use its name. Stores use its number, from 1
to 255, assigned once and never reused, so a key spends one byte on it. Apps declare their own graphs in settings; the
store keeps the numbers (see `EdgeStore.declare`). The built-in names of all rooms are here, because their numbers are
assigned in one order.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping

from kith.core.errors import BadRequest, UnknownGraph
from kith.graph.edge import Edge

FOLLOWS = "follows"  # user -> user; people, home, streams, stories, suggestions
BLOCKS = "blocks"  # user -> user; people, suggestions, streams
MUTES = "mutes"  # user -> user; people, home, streams, stories, suggestions
FOLLOW_REQUESTS = "follow_requests"  # user -> private account; people, suggestions
LIKES = "likes"  # user -> post; posts, home, streams
SAVES = "saves"  # user -> post; posts, home
SHARES = "shares"  # user -> post; posts, home, streams
HIDES = "hides"  # user -> post they do not want to see; posts, home, streams
VIEWS = "views"  # user -> post they have seen; posts, home
AUTHORED = "authored"  # author -> post, at its time: the author's outbox; posts, home, streams
COMMENTS = "comments"  # post -> comment; posts, home, streams
REPLIES = "replies"  # comment -> comment that answers it; posts
COMMENT_LIKES = "comment_likes"  # user -> comment; posts
COMMENTED = "commented"  # user -> comment they wrote; posts, home
FEWER = "fewer"  # user -> author they want to see less of, at the time they said so; people, home
STORIES = "stories"  # author -> story, at its time; stories
STORY_VIEWS = "story_views"  # user -> story, at the time they first saw it; stories
SUGGESTION_HIDES = "suggestion_hides"  # user -> user they do not want suggested; suggestions
POST_REPLIES = "post_replies"  # post -> reply to any comment on it, to count them; posts, streams
MENTIONED = "mentioned"  # user -> post that mentions them, at the post's time; posts
FLOCK_AWAY = "flock_away"  # node -> one of its directions in a graph, archived by a FlockDB client; flockdb
BOARDS = "boards"  # owner -> board, at the time it was made; NEGATIVE: a secret one; boards
BOARD_FOLLOWS = "board_follows"  # user -> board that they follow explicitly; boards, home
BOARD_UNFOLLOWS = "board_unfollows"  # user -> board they do not follow, though they follow its owner; boards, home
IMPLICIT_FOLLOWS = "implicit_follows"  # user -> owner they do not follow, of a board that they follow; boards
BOARD_MEMBERS = "board_members"  # user -> board that they may pin on as a collaborator; boards
PINS = "pins"  # board -> post, at the time it was pinned; boards, home
NAMES = "names"  # prefix of a name -> user with such a name, in the order of names; people
BUILT_IN = (
    FOLLOWS, BLOCKS, MUTES, FOLLOW_REQUESTS, LIKES, SAVES, SHARES, HIDES,
    VIEWS, AUTHORED, COMMENTS, REPLIES, COMMENT_LIKES, COMMENTED, FEWER, STORIES, STORY_VIEWS,
    SUGGESTION_HIDES, POST_REPLIES, MENTIONED, FLOCK_AWAY,
    BOARDS, BOARD_FOLLOWS, BOARD_UNFOLLOWS, IMPLICIT_FOLLOWS, BOARD_MEMBERS, PINS, NAMES,
)  # fmt: skip
"""Stores number them in this order. New ones are appended."""
_BETWEEN_OBJECTS = (COMMENTS, REPLIES, POST_REPLIES, PINS)
_TO_OBJECTS = (
    LIKES, SAVES, SHARES, HIDES, VIEWS, AUTHORED, COMMENT_LIKES, COMMENTED, STORIES, STORY_VIEWS, MENTIONED,
    FLOCK_AWAY, BOARDS, BOARD_FOLLOWS, BOARD_UNFOLLOWS, BOARD_MEMBERS,
)  # fmt: skip
_BY_OTHERS = (MENTIONED, BOARD_MEMBERS)
GRAPHS_MAX = 255
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def check_name(name: str) -> str:
    """Return `name` if it is allowed for a graph; BadRequest otherwise."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"graph name {name!r} must be 1 to 32 of a-z, 0-9 and _, starting with a letter", graph=name)
    return name


class UserEnds:
    """Which ends of edges are users. Objects (posts, comments...) have ids of their own, which may equal a user's id.
    The state of that user does not apply to the object's edges.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        """`numbers`: all graphs of a store."""
        self.from_objects = frozenset(numbers[name] for name in (*_BETWEEN_OBJECTS, NAMES) if name in numbers)
        """Numbers of the graphs whose sources are not users."""
        self.to_objects = frozenset(numbers[name] for name in (*_BETWEEN_OBJECTS, *_TO_OBJECTS) if name in numbers)
        """Numbers of the graphs whose destinations are posts, comments, stories or boards, not users."""

    def of(self, edge: Edge) -> tuple[int, ...]:
        """The ends of an edge that are users."""
        if edge.graph in self.from_objects:
            return () if edge.graph in self.to_objects else (edge.destination,)
        return (edge.source,) if edge.graph in self.to_objects else (edge.source, edge.destination)


NO_OBJECTS = UserEnds({})
"""For a store in which all ends are users."""


class Graphs:
    """The graphs of a store, by name and by number. `declared` is called again for an unknown name, because another
    process, such as an import, may have declared it meanwhile.
    """

    def __init__(self, numbers: Mapping[str, int], declared: Callable[[], Mapping[str, int]] = dict) -> None:
        self._numbers, self._declared = dict(numbers), declared
        self._names = {number: name for name, number in numbers.items()}
        self.user_ends = UserEnds(numbers)
        self.from_objects, self.to_objects = self.user_ends.from_objects, self.user_ends.to_objects
        self.by_others = frozenset(numbers[name] for name in _BY_OTHERS if name in numbers)
        """Numbers of the graphs in which others write a user's edges: these may reveal what the user may not see."""

    def number(self, name: str) -> int:
        """The number of a graph. UnknownGraph suggests a similar name and lists all names."""
        number = self._numbers.get(name)
        if number is None:
            self._look()
            number = self._numbers.get(name)
        if number is None:
            meant = "".join(
                f"did you mean {similar!r}? " for similar in difflib.get_close_matches(name, self._numbers, 1)
            )
            raise UnknownGraph(
                f"no graph is called {name!r}; {meant}one of your own is declared in the setting `graphs`",
                graphs=sorted(self._numbers),
            )
        return number

    def name(self, number: int) -> str:
        """The name of a graph that exists."""
        return self._names[number]

    def knows(self, numbers: Iterable[int]) -> bool:
        """Whether all of these are numbers of known graphs."""
        return self._names.keys() >= set(numbers)

    def names(self) -> list[str]:
        """All names, sorted."""
        self._look()
        return sorted(self._numbers)

    def _look(self) -> None:
        """Load the graphs that were declared since the last call."""
        self._numbers |= self._declared()
        self._names |= {number: name for name, number in self._numbers.items()}


def assign(known: Mapping[str, int], wanted: Iterable[str]) -> dict[str, int]:
    """`known`, with new numbers for the names in `wanted` that have none yet, in their order."""
    numbers = dict(known)
    for name in wanted:
        if check_name(name) not in numbers:
            number = max(numbers.values(), default=0) + 1
            if number > GRAPHS_MAX:
                raise BadRequest(f"at most {GRAPHS_MAX} graphs can exist", graph=name)
            numbers[name] = number
    return numbers
