"""The slate: its form in a cursor, and what happens to copies when a post is shown or hidden."""

from __future__ import annotations

import contextlib
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kith.core.errors import BadCursor
from kith.core.ids import ID_MAX
from kith.core.paging import Mark
from kith.home.rank.candidates import Candidates
from kith.home.slate import PAD, SLATE_MAX, Scroll, Slate, make_slate, unpack

ids = st.integers(0, ID_MAX)
ends = st.one_of(st.none(), st.builds(Mark, st.integers(-(2**63), 2**63 - 1), ids))


def slate_of(posts: list[int], are_copies: list[bool], end: Mark | None) -> Slate:
    """A slate of these posts. `are_copies`: for each post after the first, whether it is a copy of the one before."""
    found: list[int] = []
    copies: dict[int, list[int]] = {}
    for id_, is_copy in zip(posts, [False, *are_copies], strict=False):
        if is_copy:
            copies.setdefault(found[-1], []).append(id_)
        else:
            found.append(id_)
    return Slate(found, end, copies)


times = st.integers(0, 2**62)
scrolls = st.builds(Scroll, times, st.booleans(), st.booleans(), ends, st.none() | times)
slates = st.builds(
    lambda scroll, *parts: msgspec.structs.replace(slate_of(*parts), scroll=scroll),
    scrolls,
    st.lists(ids, unique=True, max_size=SLATE_MAX),
    st.lists(st.booleans(), min_size=SLATE_MAX),
    ends,
)


# --- in a cursor -------------------------------------------------------------------------------------------


@given(slates)
def test_a_slate_survives_packing(slate: Slate) -> None:
    assert unpack(slate.pack()) == slate
    assert len(slate.pack()) <= 52 + 8 * (SLATE_MAX + PAD)


@given(slates)
def test_the_packed_length_reveals_the_size_of_a_slate_only_coarsely(slate: Slate) -> None:
    steps = max(1, -(-len(slate.every_id()) // PAD))
    assert len(slate.pack()) == len(Slate([0] * PAD * steps, None, scroll=slate.scroll).pack())
    assert len({len(Slate([1] * left, None).pack()) for left in range(PAD + 1)}) == 1


def stored(*entries: int, form: int = 3, count: int | None = None, end: Mark | None = None, flags: int = 0) -> bytes:
    """A packed slate, as cursors carry it: `~id` is a copy of the post before."""
    size = len(entries) if count is None else count
    head = struct.pack(">BBHqqq", form, flags | (end is not None), size, 5, *(end or (0, 0)))
    return head + struct.pack(f">{PAD}q", *entries, *[0] * (PAD - len(entries)))


def test_cursors_already_issued_can_still_be_read() -> None:
    end = Mark(1_700_000_000_000, 9)
    slate = Slate([1, 4, 5], end, {1: [2, 3], 5: [6]}, Scroll(5))
    assert unpack(stored(1, ~2, ~3, 4, 5, ~6, end=end)) == slate
    assert unpack(stored(1, 2)) == Slate([1, 2], None, scroll=Scroll(5))
    assert unpack(stored(1, 2, flags=2)) == Slate([1, 2], None, scroll=Scroll(5, skipped_seen=True))
    assert unpack(stored(1, 2, flags=6)) == Slate([1, 2], None, scroll=Scroll(5, skipped_seen=True, showing_seen=True))
    assert slate.pack() == stored(1, ~2, ~3, 4, 5, ~6, end=end)


NO_SLATES = {
    "nothing": b"",
    "another form": stored(1, 2, form=2),
    "more posts than there are": stored(1, 2, count=PAD + 1),
    "a copy of nothing": stored(~1, 2),
    "a byte": stored(1, 2)[:1],
    "a head without its last byte": stored(1, 2)[:27],
    "a head alone": stored(1, 2)[:28],
    "one post": stored(1, 2)[:36],
    "a border that is cut off": Slate([1], None, scroll=Scroll(5, seen_from=Mark(7, 7))).pack()[: 28 + 8],
    "a border alone": Slate([1], None, scroll=Scroll(5, seen_from=Mark(7, 7))).pack()[: 28 + 16],
    "no border where one was said": stored(1, 2, flags=8),
    "no time where one was said": stored(1, 2, flags=16),
    "two posts and no filler": stored(1, 2)[:44],
    "all but the last byte": stored(1, 2)[:-1],
}


@pytest.mark.parametrize("raw", NO_SLATES.values(), ids=NO_SLATES)
def test_bytes_that_are_no_slate_are_a_bad_cursor(raw: bytes) -> None:
    with pytest.raises(BadCursor):
        unpack(raw)


@given(st.binary(max_size=60).map(lambda raw: b"\x03" + raw.ljust(27 + 8 * PAD, b"\x00")) | st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_as_a_bad_cursor(raw: bytes) -> None:
    with contextlib.suppress(BadCursor):
        assert isinstance(unpack(raw), Slate)


# --- what is left of it ------------------------------------------------------------------------------------


def test_copies_are_dropped_with_the_post_that_is_shown() -> None:
    slate = Slate([1, 4], None, {1: [2, 3], 4: [5]})
    assert slate.after(2, waiting={4}, shown={1}) == Slate([4], None, {4: [5]})
    assert slate.after(2, waiting={1, 4}, shown=set()) == slate


def test_the_next_copy_replaces_a_post_that_may_not_be_shown() -> None:
    slate = Slate([1, 4], None, {1: [2, 3]})
    assert slate.after(2, waiting={4}, shown=set()) == Slate([2, 4], None, {2: [3]})
    assert Slate([0], None, {0: [ID_MAX]}).after(1, waiting=set(), shown=set()) == Slate([ID_MAX], None)


def test_posts_not_looked_at_yet_stay() -> None:
    end = Mark(7, 7)
    assert Slate([1, 2, 3], end).after(2, waiting=set(), shown={1}) == Slate([3], end)
    assert Slate([1, 2, 3], end, {3: [4]}).after(2, waiting={2}, shown={1}) == Slate([2, 3], end, {3: [4]})
    assert Slate([1, 2], None).after(0, waiting=set(), shown=set()) == Slate([1, 2], None)


def test_the_best_of_a_slate_are_counted_with_their_copies() -> None:
    slate = Slate([1, 3, 6], None, {1: [2], 3: [4, 5]})
    assert [slate.best(count) for count in (1, 2, 3, 5, 6, 50)] == [[1], [1], [1, 3], [1, 3], [1, 3, 6], [1, 3, 6]]
    assert Slate([1, 2, 3], None).best(2) == [1, 2]
    assert Slate([1], None).best(50) == [1]
    assert Slate([], None).best(50) == []


def test_seen_posts_come_after_all_unseen_ones() -> None:
    end = Mark(7, 7)
    assert Slate([1], None).is_last
    assert not Slate([1], end).is_last
    assert not Slate([1], None, scroll=Scroll(5, skipped_seen=True)).is_last
    assert Slate([1], None, scroll=Scroll(5, skipped_seen=True, showing_seen=True)).is_last
    for copies in ({}, {1: [2]}):
        slate = Slate([1, 3], end, copies, Scroll(5, skipped_seen=True))
        assert slate.after(1, waiting=set(), shown={1}) == Slate([3], end, scroll=slate.scroll)


def test_seen_posts_start_where_they_were_first_skipped_and_end_where_unseen_ones_ended() -> None:
    top, place, bottom = Mark(9, 9), Mark(8, 8), Mark(7, 7)
    unseen = Scroll(5).with_skipped(top).with_skipped(place)
    assert unseen == Scroll(5, True, seen_from=top)
    assert Slate([], place, scroll=unseen).next_stretch(give_up=False) == (place, unseen)
    assert Slate([], place, scroll=Scroll(5)).next_stretch(give_up=True) == (place, Scroll(5)), (
        "no seen post was skipped"
    )
    assert Slate([], None, scroll=unseen).next_stretch(give_up=False) == (top, Scroll(5, True, True))
    seen = Scroll(5, True, True, bottom)
    assert Slate([], bottom, scroll=unseen).next_stretch(give_up=True) == (top, seen)
    assert Slate([], place, scroll=seen).next_stretch(give_up=True) == (place, seen)
    assert Slate([], bottom, scroll=seen).next_stretch(give_up=False) == (bottom, Scroll(5))
    assert not Slate([], bottom, scroll=seen).is_last


# --- how it is made ----------------------------------------------------------------------------------------


def scored(scores: list[float], kinds: list[int]) -> Candidates:
    """Posts 0, 1, 2, ... with these scores. Posts of one kind are copies of each other."""
    found = Candidates.unranked(np.arange(len(scores)))
    facts = found.facts._replace(copy_keys=np.array(kinds, np.int64))
    return found._replace(facts=facts, scores=np.array(scores, np.float32))


def test_posts_are_sorted_by_score_and_equal_ones_keep_their_order() -> None:
    slate, ranked = make_slate(scored([0.1, 0.9, 0.5, 0.5], kinds=[1, 2, 3, 4]), Mark(7, 7))
    assert slate == Slate([1, 2, 3, 0], Mark(7, 7))
    assert ranked.best(len(slate.ids)).facts.ids.tolist() == slate.ids


def test_copies_follow_the_best_of_them() -> None:
    slate, ranked = make_slate(scored([0.1, 0.9, 0.5, 0.7, 0.6], kinds=[1, 2, 1, 3, 2]), None)
    assert slate == Slate([1, 3, 2], None, {1: [4], 2: [0]})
    assert ranked.best(len(slate.ids)).facts.ids.tolist() == slate.ids
    assert ranked.best(2).scores.tolist() == pytest.approx([0.9, 0.7])


def test_no_candidates_make_an_empty_slate() -> None:
    assert make_slate(scored([], kinds=[]), None)[0] == Slate([], None)
