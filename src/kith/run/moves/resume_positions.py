"""Computes where consumers resume in the other log after a move: at or before the event that they have reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kith.core.events import LogPosition
from kith.log.store import Failure, LogStore
from kith.run.consumers import CONSUMERS
from kith.run.moves.progress import MatchingPositions
from kith.run.opening.stores import OpenStores
from kith.webhooks.webhook import group_of
from kith.webhooks.webhooks import webhooks_of


class GroupPosition(NamedTuple):
    """The position at which a group resumes, and its failures until then."""

    group: str
    at: LogPosition
    failures: dict[LogPosition, Failure | None]


async def groups_of(stores: OpenStores) -> list[str]:
    """The groups that store a position in the log."""
    groups = [name for name, consumer in CONSUMERS.items() if consumer.has_position]
    return groups + [group_of(webhook.id) for webhook in await webhooks_of(stores.store)]


async def lagging_groups(stores: OpenStores, points: Sequence[MatchingPositions]) -> dict[str, int]:
    """The groups that have not reached the first point, each with its lag in events."""
    lagging = {}
    for group in await groups_of(stores):
        progress = await stores.log.progress(group)
        if progress is not None and _before(stores.log, progress.at, points) is None:
            lagging[group] = progress.behind.events
    return lagging


async def positions_in_cluster(stores: OpenStores, points: Sequence[MatchingPositions]) -> list[GroupPosition]:
    """Where each group resumes in the other log: at the last point that it has reached, or at the last of all points if
    it has no position yet.

    Events between that point and the group's position are delivered again. Its failures are carried over. Every group
    must have reached the first point (see `lagging_groups`).
    """
    positions = []
    for group in await groups_of(stores):
        progress = await stores.log.progress(group)
        point = points[-1] if progress is None else _before(stores.log, progress.at, points) or points[0]
        failures = {failure.event.log_position: failure for failure in await stores.log.failures(group)}
        positions.append(GroupPosition(group, LogPosition(point.target), {**failures}))
    return positions


async def positions_in_folder(stores: OpenStores, points: Sequence[MatchingPositions]) -> list[GroupPosition]:
    """Where each group resumes in the folder's log after moving back: before every event that it failed at.

    A group that has not reached the first point is left out: it resumes where it was before the switch, and misses
    nothing.
    """
    group_positions = []
    for group in await groups_of(stores):
        progress, failures = await stores.log.progress(group), await stores.log.failures(group)
        failed = [failure.event.log_position for failure in failures]
        usable = [
            matching
            for matching in points
            if not any(stores.log.covers(LogPosition(matching.source), position) for position in failed)
        ]
        point = points[-1] if progress is None else _before(stores.log, progress.at, usable)
        if point is not None:
            group_positions.append(GroupPosition(group, LogPosition(point.target), {}))
    return group_positions


def _before(log: LogStore, position: LogPosition, points: Sequence[MatchingPositions]) -> MatchingPositions | None:
    """The last point that a position covers."""
    return next((point for point in reversed(points) if log.covers(position, LogPosition(point.source))), None)
