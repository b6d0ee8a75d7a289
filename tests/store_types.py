"""Types of the stores that tests open, and of the functions that open them."""

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
"""Opens a store in a folder, empty the first time, and closes it in the end."""


class Stores(NamedTuple):
    """Edges, records and suggestions of one engine, over the same data."""

    edges: EdgeStore
    records: RecordStore
    suggestions: SuggestionStore


class Logged(NamedTuple):
    """A log, and the edges whose changes it holds."""

    edges: EdgeStore
    log: LogStore


class EngineStores(NamedTuple):
    """All stores of one engine that the services need, over the same data."""

    edges: EdgeStore
    records: RecordStore
    suggestions: SuggestionStore
    log: LogStore
    fanout_state: FanoutState
    timelines: TimelineStore
    settle: Callable[[], object] = lambda: None
    """If lists lag: bring them up to date."""
    hand_over: Callable[[], object] | None = None
    """Reassign the partitions of the log at random among the newest two fan-out workers. None: there is one worker."""


class OpensLogs(Protocol):
    """Opens a log that drops its oldest events beyond about `events_max`. Leased events are kept longer; with
    `leased_little`, only some hundreds of them. A lease lasts an hour by `now_ms`.
    """

    def __call__(
        self, folder: Path, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
    ) -> AbstractContextManager[Logged]: ...


class OpensTimelines(Protocol):
    """Opens timelines of up to `slots` users."""

    def __call__(self, folder: Path, *, slots: int, now_ms: Clock) -> AbstractContextManager[TimelineStore]: ...


class OpensEngineStores(Protocol):
    """Opens all stores of an engine. The log drops its oldest events beyond about `events_max`; up to `slots` users
    have a timeline.
    """

    def __call__(
        self, folder: Path, *, now_ms: Clock, slots: int = 100, events_max: int = 100_000
    ) -> AbstractContextManager[EngineStores]: ...


class OpensLeases(Protocol):
    """Opens leases. If they expire, they do so by the clock `now_ms`."""

    def __call__(self, folder: Path, now_ms: Clock) -> AbstractContextManager[LeaseStore]: ...
