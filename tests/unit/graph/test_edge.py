"""The merge law (of two writes the greater (version, state, position) wins, in any order), and conditions of writes."""

from __future__ import annotations

import random
from functools import reduce

import msgspec
import pytest
from cast import ALICE, BOB
from edges import edge_of
from hypothesis import given
from hypothesis import strategies as st

from kith.graph.edge import (
    Edge,
    EdgeChange,
    EdgeLimit,
    EdgeWrite,
    Outcome,
    State,
    count_applied,
    decide,
    merge,
    precedence,
    resolve,
)

# Few values each, so that ties are the rule.
versions = st.builds(
    lambda position, state, version, end: msgspec.structs.replace(
        edge_of(ALICE, BOB, position, state, version), expires_ms=0 if state is State.REMOVED else end
    ),
    st.integers(-1, 1),
    st.sampled_from(State),
    st.integers(0, 2),
    st.integers(0, 2),
)
NORMAL, NEGATIVE, ARCHIVED, REMOVED = State


@given(versions, versions)
def test_merge_is_commutative(one: Edge, other: Edge) -> None:
    assert merge(one, other) == merge(other, one)


@given(versions, versions, versions)
def test_merge_is_associative(one: Edge, two: Edge, three: Edge) -> None:
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@given(versions, versions)
def test_merge_is_idempotent(one: Edge, other: Edge) -> None:
    assert merge(one, one) == one
    assert merge(merge(one, other), other) == merge(one, other)


@given(st.lists(versions, min_size=1), st.randoms(use_true_random=False))
def test_any_order_and_repetition_of_writes_leaves_the_greatest(edges: list[Edge], chance: random.Random) -> None:
    again = edges + chance.sample(edges, len(edges) // 2)
    chance.shuffle(again)
    left: Edge | None = reduce(merge, again, None)
    assert left == max(
        edges, key=lambda edge: (edge.updated_at, list(State).index(edge.state), edge.position, edge.expires_ms)
    )


def outcome_of(stored: Edge | None, write: EdgeWrite, limited: int = 0, *, barred: bool = False) -> Outcome:
    return decide(stored, write, resolve(stored, write), barred=lambda: barred, limited=lambda _: limited)


def test_the_first_write_of_an_edge_is_applied() -> None:
    assert merge(None, edge_of(ALICE, BOB)) == edge_of(ALICE, BOB)


LESS_AND_GREATER: dict[str, tuple[Edge, Edge]] = {
    "the version first": (edge_of(1, 2, 9, REMOVED, 1), edge_of(1, 2, 0, NORMAL, 2)),
    "then the state": (edge_of(1, 2, 9, NORMAL, 1), edge_of(1, 2, 0, NEGATIVE, 1)),
    "archived above negative": (edge_of(1, 2, 9, NEGATIVE, 1), edge_of(1, 2, 0, ARCHIVED, 1)),
    "removed above archived": (edge_of(1, 2, 9, ARCHIVED, 1), edge_of(1, 2, 0, REMOVED, 1)),
    "then the position": (edge_of(1, 2, -9, ARCHIVED, 1), edge_of(1, 2, -8, ARCHIVED, 1)),
    "then the end": (edge_of(1, 2, 9), msgspec.structs.replace(edge_of(1, 2, 9), expires_ms=1)),
}


@pytest.mark.parametrize(("less", "greater"), LESS_AND_GREATER.values(), ids=LESS_AND_GREATER)
def test_ties_are_decided_by_rank_then_by_position(less: Edge, greater: Edge) -> None:
    assert precedence(less) < precedence(greater)
    assert merge(less, greater) == greater == merge(greater, less)


def test_a_removed_edge_is_not_brought_back_by_an_older_write() -> None:
    removed = edge_of(ALICE, BOB, state=REMOVED, version=5)
    assert merge(removed, edge_of(ALICE, BOB, version=4)) == removed
    assert outcome_of(removed, EdgeWrite(edge_of(ALICE, BOB, version=4))) is Outcome.UNCHANGED


def test_the_same_write_again_changes_nothing() -> None:
    edge = edge_of(ALICE, BOB)
    equal = msgspec.structs.replace(edge)
    assert outcome_of(equal, EdgeWrite(edge)) is Outcome.UNCHANGED
    assert outcome_of(edge, EdgeWrite(edge)) is Outcome.UNCHANGED  # also for the identical object: some stores keep it


new = edge_of(ALICE, BOB, 7, NORMAL, 9)
gone = edge_of(ALICE, BOB, 7, REMOVED, 9)
PRESENT = frozenset({NORMAL, NEGATIVE, ARCHIVED})


def old(state: State) -> Edge:
    return edge_of(ALICE, BOB, 1, state, 1)


CONDITIONS: dict[str, tuple[Edge | None, EdgeWrite, int, Outcome]] = {
    "no edge yet": (None, EdgeWrite(new), 0, Outcome.APPLIED),
    "keep_live: is normal": (old(NORMAL), EdgeWrite(new, keep_live=True), 0, Outcome.UNCHANGED),
    "keep_live: is archived": (old(ARCHIVED), EdgeWrite(new, keep_live=True), 0, Outcome.APPLIED),
    "keep_live: no row": (None, EdgeWrite(new, keep_live=True), 0, Outcome.APPLIED),
    "only_from present: no row": (None, EdgeWrite(gone, only_from=PRESENT), 0, Outcome.UNCHANGED),
    "only_from removed: no row": (None, EdgeWrite(gone, only_from=frozenset({REMOVED})), 0, Outcome.APPLIED),
    "only_from present: is removed": (old(REMOVED), EdgeWrite(gone, only_from=PRESENT), 0, Outcome.UNCHANGED),
    "only_from present: is archived": (old(ARCHIVED), EdgeWrite(gone, only_from=PRESENT), 0, Outcome.APPLIED),
    "only_from nothing": (old(NORMAL), EdgeWrite(gone, only_from=frozenset()), 0, Outcome.UNCHANGED),
    "limit: room for one": (None, EdgeWrite(new, limit=EdgeLimit(3)), 2, Outcome.APPLIED),
    "limit: reached": (None, EdgeWrite(new, limit=EdgeLimit(3)), 3, Outcome.OVER_LIMIT),
    "limit: one more by a return": (old(REMOVED), EdgeWrite(new, limit=EdgeLimit(3)), 3, Outcome.OVER_LIMIT),
    "limit: none more": (old(NORMAL), EdgeWrite(new, limit=EdgeLimit(3)), 3, Outcome.APPLIED),
    "limit: one less": (old(NORMAL), EdgeWrite(gone, limit=EdgeLimit(0)), 3, Outcome.APPLIED),
    "keep_live before limit": (old(NORMAL), EdgeWrite(new, keep_live=True, limit=EdgeLimit(3)), 3, Outcome.UNCHANGED),
    "the merge law before limit": (
        edge_of(ALICE, BOB, 1, REMOVED, 10),
        EdgeWrite(new, limit=EdgeLimit(3)),
        3,
        Outcome.UNCHANGED,
    ),
    "limit: of two states": (
        old(REMOVED),
        EdgeWrite(new, limit=EdgeLimit(3, states=(NORMAL, NEGATIVE))),
        3,
        Outcome.OVER_LIMIT,
    ),
    "limit: from one of its states to another": (
        old(NEGATIVE),
        EdgeWrite(new, limit=EdgeLimit(3, states=(NORMAL, NEGATIVE))),
        3,
        Outcome.APPLIED,
    ),
    "limit: of another state": (None, EdgeWrite(new, limit=EdgeLimit(3, states=(NEGATIVE,))), 3, Outcome.APPLIED),
    "limit 0": (None, EdgeWrite(new, limit=EdgeLimit(0)), 0, Outcome.OVER_LIMIT),
}


@pytest.mark.parametrize(("stored", "write", "limited", "outcome"), CONDITIONS.values(), ids=CONDITIONS)
def test_each_condition_decides_the_outcome_in_its_order(
    stored: Edge | None, write: EdgeWrite, limited: int, outcome: Outcome
) -> None:
    assert outcome_of(stored, write, limited) is outcome


@given(versions, versions)
def test_a_superseding_write_wins_with_the_smallest_sufficient_version(stored: Edge, incoming: Edge) -> None:
    edge = resolve(stored, EdgeWrite(incoming, supersede=True))
    assert merge(stored, edge) == edge != stored
    assert edge.updated_at == max(incoming.updated_at, stored.updated_at + 1)
    assert (edge.state, edge.position) == (incoming.state, incoming.position)
    kept = resolve(stored, EdgeWrite(incoming, supersede=True, keep_place=True))
    expires_ms = 0 if incoming.state is REMOVED else stored.expires_ms
    assert kept == msgspec.structs.replace(edge, position=stored.position, expires_ms=expires_ms)
    assert resolve(stored, EdgeWrite(incoming, supersede=True, keep_expiry=True)).expires_ms == expires_ms


@given(versions, versions)
def test_a_write_with_its_own_version_is_stored_as_it_is(stored: Edge, incoming: Edge) -> None:
    assert resolve(stored, EdgeWrite(incoming)) == incoming
    assert resolve(None, EdgeWrite(incoming, supersede=True, keep_place=True)) == incoming


def test_conditions_are_checked_only_if_the_write_would_change_something() -> None:
    def not_called() -> bool:
        raise AssertionError("must not be called")

    bars = ((2, ALICE, BOB),)
    for stored, write in [
        (None, EdgeWrite(new)),
        (old(NORMAL), EdgeWrite(new, unless=bars, keep_live=True, limit=EdgeLimit(0))),
        (edge_of(ALICE, BOB, 1, REMOVED, 10), EdgeWrite(new, unless=bars, limit=EdgeLimit(0))),
    ]:
        decide(stored, write, resolve(stored, write), barred=not_called, limited=not_called)
    assert outcome_of(None, EdgeWrite(new, unless=bars), barred=True) is Outcome.FORBIDDEN
    assert outcome_of(None, EdgeWrite(new, unless=bars), barred=False) is Outcome.APPLIED
    assert outcome_of(None, EdgeWrite(new, unless=bars, limit=EdgeLimit(0)), barred=True) is Outcome.FORBIDDEN


def test_applied_counts_writes_that_changed_something() -> None:
    assert count_applied(EdgeChange(outcome, None, None) for outcome in (*Outcome, Outcome.APPLIED)) == 2
