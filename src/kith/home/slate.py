"""A slate: the ranked posts that a reader has not been shown yet. The cursor of ranked home carries it.

So ranked paging needs no session on the server. While posts arrive and scores change, no post is repeated and none is
lost, whichever process answers and after any restart. A slate has at most SLATE_MAX posts, 8 bytes each in the cursor.
The cursor is padded to a multiple of PAD posts, because the exact number would tell how many posts the reader may not
see.

Only this module knows about copies. A copy is not shown beside its original: it leaves the slate when the original is
shown. If the original may not be shown (it was deleted, its author is muted, the reader may not see it), its best copy
takes its place.
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
"""Posts in one ranking, copies included (article 001: the light pass looks at about 500)."""
PAD = 64
"""The number of entries in a packed slate is a multiple of this, and at least this."""
_HEAD, _SEEN_FROM, _SEEN_UNTIL = struct.Struct(">BBHqqq"), struct.Struct(">qq"), struct.Struct(">q")
_FORM, _ID_BYTES = 3, 8
_MORE, _SKIPPED_SEEN, _SHOWING_SEEN, _HAS_SEEN_FROM, _HAS_SEEN_UNTIL = 1, 2, 4, 8, 16  # bits of the second byte
Copies = Mapping[int, Sequence[int]]
"""The copies of each post, best first. A post without copies, as most are, is not in it."""
NO_COPIES: Copies = MappingProxyType({})


class Scroll(NamedTuple):
    """One scroll through home. It shows one stretch of home after another: in each, first the posts that the reader has
    not seen, then the seen posts that were skipped.

    `begun_ms`: when the first page was made. `skipped_seen`: seen posts were skipped in this stretch. `showing_seen`:
    the skipped posts are shown now. `seen_from`: where the skipped posts begin, and while they are shown, where they
    end; None: the beginning or the end of home. `seen_until`: the time of the newest view known when the scroll began;
    posts seen since then are not repeated. It is no time of this process, because a view that is being written has an
    earlier time than the scroll and may not be known yet. None: `begun_ms`.
    """

    begun_ms: int
    skipped_seen: bool = False
    showing_seen: bool = False
    seen_from: Mark | None = None
    seen_until: int | None = None

    def with_skipped(self, top: Mark) -> Scroll:
        """The scroll after seen posts were skipped beyond `top`."""
        return self if self.skipped_seen else self._replace(skipped_seen=True, seen_from=top)


_NO_SCROLL = Scroll(0)


class Slate(msgspec.Struct, frozen=True):
    """`ids`: best first, without copies, which are in `copies`. `end`: where the older posts begin that were not ranked
    yet; None: there are none.
    """

    ids: list[int]
    end: Mark | None
    copies: Copies = NO_COPIES
    scroll: Scroll = _NO_SCROLL

    @property
    def is_last(self) -> bool:
        """Whether these are the last posts of the scroll."""
        return self.end is None and (self.scroll.showing_seen or not self.scroll.skipped_seen)

    def next_stretch(self, *, give_up: bool) -> tuple[Mark | None, Scroll]:
        """The place beyond which the scroll continues after this slate, and the scroll's state there.

        `give_up`: too many slates in a row held only seen posts, so show the posts skipped so far.
        """
        end, scroll = self.end, self.scroll
        if not scroll.showing_seen and scroll.skipped_seen and (give_up or end is None):
            return scroll.seen_from, scroll._replace(showing_seen=True, seen_from=end)
        if scroll.showing_seen and end == scroll.seen_from:
            return end, Scroll(scroll.begun_ms, seen_until=scroll.seen_until)
        return end, scroll

    def best(self, count: int) -> list[int]:
        """The first posts. Their copies count towards `count`; those of the last post may exceed it."""
        if not self.copies:
            return self.ids[:count]
        size = 0
        for at, id_ in enumerate(self.ids):
            if size >= count:
                return self.ids[:at]
            size += 1 + len(self.copies.get(id_, ()))
        return self.ids

    def every_id(self) -> list[int]:
        """All posts, each followed by its copies."""
        if not self.copies:
            return self.ids
        return [one for id_ in self.ids for one in (id_, *self.copies.get(id_, ()))]

    def after(self, looked_at: int, waiting: Collection[int], shown: Collection[int]) -> Slate:
        """The slate that is left after a page was made from the first `looked_at` posts.

        Of these posts, `waiting` ones stay and `shown` ones leave with their copies. The others may not be shown: the
        best copy of each takes its place.
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
        """The slate without the `barred` posts. The best copy of each takes its place."""
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
        """The slate as bytes for a cursor: a head, `seen_from` and `seen_until` if they are set, then 8 bytes a post.

        A copy is stored as `~id`, behind its original.
        """
        entries = self.ids
        if self.copies:
            entries = [entry for id_ in self.ids for entry in (id_, *(~copy for copy in self.copies.get(id_, ())))]
        count = len(entries)
        begun_ms, skipped_seen, showing_seen, seen_from, seen_until = self.scroll
        flags = _MORE * (self.end is not None) | _SKIPPED_SEEN * skipped_seen | _SHOWING_SEEN * showing_seen
        flags |= _HAS_SEEN_FROM * (seen_from is not None) | _HAS_SEEN_UNTIL * (seen_until is not None)
        head = _HEAD.pack(_FORM, flags, count, begun_ms, *(self.end or (0, 0)))
        head += b"" if seen_from is None else _SEEN_FROM.pack(*seen_from)
        head += b"" if seen_until is None else _SEEN_UNTIL.pack(seen_until)
        filler = bytes(_ID_BYTES * (max(1, -(-count // PAD)) * PAD - count))
        return head + np.array(entries, ">i8").tobytes() + filler


class PageChoice(NamedTuple):
    """The posts of a slate that were chosen for a page, before the hard rules.

    `waiting`: posts that stay for a later page. `looked_at`: how many of the slate's first posts were considered.
    `placed`: the score and reason of each chosen post.
    """

    posts: Candidates
    waiting: Collection[int]
    looked_at: int
    placed: Mapping[int, Placed]


class PartialPage:
    """The posts on a page so far. `placed`: score and reason by post; `copies`: by post, of those that have some."""

    def __init__(self) -> None:
        self.shown: list[Candidates] = []
        self.placed: dict[int, Placed] = {}
        self.seen_before: set[int] = set()
        self.copies: dict[int, Sequence[int]] = {}

    def add(self, slate: Slate, choice: PageChoice, allowed: Set[int], reader: NodeId, pinned: Container[int]) -> None:
        """Add the chosen posts that are `allowed`."""
        part = choice.posts.only(allowed)
        self.shown.append(part)
        self.placed |= choice.placed if part is choice.posts else part.placed(reader, pinned)
        if slate.scroll.showing_seen:
            self.seen_before |= allowed
        if slate.copies:
            self.copies |= {id_: slate.copies[id_] for id_ in allowed & slate.copies.keys()}


def unpack(raw: bytes) -> Slate:
    """The slate in a cursor. BadCursor if this version does not know its form."""
    if len(raw) <= _HEAD.size or raw[0] != _FORM:
        raise _unknown_form()
    _, flags, count, begun_ms, position, id_ = _HEAD.unpack_from(raw)
    until_at = _HEAD.size + (_SEEN_FROM.size if flags & _HAS_SEEN_FROM else 0)
    begin = until_at + (_SEEN_UNTIL.size if flags & _HAS_SEEN_UNTIL else 0)
    size = len(raw) - begin
    if size <= 0 or size % (PAD * _ID_BYTES) or count * _ID_BYTES > size:
        raise _unknown_form()
    seen_from = Mark(*_SEEN_FROM.unpack_from(raw, _HEAD.size)) if flags & _HAS_SEEN_FROM else None
    seen_until = _SEEN_UNTIL.unpack_from(raw, until_at)[0] if flags & _HAS_SEEN_UNTIL else None
    entries = np.frombuffer(raw, ">i8", count, begin).astype(np.int64)
    if count and entries[0] < 0:
        raise _unknown_form()
    are_copies = entries < 0
    ids, copies = _split_copies(np.where(are_copies, ~entries, entries), are_copies)
    scroll = Scroll(begun_ms, bool(flags & _SKIPPED_SEEN), bool(flags & _SHOWING_SEEN), seen_from, seen_until)
    return Slate(ids, Mark(position, id_) if flags & _MORE else None, copies, scroll)


def make_slate(candidates: Candidates, end: Mark | None, scroll: Scroll = _NO_SCROLL) -> tuple[Slate, RankedCandidates]:
    """A slate of all candidates, best first, and the candidates without copies, in the same order.

    Posts with the same copy key are copies of the best of them.
    """
    places = (-candidates.scores).argsort(kind="stable")
    in_order = np.sort(candidates.facts.copy_keys)
    if (in_order[1:] != in_order[:-1]).all():
        return Slate(candidates.facts.ids[places].tolist(), end, scroll=scroll), RankedCandidates(candidates, places)
    copy_keys = candidates.facts.copy_keys[places]
    kinds, firsts = np.unique(copy_keys, return_index=True)
    best = firsts[np.searchsorted(kinds, copy_keys)]  # of each post, the place of the best with its key
    together = best.argsort(kind="stable")
    are_copies = best[together] != together
    places = places[together]
    ids, copies = _split_copies(candidates.facts.ids[places], are_copies)
    return Slate(ids, end, copies, scroll), RankedCandidates(candidates, places[~are_copies])


def _split_copies(ids: Integers, are_copies: Flags) -> tuple[list[int], Copies]:
    """Split one list, in which each original is followed by its copies, into posts and copies."""
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


def _unknown_form() -> BadCursor:
    return BadCursor("this cursor is of another version; start again without it")
