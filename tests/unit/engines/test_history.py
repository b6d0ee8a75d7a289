"""Positions of the log, and which of them a store still holds after restores."""

from __future__ import annotations

from itertools import product

import pytest

from kith.core.events import NOWHERE, LogPosition
from kith.engines.embedded.history import ORIGINAL, History, StorePositions


def test_a_store_that_was_never_restored_holds_every_position_of_its_history() -> None:
    assert History().name == ORIGINAL
    assert History().holds(ORIGINAL, 2**63)
    assert not History().holds(5, 1)


def test_events_after_a_backup_are_distinct_from_events_after_its_restore() -> None:
    once = History().restored(10)
    twice, other = once.restored(25), once.restored(5)  # restored from a backup made after, and before, events 11 to 20
    assert len({ORIGINAL, once.name, twice.name, other.name}) == 4
    for history, name, last in (
        (once, ORIGINAL, 10), (once, once.name, 2**63), (twice, ORIGINAL, 10), (twice, once.name, 25),
        (twice, twice.name, 2**63), (other, ORIGINAL, 5), (other, once.name, 5), (other, twice.name, -1), (once, 7, -1),
    ):  # fmt: skip
        assert history.holds(name, last) == (last >= 0)
        assert not history.holds(name, last + 1) or last == 2**63


def test_positions_are_ordered_from_nowhere_on() -> None:
    positions = StorePositions(History())
    assert [positions.sequence(positions.of(number)) for number in (0, 1, 300, 2**64 - 1)] == [0, 1, 300, 2**64 - 1]
    for one, other in product((0, 1, 255, 256, 2**63), repeat=2):
        assert positions.covers(positions.of(one), positions.of(other)) == (one >= other)
    assert positions.sequence(NOWHERE) == 0
    assert positions.covers(NOWHERE, NOWHERE)
    assert positions.covers(positions.of(0), NOWHERE)
    assert not positions.covers(NOWHERE, positions.of(1))


@pytest.mark.parametrize("junk", [b"1", b"x" * 7, b"x" * 9, b"x" * 16, b"x" * 17])
def test_junk_is_covered_by_no_position(junk: bytes) -> None:
    assert not StorePositions(History()).covers(StorePositions(History()).of(2**63), LogPosition(junk))


def test_the_position_of_a_lost_event_is_never_covered_however_many_events_follow() -> None:
    before, after = StorePositions(History()), StorePositions(History().restored(10))
    assert after.covers(after.of(10), before.of(10))
    assert not after.covers(after.of(9), before.of(10))
    assert not after.covers(after.of(1_000), before.of(11))
    assert after.covers(after.of(11), after.of(11))
    assert not before.covers(before.of(1_000), after.of(1)), "a position of a store that was restored from this one"


@pytest.mark.parametrize("history", [History(), History().restored(5)], ids=["first", "restored"])
def test_a_batch_of_positions_equals_single_ones(history: History) -> None:
    positions = StorePositions(history)
    assert positions.of_many(254, 4) == [positions.of(sequence) for sequence in range(254, 258)]
