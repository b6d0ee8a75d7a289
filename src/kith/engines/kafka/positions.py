"""Positions of the log: for each partition, how many events are covered, and the offset to look for the next one.

    LogPosition = the log's name (4 bytes), then [partition, offset, events, partition, ...] as MessagePack

Positions are compared by their event counts alone, so records without events, such as a change of owner, do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kith.core.events import NOWHERE, LogPosition

NAME_BYTES = 4
_numbers = msgspec.msgpack.Decoder(list[int]).decode


class Place(NamedTuple):
    """A place in a partition. `events`: how many are before it. `offset`: from where to look for the next one."""

    events: int
    offset: int


START = Place(0, 0)
Places = Mapping[int, Place]


class Positions:
    """Encodes and compares positions of the log with this name."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def packed(self, places: Places) -> LogPosition:
        """The position of these places. Without any place, it still differs from NOWHERE."""
        flat = [
            number for partition, place in sorted(places.items()) for number in (partition, place.offset, place.events)
        ]
        return LogPosition(self.name + msgspec.msgpack.encode(flat))

    def places(self, position: LogPosition) -> dict[int, Place] | None:
        """The places of a position; None if it is of another log, or invalid."""
        if position == NOWHERE:
            return {}
        if position[:NAME_BYTES] != self.name:
            return None
        try:
            flat = _numbers(position[NAME_BYTES:])
        except msgspec.MsgspecError:
            return None
        if len(flat) % 3 or min(flat, default=0) < 0:
            return None
        return {partition: Place(events, offset) for partition, offset, events in zip(*[iter(flat)] * 3, strict=True)}

    def partition(self, position: LogPosition) -> int:
        """The partition of an event, by its position."""
        return min(self.places(position) or {0: START})

    def covers(self, position: LogPosition, other: LogPosition) -> bool:
        """See `log.store.LogStore.covers`."""
        reached, required = self.places(position), self.places(other)
        if reached is None or required is None:
            return False
        return all(place.events <= reached.get(partition, START).events for partition, place in required.items())

    def joined(self, position: LogPosition, other: LogPosition) -> LogPosition:
        """See `log.store.LogStore.joined`. A position of another log is ignored."""
        places = self.places(position) or {}
        for partition, place in (self.places(other) or {}).items():
            places[partition] = max(place, places.get(partition, START))
        return self.packed(places)
