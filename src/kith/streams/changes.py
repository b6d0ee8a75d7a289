"""What the event log says to connected readers: the changes that matter to them, and the newest stretch of these.

Pure: nothing here reads or writes. A reader who lost the connection names their `Place` and is told what they missed
from `Recent`; where that is not possible, `lost` says why, and the reader is told to load the feed anew.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kith.core.events import BULK_LOADED, NORMAL, USER_CHANGED, Event
from kith.graph.edge import State
from kith.graph.graphs import AUTHORED, BLOCKS, COMMENTS, FOLLOWS, HIDES, LIKES, MUTES, SHARES, Graphs

WATCHED_MAX = 100
"""Posts of one stream whose numbers and removal are told; the longest watched gives way to a new one."""
_PLACE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})", re.ASCII)
_TRIMMED_AT = 1.25  # a stretch is cut back once it is so much longer than it may be, so that cutting stays cheap

Lost = Literal["expired", "too_far", "unknown"]


class Kind(enum.Enum):
    """What happened. `who` and `what` of a change mean what is said here."""

    POSTED = enum.auto()  # author, post
    REMOVED = enum.auto()  # author, post
    EDITED = enum.auto()  # author, post: others may see it now than before
    ENGAGED = enum.auto()  # 0, post: its numbers changed
    BLOCKED = enum.auto()  # who blocks, whom
    MUTED = enum.auto()  # who mutes, whom
    HIDDEN = enum.auto()  # who hides, post
    UNFOLLOWED = enum.auto()  # who follows no more, whom
    STANDING = enum.auto()  # user, 0: labelled, or made private or public, and so others may see their posts
    LOADED = enum.auto()  # a whole graph was loaded: everything may have changed


class Change(NamedTuple):
    """One change, by its sequence number in the log."""

    sequence: int
    kind: Kind
    who: int
    what: int


class Place(NamedTuple):
    """How far a stream has told: posts and removals up to one sequence number, numbers of posts up to another.

    The second lags, because numbers are collected for a second before they are told.
    """

    posts: int
    counts: int

    def __str__(self) -> str:
        return f"{self.posts}-{self.counts}"


def read_place(text: str) -> Place | None:
    """The place that a client sent back; None for what was never one."""
    found = _PLACE.fullmatch(text)
    place = None if found is None else Place(int(found[1]), int(found[2]))
    return place if place is not None and place.counts <= place.posts else None


def lost(place: Place | None, first: int, last: int, events_max: int) -> Lost | None:
    """Why what was missed since `place` cannot be told, from a log that keeps `first` to `last`; None if it can."""
    if place is None or place.posts > last:
        return "unknown"  # not from here, or from after the backup that this store was restored from
    if place.counts + 1 < first:
        return "expired"
    return "too_far" if last - place.counts > events_max else None


class Reading:
    """Reads events as changes."""

    def __init__(self, graphs: Graphs) -> None:
        number = graphs.number
        self._authored, self._comments = number(AUTHORED), number(COMMENTS)
        self._counted = frozenset({number(LIKES), number(SHARES)})
        self._own = {number(BLOCKS): Kind.BLOCKED, number(MUTES): Kind.MUTED, number(HIDES): Kind.HIDDEN}
        self._follows = number(FOLLOWS)
        self._feeds = frozenset({self._follows, self._authored})

    def changes(self, events: Iterable[Event]) -> list[Change]:
        """Those of the events that somebody connected could have to know of, in their order."""
        found = (self._change(event) for event in events)
        return [change for change in found if change is not None]

    def _change(self, event: Event) -> Change | None:
        graph, kind = event.graph, None
        if event.state == BULK_LOADED:
            return Change(event.sequence, Kind.LOADED, 0, 0) if graph in self._feeds else None
        if event.state == USER_CHANGED:
            return Change(event.sequence, Kind.STANDING, event.source, 0)
        if graph in self._counted:
            return Change(event.sequence, Kind.ENGAGED, 0, event.destination) if event.began or event.ended else None
        if graph == self._comments:
            return Change(event.sequence, Kind.ENGAGED, 0, event.source) if event.began or event.ended else None
        if graph == self._authored:
            kind = _of_post(event)
        elif graph == self._follows:
            kind = Kind.UNFOLLOWED if event.ended else None
        elif event.began:
            kind = self._own.get(graph)
        return None if kind is None else Change(event.sequence, kind, event.source, event.destination)


def _of_post(event: Event) -> Kind | None:
    """What an event of an outbox means. A post that comes back with its author's account is no new one."""
    if event.state == NORMAL:
        return Kind.POSTED if event.before is None else Kind.EDITED if event.before == NORMAL else None
    if event.before != NORMAL:
        return None
    return Kind.REMOVED if event.state == State.REMOVED else Kind.EDITED


class Recent:
    """The newest changes without a gap: every one with `start < sequence <= at`.

    It spans about `events_max` events of the log, of which it holds those that are changes.
    """

    def __init__(self, at: int, events_max: int) -> None:
        self.start = self.at = at
        self._events_max = events_max
        self._changes: list[Change] = []

    def extend(self, changes: Sequence[Change], at: int) -> None:
        """Add what the log held beyond `self.at`, up to `at`; the oldest are forgotten."""
        self._changes += changes
        self.at = at
        if at - self.start > _TRIMMED_AT * self._events_max:
            self.start = at - self._events_max
            del self._changes[: self._past(self.start)]

    def reach_back(self, changes: Sequence[Change], start: int) -> None:
        """Add what the log held between `start` and `self.start`."""
        self._changes[:0] = changes
        self.start = start

    def since(self, sequence: int) -> list[Change]:
        """Every change beyond `sequence`, which must not be before `self.start`."""
        return self._changes[self._past(sequence) :]

    def _past(self, sequence: int) -> int:
        return bisect_right(self._changes, sequence, key=lambda change: change.sequence)


class Watched(dict[int, int]):
    """Posts a reader looks at, with their authors: at most WATCHED_MAX, the longest watched first."""

    def add(self, post: int, author: int) -> None:
        """Watch a post from now on."""
        self.pop(post, None)
        self[post] = author
        if len(self) > WATCHED_MAX:
            del self[next(iter(self))]


class Touched:
    """Posts to look at again, collected so that each is told of once however often it changed.

    `counted`: its numbers changed; otherwise only who may see it.
    """

    def __init__(self) -> None:
        self._posts: dict[int, tuple[int, bool]] = {}  # post -> (sequence since which it is not told, counted)

    def add(self, post: int, sequence: int, *, counted: bool) -> None:
        """Note a change of a post; changes come in the order of the log."""
        since, before = self._posts.get(post, (sequence, False))
        self._posts[post] = since, counted or before

    def take(self) -> dict[int, tuple[int, bool]]:
        """Everything noted, oldest first; it is forgotten here."""
        posts, self._posts = self._posts, {}
        return posts

    def put_back(self, posts: dict[int, tuple[int, bool]]) -> None:
        """What there was no time for."""
        later, self._posts = self._posts, dict(posts)
        for post, (sequence, counted) in later.items():
            self.add(post, sequence, counted=counted)

    def told(self, at: int) -> int:
        """Up to which sequence number all is told, where everything up to `at` was noted."""
        return min((since for since, _ in self._posts.values()), default=at + 1) - 1
