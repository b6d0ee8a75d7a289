"""Places in the log: how far one stream has been told. The text of a place is the id of what a client gets.

A client that lost the connection sends its last place back. Where the gap since then cannot be told, `why_lost` says
why, and the reader loads the feed anew.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_PLACE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})", re.ASCII)

Lost = Literal["expired", "too_far", "unknown"]


class Place(NamedTuple):
    """Two sequence numbers of the log: told are posts and removals up to `posts`, numbers of posts up to `counts`.

    `counts` lags, because numbers are collected for a second before they are sent.
    """

    posts: int
    counts: int

    def __str__(self) -> str:
        return f"{self.posts}-{self.counts}"


class Progress:
    """How far the open streams of one process have been told: posts and removals, numbers of posts. See `Place`."""

    def __init__(self) -> None:
        self.posts = self.counts = 0

    def place_at(self, sequence: int) -> Place:
        """The place of a stream that is now told of one change."""
        return Place(sequence, self.counts)

    def place_of(self, told_to: int) -> Place:
        """The place of a stream that was told what all were told, or more as it joined: up to `told_to`."""
        return Place(max(self.posts, told_to), self.counts)


def read_place(text: str) -> Place | None:
    """The place that a client sent back; None if the text was never one."""
    found = _PLACE.fullmatch(text)
    place = None if found is None else Place(int(found[1]), int(found[2]))
    return place if place is not None and place.counts <= place.posts else None


def why_lost(place: Place | None, first: int, last: int, events_max: int) -> Lost | None:
    """Why the gap since `place` cannot be told from a log that holds `first` to `last`; None if it can."""
    if place is None or place.posts > last:
        return "unknown"  # not from here, or from after the backup that this store was restored from
    if place.counts + 1 < first:
        return "expired"
    return "too_far" if last - place.counts > events_max else None
