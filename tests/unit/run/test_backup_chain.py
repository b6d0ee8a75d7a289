"""The rules of backups: which parts restore a point in time, which may be pruned, and when the next is due."""

from __future__ import annotations

import re

import pytest

from kith.core.errors import BadRequest, StoreMismatch
from kith.run.backups.chain import NEWEST, RestorePoint, last_part, prunable, restore_plan
from kith.run.backups.parts import Part, PartKind, Parts, StoredFile, decode_manifest, encode_manifest, next_id
from kith.run.backups.schedule import Due, Status, due, is_good
from kith.run.config import Settings


def part(number: int, events: tuple[int, int], ms: tuple[int, int], line: str = "a", most: int = 0) -> Part:
    """A part of a backup. `events`: (after, until), and after = -1 makes it a whole.

    `ms`: when the part was begun, and when its newest event was logged.
    """
    after, until = events
    kind: PartKind = "whole" if after < 0 else "increment"
    return Part(
        1, f"{number:08}-0-{kind}", kind, line, "store", [],
        max(0, after), until, most or until, "", "", ms[0], 0, ms[1], {"store.mdb": StoredFile(1, "")},
    )  # fmt: skip


PARTS = [
    part(1, (-1, 10), (100, 90), most=12),
    part(2, (10, 20), (200, 190)),
    part(3, (20, 30), (300, 290)),
    part(4, (-1, 31), (310, 305), most=33),
    part(5, (30, 40), (400, 390)),
    part(6, (-1, 60), (600, 500), line="b"),
    part(7, (60, 70), (700, 690), line="b"),
]

POINTS = [
    (NEWEST, [6, 7]),
    (RestorePoint(ms=10**6), [6, 7]),
    (RestorePoint(ms=650), [6, 7]),
    (RestorePoint(ms=600), [6, 7]),
    (RestorePoint(ms=599), [4, 5]),
    (RestorePoint(ms=310), [4, 5]),
    (RestorePoint(ms=309), [1, 2, 3, 5]),
    (RestorePoint(ms=290), [1, 2, 3, 5]),
    (RestorePoint(ms=289), [1, 2, 3]),
    (RestorePoint(ms=100), [1, 2]),
    (RestorePoint(event=12, line="a"), [1, 2]),
    (RestorePoint(event=20, line="a"), [1, 2]),
    (RestorePoint(event=32, line="a"), [1, 2, 3, 5]),
    (RestorePoint(event=33, line="a"), [4, 5]),
    (RestorePoint(event=65, line="b"), [6, 7]),
]


def numbers(parts: object) -> list[int]:
    return [int(one.id.split("-")[0]) for one in parts]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("goal", "asked"), POINTS)
def test_a_point_is_restored_from_the_newest_whole_before_it_and_later_increments(
    goal: RestorePoint, asked: list[int]
) -> None:
    found = restore_plan(PARTS, goal)
    assert numbers([found.whole, *found.increments]) == asked


@pytest.mark.parametrize(
    ("goal", "without", "error", "says"),
    [
        (RestorePoint(ms=99), 0, BadRequest, "no whole .* as old"),
        (RestorePoint(event=11, line="a"), 0, BadRequest, "no whole .* as old"),
        (RestorePoint(event=50, line="a"), 0, BadRequest, "ends at event 40"),
        (RestorePoint(event=90, line="b"), 0, BadRequest, "ends at event 70"),
        (RestorePoint(ms=289), 2, StoreMismatch, "events 11 to 20 are missing"),
        (RestorePoint(ms=309), 3, StoreMismatch, "events 21 to 30 are missing"),
        (NEWEST, 6, StoreMismatch, "the whole backup .* is missing"),
    ],
)
def test_the_error_for_an_unreachable_point_says_why(
    goal: RestorePoint, without: int, error: type[Exception], says: str
) -> None:
    left = [one for one in PARTS if numbers([one]) != [without]]
    with pytest.raises(error, match=says):
        restore_plan(left, goal)


def test_a_damaged_part_blocks_only_points_that_may_need_it() -> None:
    damaged = ["00000008-0-increment"]
    for goal in (NEWEST, RestorePoint(ms=10**6)):
        with pytest.raises(StoreMismatch, match="00000008-0-increment"):
            restore_plan(PARTS, goal, damaged)
    assert restore_plan(PARTS, RestorePoint(ms=289), damaged)


@pytest.mark.parametrize(("count", "last"), [(0, None), (1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (6, 6), (7, 7)])
def test_the_next_increment_continues_the_newest_line(count: int, last: int | None) -> None:
    found = last_part(PARTS[:count])
    assert (numbers([found])[0] if found else None) == last


@pytest.mark.parametrize(
    ("kept_from", "gone"), [(0, []), (100, []), (309, []), (310, [1, 2, 3]), (599, [1, 2, 3]), (600, [1, 2, 3, 4, 5])]
)
def test_parts_that_no_kept_point_needs_are_pruned(kept_from: int, gone: list[int]) -> None:
    parts = [*PARTS[:2], part(3, (20, 31), (300, 290)), *PARTS[3:]]
    assert numbers(prunable(parts, kept_from, 0)) == gone
    left = [one for one in parts if one not in prunable(parts, kept_from, 0)]
    for goal, _ in POINTS:
        if goal.ms is not None and goal.ms >= max(100, kept_from):
            assert restore_plan(left, goal) == restore_plan(parts, goal)


@pytest.mark.parametrize(("newer_min", "gone"), [(0, [1, 2, 3, 4, 5]), (1, [1, 2, 3]), (2, []), (9, [])])
def test_a_whole_is_pruned_only_once_enough_newer_ones_exist(newer_min: int, gone: list[int]) -> None:
    parts = [*PARTS[:2], part(3, (20, 31), (300, 290)), *PARTS[3:]]
    assert numbers(prunable(parts, 10**9, newer_min)) == gone


def test_empty_increments_are_restored_in_order_too() -> None:
    before, after = part(3, (31, 31), (305, 290)), [part(5, (31, 31), (350, 305)), part(6, (31, 31), (360, 305))]
    last = part(7, (31, 40), (400, 390))
    parts = [*PARTS[:2], before, PARTS[3], *after, last]
    assert numbers(restore_plan(parts).increments) == [5, 6, 7]
    assert last_part(parts[:-1]) == after[-1]


def test_an_increment_that_reaches_past_the_next_whole_is_kept() -> None:
    parts = [PARTS[0], part(2, (10, 40), (200, 190)), PARTS[3]]
    assert numbers(prunable(parts, 10**6, 0)) == [1]


def test_a_part_is_read_as_it_was_written_and_one_of_a_newer_kith_is_refused() -> None:
    raw = encode_manifest(PARTS[1])
    assert decode_manifest(raw, "it") == PARTS[1]
    for at in range(len(raw)):
        with pytest.raises(StoreMismatch, match="it is damaged"):
            decode_manifest(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :], "it")
    newer = encode_manifest(
        Part(**{name: getattr(PARTS[1], name) for name in PARTS[1].__struct_fields__} | {"version": 2})
    )
    with pytest.raises(StoreMismatch, match="newer Kith"):
        decode_manifest(newer, "it")


def test_ids_are_in_order_and_no_two_are_alike() -> None:
    parts = Parts(PARTS, {"00000011-0-whole": "damaged"})
    one, other = next_id(parts, "increment"), next_id(parts, "increment")
    assert re.fullmatch(r"00000012-[0-9a-f]{8}-increment", one)
    assert one != other
    assert next_id(Parts([], {}), "whole").startswith("00000001-")


_MINUTE, _HOUR = 60_000, 3_600_000


@pytest.mark.parametrize(
    ("status", "now_ms", "what"),
    [
        (Status(), 100 * _HOUR, "whole"),
        (Status(100 * _HOUR, 100 * _HOUR), 100 * _HOUR + 4 * _MINUTE, "nothing"),
        (Status(100 * _HOUR, 100 * _HOUR), 100 * _HOUR + 5 * _MINUTE, "increment"),
        (Status(124 * _HOUR - 1, 100 * _HOUR), 124 * _HOUR, "whole"),
        (Status(100 * _HOUR, 100 * _HOUR), 99 * _HOUR, "whole"),
        (Status(101 * _HOUR, 100 * _HOUR), 100 * _HOUR + 1, "increment"),
    ],
    ids=["first", "fresh", "increment", "whole", "clock went back", "clock went back a little"],
)
def test_when_the_next_is_due(status: Status, now_ms: int, what: Due) -> None:
    assert due(status, Settings(), now_ms) == what


def test_a_backup_is_good_while_it_is_recent_and_the_last_one_succeeded() -> None:
    settings = Settings()
    assert is_good(Status(_HOUR, _HOUR), settings, _HOUR + 14 * _MINUTE)
    assert not is_good(Status(_HOUR, _HOUR), settings, _HOUR + 16 * _MINUTE)
    assert not is_good(Status(_HOUR, _HOUR, "no room"), settings, _HOUR)
    assert not is_good(Status(), settings, 100 * _HOUR)
