"""The stores of a process, on whatever engines: every service is made of these.

`wiring.open_stores` opens them. What only a data folder can do (backups, standbys, bulk loads) asks for its `folder`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from kith.access.credentials import CredentialStore
from kith.checks.keeper import SetKeeper, SnapshotMaker
from kith.checks.sets import CachedSets
from kith.core.errors import StoreMismatch
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.log_store import EmbeddedLog
from kith.graph.graph import Graph
from kith.graph.store import EdgeStore
from kith.home.fanout.state import FanoutState
from kith.leases.holding import Leases
from kith.log.commands import Waiting
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
    """Closes distributed engines to all writes but those of this process, while a store moves."""

    async def close(self, moved_to: str = "") -> None:
        """Refuse writes from now on; what is written meanwhile is refused, or done when this returns. `moved_to`: where
        the store is; "": it comes. May be repeated."""
        ...

    async def open(self) -> None:
        """Take writes again."""
        ...

    async def permit(self) -> int:
        """By which permit writes are taken in spite of that; 0: they are open."""
        ...


class Deciding(NamedTuple):
    """What decides the writes of distributed engines, in the worker `apply` (see `log.commands`).

    `own`: a context in which this process takes part; it yields a check of whether it does by now. `waiting`: the
    commands not decided yet. `end_expired`, `divide_long`: periodic work, for any one process.
    """

    own: Callable[[], AbstractAsyncContextManager[Callable[[], bool]]]
    waiting: Callable[[], Coroutine[Any, Any, Waiting]]
    end_expired: Callable[[], Coroutine[Any, Any, int]]
    divide_long: Callable[[], Coroutine[Any, Any, int]]
    closing: Closing


class LayerUpkeep(NamedTuple):
    """What keeps the layers in front of checks up to date, in the worker `checks` (see `kith.checks`).

    `lag`: how far cached sets are behind the log, where that is known.
    """

    sets: CachedSets
    keeper: SetKeeper
    maker: SnapshotMaker
    lag: Callable[[], Coroutine[Any, Any, Lag | None]]


class OpenStores(NamedTuple):
    """Open stores and the graph over them, the same in every process."""

    store: EdgeStore
    checked: EdgeStore
    """Answers whether an edge is there: `store`, or layers in front of it that may be a moment behind."""
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
    """None where the stores are those of distributed engines."""
    deciding: Deciding | None = None
    """Of distributed engines; None over a folder, whose writes are decided where they are asked."""
    keeping: LayerUpkeep | None = None
    """Of distributed engines with layers in front of checks."""
    refusing: Callable[[], str] = lambda: ""
    """Why distributed engines take no writes of this process now; "": they do, as far as is known."""
    check_clock: Callable[[], None] = lambda: None
    """StoreUnavailable where this machine's clock may not date anything now."""

    def of_folder(self, what: str) -> Folder:
        """The data folder, for `what` only a folder can do. Errors: StoreMismatch on distributed engines."""
        if self.folder is None:
            raise StoreMismatch(f"{what} is for a data folder; distributed engines have their own tools for it")
        return self.folder
