"""What a test gets of an engine that it opens, and what opens it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from kith.core.clock import wall_ms
from kith.graph.store import EdgeStore
from kith.home.fanout.state import FanoutState
from kith.home.timelines import TimelineStore
from kith.leases.store import LeaseStore
from kith.log.store import LogStore
from kith.records.store import RecordStore
from kith.suggestions.store import SuggestionStore

T = TypeVar("T")
Clock = Callable[[], int]
Opens = Callable[[Path], AbstractContextManager[T]]
"""Opens a store in a folder, which is empty the first time, and closes it."""


class Stores(NamedTuple):
    """What one engine keeps of graph and objects, over the same data."""

    edges: EdgeStore
    records: RecordStore
    suggestions: SuggestionStore


class Logged(NamedTuple):
    """A log, and the edges whose changes it tells."""

    edges: EdgeStore
    log: LogStore


class Whole(NamedTuple):
    """All that people's services ask of one engine, over the same data."""

    edges: EdgeStore
    records: RecordStore
    suggestions: SuggestionStore
    log: LogStore
    fanout_state: FanoutState
    timelines: TimelineStore
    settle: Callable[[], object] = lambda: None
    """Let every list show what was written, where lists lag."""
    hand_over: Callable[[], object] | None = None
    """Divide the log anew among the workers of fan-out, where there may be several: the newest two share it."""


class OpensLogs(Protocol):
    """Opens a log that forgets the oldest beyond about `events_max` events, or what some hundreds of events more take
    if they are leased (`leased_little`). A lease lasts for an hour by `now_ms`.
    """

    def __call__(
        self, folder: Path, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
    ) -> AbstractContextManager[Logged]: ...


class OpensTimelines(Protocol):
    """Opens timelines of up to `slots` users."""

    def __call__(self, folder: Path, *, slots: int, now_ms: Clock) -> AbstractContextManager[TimelineStore]: ...


class OpensWhole(Protocol):
    """Opens all of an engine: a log that forgets the oldest beyond about `events_max` events, few `slots`."""

    def __call__(
        self, folder: Path, *, now_ms: Clock, slots: int = 100, events_max: int = 100_000
    ) -> AbstractContextManager[Whole]: ...


class OpensLeases(Protocol):
    """Opens leases, which end by the clock `now_ms` where they expire."""

    def __call__(self, folder: Path, now_ms: Clock) -> AbstractContextManager[LeaseStore]: ...
