"""The registry of engines for tests: how the stores of each are opened. `conformance/README.md` says how to add one."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from embedded_engine import (
    _embedded,
    _embedded_activity,
    _embedded_credentials,
    _embedded_edges,
    _embedded_fanout_state,
    _embedded_inboxes,
    _embedded_leases,
    _embedded_log,
    _embedded_quotas,
    _embedded_timelines,
    _folder_blobs,
    _s3_blobs,
    open_committed_stores,
    open_embedded_stores,
)
from move_sides import embedded_side, hostile_side, reference_side
from reference_activity import ReferenceActivity
from reference_credentials import ReferenceCredentials
from reference_edges import ReferenceEdges
from reference_fanout_state import ReferenceFanoutState
from reference_inbox import ReferenceInboxes
from reference_leases import ReferenceLeases
from reference_logs import HostileLog, Partitions, ReferenceLog
from reference_quotas import ReferenceQuotas
from reference_records import ReferenceRecords, RowRecords
from reference_sets import ReferenceSets
from reference_suggestions import ReferenceSuggestions
from reference_timelines import ReferenceTimelines
from scrambled_edges import ScrambledEdges
from store_types import (
    Clock,
    EngineStores,
    Logged,
    Opens,
    OpensEngineStores,
    OpensLeases,
    OpensLogs,
    OpensTimelines,
    Stores,
    T,
)
from store_wrappers import RemoteStore

from kith.access.credentials import CredentialStore
from kith.access.sliding_window import QuotaStore
from kith.checks.sets import CachedSets
from kith.core.clock import wall_ms
from kith.engines.embedded.timeline_store import RingReader
from kith.graph.edge import EdgeChange, EdgeWrite
from kith.graph.store import EdgeStore
from kith.home.fanout.consumer import NAME as FANOUT
from kith.home.fanout.state import FanoutState
from kith.home.timelines import TimelineReader, TimelineStore
from kith.leases.store import LeaseStore
from kith.media.blobs import BlobStore
from kith.moving.store_writer import StoreSide
from kith.notifications.activity import Activity
from kith.notifications.inbox import InboxStore


@dataclass(frozen=True)
class Engine:
    """How to open the stores of an engine. A port that it lacks is None, and the suite of that port skips it.

    If lists lag behind rows (`EdgeStore.transactional` is false), wrap the store so that all lists are up to date
    before a call returns. `keeps`: a store that is closed, and opened again over its folder, still has its data.
    """

    name: str
    edges: Opens[EdgeStore] | None = None
    stores: Opens[Stores] | None = None
    whole: OpensEngineStores | None = None
    logs: OpensLogs | None = None
    timelines: OpensTimelines | None = None
    timeline_reader: Callable[[Path, Clock], TimelineReader] | None = None  # of another process than the writer
    fanout_state: Opens[FanoutState] | None = None
    quotas: Opens[QuotaStore] | None = None
    leases: OpensLeases | None = None
    credentials: Opens[CredentialStore] | None = None
    blobs: Opens[BlobStore] | None = None
    inboxes: Opens[InboxStore] | None = None
    activity: Opens[Activity] | None = None
    sets: Opens[CachedSets] | None = None
    sides: Opens[StoreSide] | None = None  # all stores that `kith move` moves
    keeps: bool = True

    def __str__(self) -> str:
        return self.name


@contextmanager
def open_reference(folder: Path) -> Iterator[Stores]:
    """Empty stores in memory; `folder` is not used."""
    edges = ReferenceEdges()
    yield Stores(edges, ReferenceRecords(edges), ReferenceSuggestions())


@contextmanager
def _reference_log(
    folder: Path, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
) -> Iterator[Logged]:
    edges = ReferenceEdges()
    edges.events.now_ms = now_ms
    yield Logged(edges, ReferenceLog(edges, events_max, 800 if leased_little else 10**9))


@contextmanager
def _hostile_log(
    folder: Path, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
) -> Iterator[Logged]:
    edges = ScrambledEdges(seed=1, events=Partitions(3, random.Random(2)))
    edges.events.now_ms = now_ms
    yield Logged(edges, HostileLog(edges, random.Random(3), events_max // 3, 300 if leased_little else 10**9))


@contextmanager
def _hostile(folder: Path, *, now_ms: Clock, slots: int = 100, events_max: int = 100_000) -> Iterator[EngineStores]:
    """Stores whose calls suspend and whose lists lag. Record conditions cover single rows; the log is partitioned."""
    chance = random.Random(f"{slots} {events_max}")
    edges = ScrambledEdges(seed=chance.randrange(2**32), late_max=40, events=Partitions(3, chance))
    edges.events.now_ms = now_ms
    log = HostileLog(edges, chance, events_max // 3)
    state, timelines = ReferenceFanoutState(log, FANOUT), ReferenceTimelines(slots, now_ms)
    stores = edges, RowRecords(edges), ReferenceSuggestions(), log, state, timelines
    remote: Any = [
        store if store is log else RemoteStore(store, chance) for store in stores
    ]  # the log suspends by itself
    yield EngineStores(*remote, settle=edges.settle, hand_over=lambda: log.hand_over(FANOUT))


@contextmanager
def _reference_timelines(folder: Path, *, slots: int, now_ms: Clock) -> Iterator[TimelineStore]:
    yield ReferenceTimelines(slots, now_ms)


@contextmanager
def _reference_fanout_state(folder: Path) -> Iterator[FanoutState]:
    yield ReferenceFanoutState()


@contextmanager
def _reference_quotas(folder: Path) -> Iterator[QuotaStore]:
    yield ReferenceQuotas()


@contextmanager
def _reference_inboxes(folder: Path) -> Iterator[InboxStore]:
    yield ReferenceInboxes()


@contextmanager
def _reference_activity(folder: Path) -> Iterator[Activity]:
    yield ReferenceActivity()


@contextmanager
def _reference_sets(folder: Path) -> Iterator[CachedSets]:
    yield ReferenceSets()


@contextmanager
def _remote_inboxes(folder: Path) -> Iterator[InboxStore]:
    store: Any = RemoteStore(ReferenceInboxes(), random.Random(13))
    yield store


@contextmanager
def _reference_credentials(folder: Path) -> Iterator[CredentialStore]:
    yield ReferenceCredentials()


@contextmanager
def _reference_leases(folder: Path, now_ms: Clock) -> Iterator[LeaseStore]:
    yield ReferenceLeases(now_ms)


def _as_remote(opens: Callable[..., AbstractContextManager[T]]) -> Callable[..., AbstractContextManager[T]]:
    """Open the same store, as if across a network."""

    @contextmanager
    def opened(*where: Any, **settings: Any) -> Iterator[T]:
        with opens(*where, **settings) as store:
            yield RemoteStore(store, random.Random(4))  # type: ignore[misc]

    return opened


class SettledEdges(ScrambledEdges):
    """An engine without transactions whose lists have arrived whenever a call returns."""

    def _apply(self, write: EdgeWrite) -> EdgeChange:
        change = super()._apply(write)
        self.settle()  # after each, so that a limit counts what was written before
        return change


@contextmanager
def _without_transactions(folder: Path) -> Iterator[Stores]:
    edges = SettledEdges(seed=1)
    yield Stores(edges, RowRecords(edges), ReferenceSuggestions())


REFERENCE = Engine(
    "reference",
    edges=lambda folder: _only_edges(open_reference(folder)),
    stores=open_reference,
    logs=_reference_log,
    timelines=_reference_timelines,
    fanout_state=_reference_fanout_state,
    quotas=_reference_quotas,
    leases=_reference_leases,
    credentials=_reference_credentials,
    inboxes=_reference_inboxes,
    activity=_reference_activity,
    sets=_reference_sets,
    sides=reference_side,
    keeps=False,
)
EMBEDDED = Engine(
    "embedded",
    edges=_embedded_edges,
    stores=open_embedded_stores,
    whole=_embedded,
    logs=_embedded_log,
    timelines=_embedded_timelines,
    timeline_reader=lambda folder, now_ms: RingReader(folder, now_ms=now_ms),
    fanout_state=_embedded_fanout_state,
    quotas=_embedded_quotas,
    leases=_embedded_leases,
    credentials=_embedded_credentials,
    inboxes=_embedded_inboxes,
    activity=_embedded_activity,
    sides=embedded_side,
)
HOSTILE = Engine(
    "hostile",
    whole=_hostile,
    logs=_hostile_log,
    timelines=_as_remote(_reference_timelines),
    fanout_state=_as_remote(_reference_fanout_state),
    quotas=_as_remote(_reference_quotas),
    leases=_as_remote(_reference_leases),
    inboxes=_remote_inboxes,
    activity=_as_remote(_reference_activity),
    sets=_as_remote(_reference_sets),
    sides=hostile_side,
    keeps=False,
)
ENGINES = (
    REFERENCE,
    EMBEDDED,
    HOSTILE,
    Engine(
        "no-transactions",
        edges=lambda folder: _only_edges(_without_transactions(folder)),
        stores=_without_transactions,
        keeps=False,
    ),
    Engine(
        "with-a-committer",
        edges=lambda folder: _only_edges(open_committed_stores(folder)),
        stores=open_committed_stores,
    ),
    Engine("folder", blobs=_folder_blobs(sync=False)),
    Engine("synced-folder", blobs=_folder_blobs(sync=True)),
    Engine("s3", blobs=_s3_blobs, keeps=False),
)
SERVICE_ENGINES = (REFERENCE, EMBEDDED)
"""Tests of services run on these: the simplest engine, and the default one."""


@contextmanager
def _only_edges(stores: AbstractContextManager[Stores]) -> Iterator[EdgeStore]:
    with stores as opened:
        yield opened.edges


def engines_with(port: str, named: str | None = None) -> list[Engine]:
    """The engines that have a port. `named`: of those at `module:name,name` instead of the registered ones."""
    if named is None:
        return [engine for engine in ENGINES if getattr(engine, port)]
    module, _, names = named.partition(":")
    engines: list[Engine] = [getattr(import_module(module), name) for name in names.split(",")]
    return [engine for engine in engines if getattr(engine, port)]


@contextmanager
def in_new_folder(opens: Opens[T]) -> Iterator[T]:
    """Open an empty store in a temporary folder, for one example of a property test."""
    with tempfile.TemporaryDirectory(prefix="kith-") as folder, opens(Path(folder)) as opened:
        yield opened
