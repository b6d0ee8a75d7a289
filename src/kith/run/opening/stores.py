"""The open stores of a process, on either kind of engine; services are built on them.

`wiring.open_stores` opens them. Features that need a data folder (backups, standbys, bulk loads) use `of_folder`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from kith.access.credentials import CredentialStore
from kith.checks.sets import CachedSets
from kith.checks.worker import SetInvalidator, SnapshotMaker
from kith.core.errors import StoreMismatch
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.log_store import EmbeddedLog
from kith.graph.graph import Graph
from kith.graph.store import EdgeStore
from kith.home.fanout.state import FanoutState
from kith.leases.holding import Leases
from kith.log.commands import PendingCommands
from kith.log.runner import Lag
from kith.log.store import LogStore
from kith.moving.contents import Contents
from kith.notifications.activity import Activity
from kith.notifications.inbox import InboxStore
from kith.records.store import RecordStore
from kith.run.measures.metrics import Metrics
from kith.suggestions.store import SuggestionStore


class Folder(NamedTuple):
    """An open data folder: the stores of one machine."""

    environment: Environment
    commits: CommitQueue
    log: EmbeddedLog


class Closing(Protocol):
    """Closes distributed engines to all writes except those of a move, which has a permit."""

    async def close(self, moved_to: str = "") -> None:
        """Refuse writes from now on. When this returns, a concurrent write is either done or refused.

        `moved_to`: where the store went; "" where it moves into these engines. Idempotent.
        """
        ...

    async def open(self) -> None:
        """Accept writes again."""
        ...

    async def permit(self) -> int:
        """The permit that allows writes while closed; 0: the engines are open."""
        ...


class WriteDecisions(NamedTuple):
    """Decides the writes of distributed engines, in the worker `apply` (see `log.commands`).

    `own`: a context in which this process owns partitions; yields a check of whether it is ready. `waiting`: commands
    that are not decided yet. `end_expired`, `divide_long`: periodic work for any one process.
    """

    own: Callable[[], AbstractAsyncContextManager[Callable[[], bool]]]
    waiting: Callable[[], Coroutine[Any, Any, PendingCommands]]
    end_expired: Callable[[], Coroutine[Any, Any, int]]
    divide_long: Callable[[], Coroutine[Any, Any, int]]
    closing: Closing


class LayerUpkeep(NamedTuple):
    """Keeps the layers in front of checks up to date, in the worker `checks` (see `kith.checks`).

    `lag`: how far cached sets lag behind the log; None where that is not known.
    """

    sets: CachedSets
    invalidator: SetInvalidator
    maker: SnapshotMaker
    lag: Callable[[], Coroutine[Any, Any, Lag | None]]


class OpenStores(NamedTuple):
    """Open stores and the graph over them, the same in every process."""

    store: EdgeStore
    checked: EdgeStore
    """Answers whether an edge exists: `store`, or the layers in front of it, which may lag a moment."""
    records: RecordStore
    log: LogStore
    graph: Graph
    suggestions: SuggestionStore
    fanout_state: FanoutState
    inboxes: InboxStore
    activity: Activity
    leases: Leases
    credentials: CredentialStore
    contents: Contents
    metrics: Metrics
    folder: Folder | None
    """None on distributed engines."""
    write_decisions: WriteDecisions | None = None
    """On distributed engines; None over a folder, where the process that commits a write decides it."""
    keeping: LayerUpkeep | None = None
    """On distributed engines with layers in front of checks."""
    refusal: Callable[[], str] = lambda: ""
    """Why distributed engines refuse writes of this process now; "" where no reason is known."""
    check_clock: Callable[[], None] = lambda: None
    """Raises StoreUnavailable while this machine's clock is too far off to timestamp anything."""

    def of_folder(self, what: str) -> Folder:
        """The data folder. `what` needs it, for the message. Errors: StoreMismatch on distributed engines."""
        if self.folder is None:
            raise StoreMismatch(f"{what} is for a data folder; distributed engines have their own tools for it")
        return self.folder
