"""A slate: the ranked posts that a reader has not been shown yet. The cursor of ranked home carries it.

So ranked paging needs no session on our side: no post comes twice and none is lost while posts arrive and scores move,
whichever process answers, after any restart. Limit: SLATE_MAX posts, 8 bytes each in the cursor, filled up to a
multiple of PAD, because how many are left tells how many the reader may not see.

Copies are known here alone. They are not shown beside the post that they are copies of: they go when it is shown. When
it may not be shown (it was deleted, its author is muted, the reader may not see it) the best of them takes its place.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Container, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.errors import BadCursor
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.home.rank.candidates import Candidates, Placed, RankedCandidates
from kith.home.rank.features import Flags, Integers

SLATE_MAX = 500
"""Posts of one ranking, copies included (article 001: the light pass looks at about 500)."""
PAD = 64
"""A packed slate has a multiple of this many entries, and no fewer."""
_HEAD, _SEEN_FROM = struct.Struct(">BBHqqq"), struct.Struct(">qq")
_FORM, _ID_BYTES = 3, 8
_MORE, _SKIPPED_SEEN, _SHOWING_SEEN, _HAS_SEEN_FROM = 1, 2, 4, 8  # bits of the second byte
Copies = Mapping[int, Sequence[int]]
"""Copies by the post that they are copies of, the best first. Most posts have none and are not in it."""
NO_COPIES: Copies = MappingProxyType({})


class Scroll(NamedTuple):
    """One scroll through home. It goes stretch by stretch: first the posts that the reader has not seen, then those
    that were skipped because they had.

    `begun_ms`: when the first page was made; what was seen since then does not come again. `skipped_seen`: something
    was left out as seen. `showing_seen`: by now what was seen is shown. `seen_from`: where the skipped posts begin, and
    while they are shown, where they end; None: where home begins and ends.
    """

    begun_ms: int
    skipped_seen: bool = False
    showing_seen: bool = False
    seen_from: Mark | None = None

    def left_out(self, top: Mark) -> Scroll:
        """With something seen left out of the posts beyond `top`."""
        return self if self.skipped_seen else self._replace(skipped_seen=True, seen_from=top)


_NO_SCROLL = Scroll(0)


class Slate(msgspec.Struct, frozen=True):
    """`ids`: best first, without copies, which are in `copies`. `end`: where older posts begin that were not looked at;
    None: there are none.
    """

    ids: list[int]
    end: Mark | None
    copies: Copies = NO_COPIES
    scroll: Scroll = _NO_SCROLL

    @property
    def is_last(self) -> bool:
        """Whether nothing comes after these posts."""
        return self.end is None and (self.scroll.showing_seen or not self.scroll.skipped_seen)

    def next_stretch(self, *, give_up: bool) -> tuple[Mark | None, Scroll]:
        """Beyond which place the scroll goes on after this slate, and what has its turn there.

        `give_up`: too many posts in a row were all seen, so it is the turn of what was left out down to here.
        """
        end, scroll = self.end, self.scroll
        if not scroll.showing_seen and scroll.skipped_seen and (give_up or end is None):
            return scroll.seen_from, scroll._replace(showing_seen=True, seen_from=end)
        if scroll.showing_seen and end == scroll.seen_from:
            return end, Scroll(scroll.begun_ms)
        return end, scroll

    def best(self, count: int) -> list[int]:
        """The first posts: as many as make `count` together with their copies, the last one's beyond that."""
        if not self.copies:
            return self.ids[:count]
        size = 0
        for at, id_ in enumerate(self.ids):
            if size >= count:
                return self.ids[:at]
            size += 1 + len(self.copies.get(id_, ()))
        return self.ids

    def every_id(self) -> list[int]:
        """All posts, the copies of each right behind it."""
        if not self.copies:
            return self.ids
        return [one for id_ in self.ids for one in (id_, *self.copies.get(id_, ()))]

    def after(self, looked_at: int, waiting: Collection[int], shown: Collection[int]) -> Slate:
        """What is left when a page was made of the first `looked_at` posts.

        Of these, the ones `waiting` stay. Each one `shown` goes with its copies. Any other may not be shown: the best
        of its copies takes its place.
        """
        ids, later = self.ids[:looked_at], self.ids[looked_at:]
        if not self.copies:
            return Slate([id_ for id_ in ids if id_ in waiting] + later, self.end, scroll=self.scroll)
        left, copies = [], dict(self.copies)
        for id_ in ids:
            if id_ in waiting:
                left.append(id_)
                continue
            alike = copies.pop(id_, ())
            if alike and id_ not in shown:
                left.append(alike[0])
                if alike[1:]:
                    copies[alike[0]] = alike[1:]
        return Slate(left + later, self.end, copies, self.scroll)

    def without(self, barred: Collection[int]) -> Slate:
        """What is left where these may not be shown: the best of its copies takes a post's place."""
        left: list[int] = []
        copies: dict[int, Sequence[int]] = {}
        for id_ in self.ids:
            alike = [one for one in (id_, *self.copies.get(id_, ())) if one not in barred]
            if alike:
                left.append(alike[0])
                if alike[1:]:
                    copies[alike[0]] = alike[1:]
        return Slate(left, self.end, copies, self.scroll)

    def pack(self) -> bytes:
        """The slate as a cursor carries it: a head, where seen posts begin if that is set, then 8 bytes a post; `~id`:
        a copy of the post before.
        """
        entries = self.ids
        if self.copies:
            entries = [entry for id_ in self.ids for entry in (id_, *(~copy for copy in self.copies.get(id_, ())))]
        count = len(entries)
        begun_ms, skipped_seen, showing_seen, seen_from = self.scroll
        flags = _MORE * (self.end is not None) | _SKIPPED_SEEN * skipped_seen | _SHOWING_SEEN * showing_seen
        flags |= _HAS_SEEN_FROM * (seen_from is not None)
        head = _HEAD.pack(_FORM, flags, count, begun_ms, *(self.end or (0, 0)))
        head += b"" if seen_from is None else _SEEN_FROM.pack(*seen_from)
        filler = bytes(_ID_BYTES * (max(1, -(-count // PAD)) * PAD - count))
        return head + np.array(entries, ">i8").tobytes() + filler


class PageChoice(NamedTuple):
    """Which posts of a slate go on a page, before the hard rules.

    `waiting`: those that stay for a later page. `looked_at`: how many of the slate's posts both were chosen from.
    `placed`: why each stands where it does.
    """

    posts: Candidates
    waiting: Collection[int]
    looked_at: int
    placed: Mapping[int, Placed]


class PageSoFar:
    """What is on a page so far. `placed`: why each post stands where it does; `copies`: of those that have some."""

    def __init__(self) -> None:
        self.shown: list[Candidates] = []
        self.placed: dict[int, Placed] = {}
        self.seen_before: set[int] = set()
        self.copies: dict[int, Sequence[int]] = {}

    def add(self, slate: Slate, choice: PageChoice, allowed: Set[int], reader: NodeId, pinned: Container[int]) -> None:
        """Add what was chosen of a slate and is `allowed`."""
        part = choice.posts.only(allowed)
        self.shown.append(part)
        self.placed |= choice.placed if part is choice.posts else part.placed(reader, pinned)
        if slate.scroll.showing_seen:
            self.seen_before |= allowed
        if slate.copies:
            self.copies |= {id_: slate.copies[id_] for id_ in allowed & slate.copies.keys()}


def unpack(raw: bytes) -> Slate:
    """The slate of a cursor; BadCursor for a form that this version does not know."""
    if len(raw) <= _HEAD.size or raw[0] != _FORM:
        raise _foreign()
    _, flags, count, begun_ms, position, id_ = _HEAD.unpack_from(raw)
    begin = _HEAD.size + (_SEEN_FROM.size if flags & _HAS_SEEN_FROM else 0)
    size = len(raw) - begin
    if size <= 0 or size % (PAD * _ID_BYTES) or count * _ID_BYTES > size:
        raise _foreign()
    seen_from = Mark(*_SEEN_FROM.unpack_from(raw, _HEAD.size)) if flags & _HAS_SEEN_FROM else None
    entries = np.frombuffer(raw, ">i8", count, begin).astype(np.int64)
    if count and entries[0] < 0:
        raise _foreign()
    are_copies = entries < 0
    ids, copies = _grouped(np.where(are_copies, ~entries, entries), are_copies)
    scroll = Scroll(begun_ms, bool(flags & _SKIPPED_SEEN), bool(flags & _SHOWING_SEEN), seen_from)
    return Slate(ids, Mark(position, id_) if flags & _MORE else None, copies, scroll)


def make_slate(candidates: Candidates, end: Mark | None, scroll: Scroll = _NO_SCROLL) -> tuple[Slate, RankedCandidates]:
    """A slate of all candidates, best first; and those that are no copies, in the same order.

    Copies have the same key. The best of them stands for them all.
    """
    places = (-candidates.scores).argsort(kind="stable")
    in_order = np.sort(candidates.facts.copy_keys)
    if (in_order[1:] != in_order[:-1]).all():
        return Slate(candidates.facts.ids[places].tolist(), end, scroll=scroll), RankedCandidates(candidates, places)
    copy_keys = candidates.facts.copy_keys[places]
    kinds, firsts = np.unique(copy_keys, return_index=True)
    best = firsts[np.searchsorted(kinds, copy_keys)]  # of each, where the best of its kind stands
    together = best.argsort(kind="stable")
    are_copies = best[together] != together
    places = places[together]
    ids, copies = _grouped(candidates.facts.ids[places], are_copies)
    return Slate(ids, end, copies, scroll), RankedCandidates(candidates, places[~are_copies])


def _grouped(ids: Integers, are_copies: Flags) -> tuple[list[int], Copies]:
    """Posts and their copies, of both in one list, each copy behind the post that it is a copy of."""
    if not are_copies.any():
        return ids.tolist(), NO_COPIES
    posts: list[int] = []
    copies: dict[int, list[int]] = {}
    for id_, is_copy in zip(ids.tolist(), are_copies.tolist(), strict=True):
        if is_copy:
            copies.setdefault(posts[-1], []).append(id_)
        else:
            posts.append(id_)
    return posts, copies


def _foreign() -> BadCursor:
    return BadCursor("this cursor is of another version; start again without it")
