"""Which parts of a backup restore a point in time, and which may be deleted. Pure.

Times in a backup come from the clock that stamped the events. If that clock was set back, a point in time lies before
the first event with a later time. So a store restored to a time holds no event with a later one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from kith.core.errors import BadRequest, StoreMismatch
from kith.run.backups.parts import Part, manifest_of


class RestorePoint(NamedTuple):
    """A point to restore: before the first event logged after `ms`, or up to `event` of a line; else the newest."""

    ms: int | None = None
    event: int | None = None
    line: str | None = None


class RestorePlan(NamedTuple):
    """A whole, and the increments to apply after it, in order."""

    whole: Part
    increments: Sequence[Part]


NEWEST = RestorePoint()


def last_part(parts: Sequence[Part]) -> Part | None:
    """The part that the next increment continues: the furthest of the newest line. `parts`: in order.

    It is an increment, where there is one. If the next increment continued a newer whole instead, the points between
    the last increment and that whole would be lost.
    """
    line = [part for part in parts if part.line == parts[-1].line]
    increments = [part for part in line if part.kind == "increment"]
    return max(increments or line, key=lambda part: (part.until, part.id), default=None)


def restore_plan(parts: Sequence[Part], point: RestorePoint = NEWEST, damaged: Collection[str] = ()) -> RestorePlan:
    """The parts that restore a point. `parts`: in order; `damaged`: the ids of unreadable parts.

    Errors: BadRequest, if no whole is old enough; StoreMismatch, if parts are missing that the point may need.
    """
    whole = _whole_before(parts, point, damaged)
    increments, reached = list[Part](), whole.until
    line = [part for part in parts if part.kind == "increment" and part.line == whole.line]
    while True:
        # increments without events: they hold media files or keys only
        increments += [part for part in line if part.after == part.until == reached and part.id > whole.id]
        following = [part for part in line if part.after <= reached < part.until]
        if not following:
            break
        increments.append(max(following, key=lambda part: part.until))
        reached = increments[-1].until
        if _is_past(increments[-1], point):
            return RestorePlan(whole, increments)
    _check_readable(part for part in damaged if part > whole.id)
    later = [part.after for part in line if part.after > reached]
    if later:
        raise StoreMismatch(
            f"events {reached + 1} to {min(later)} are missing from the backup: a part of it was removed; "
            f"bring it back, or restore with --at a time before that"
        )
    if point.event is not None and max(reached, whole.until_most) < point.event:
        raise BadRequest(f"that point is not in the backup, which ends at event {reached} there")
    return RestorePlan(whole, increments)


def _check_readable(damaged: Iterable[str]) -> None:
    """Raise StoreMismatch for an unreadable part, because it may hold more events."""
    for part in damaged:
        raise StoreMismatch(
            f"{manifest_of(part)} is damaged, or of a newer Kith, and may hold more; bring it back as it was, or move "
            "it away to restore without it"
        )


def _whole_before(parts: Sequence[Part], point: RestorePoint, damaged: Collection[str]) -> Part:
    """The newest whole from which increments lead to the point."""

    def is_fit(part: Part) -> bool:
        if point.event is not None:
            return part.line == point.line and part.until_most <= point.event
        return part.line == parts[-1].line if point.ms is None else part.reached_ms <= point.ms

    wholes = [part for part in parts if part.kind == "whole"]
    fitting = [part for part in wholes if is_fit(part)]
    if fitting:
        return fitting[-1]
    _check_readable(damaged)
    if point == NEWEST:
        raise StoreMismatch("the whole backup that these increments continue is missing; it was removed")
    oldest = f"; the oldest moment there is {in_utc(min(part.reached_ms for part in wholes))}" if wholes else ""
    raise BadRequest(
        f"no whole backup there is as old as that{oldest}; `kith restore` without --at brings back the newest moment"
    )


def in_utc(ms: int) -> str:
    """A time for people, as `kith restore --at` takes it too."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _is_past(increment: Part, point: RestorePoint) -> bool:
    """Whether the point lies inside this increment, or at its end."""
    if point.event is not None:
        return increment.until >= point.event
    return point.ms is not None and increment.last_ms > point.ms


def prunable(parts: Sequence[Part], kept_from_ms: int, newer_min: int) -> list[Part]:
    """The parts that no point at or after a time needs; never the newest whole, nor the parts after it.

    The last whole before that time stays, with the increments after it, because points up to the next whole need it.
    `newer_min`: a whole is old only if at least so many newer ones exist, because a clock far ahead makes all seem old.
    """
    wholes = [part for part in parts if part.kind == "whole"]
    old = [part for part in wholes[: max(0, len(wholes) - newer_min)] if part.reached_ms <= kept_from_ms]
    if not old:
        return []
    first = old[-1]
    return [
        part
        for part in parts
        if part.id < first.id and (part.line != first.line or part.kind == "whole" or part.until <= first.until)
    ]
