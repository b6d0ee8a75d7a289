"""Opens the stores that the settings name, and wires what every process needs over them.

`services` and `api` build an API process on it, `consumers` the workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from types import ModuleType

from kith.access.credentials import CredentialStore
from kith.boards.reconciler import FollowReconciler
from kith.core.errors import BadRequest
from kith.engines.embedded.committer import Committer
from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.graph.graph import Graph
from kith.people.privacy import Privacy
from kith.people.relations import RelationLimits, Relations
from kith.run.config import Settings
from kith.run.opening import one_machine
from kith.run.opening.folders import open_environment
from kith.run.opening.stores import OpenStores
from kith.suggestions.suggestions import Suggestions


@contextlib.asynccontextmanager
async def open_stores(
    settings: Settings,
    process: str,
    *,
    create: bool = True,
    on_fatal: Callable[[], None] = lambda: None,
    committer: Committer | None = None,
) -> AsyncIterator[OpenStores]:
    """Open the stores of a process; at the end, finish pending writes and close them.

    `process`: its kind, for the metrics. `on_fatal` is called when this process cannot continue with its stores, but a
    new process could. `committer`: on one machine, a process that commits for this one.
    Errors: StoreMismatch where a bulk load or rebuild is unfinished.
    """
    if settings.engine == "cluster":
        async with cluster_of(settings).open_stores(settings, process, on_fatal=on_fatal) as stores:
            yield stores
    else:
        opening = one_machine.open_stores(settings, process, create=create, on_fatal=on_fatal, committer=committer)
        async with opening as stores:
            yield stores


def cluster_of(settings: Settings) -> ModuleType:
    """The module of distributed engines. Errors: BadRequest where their clients are not installed."""
    try:
        from kith.run.opening import cluster  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise BadRequest(
            f"`engine = \"{settings.engine}\"` needs clients: pip install '.[cluster]' in a checkout of Kith"
        ) from error
    return cluster


@contextlib.asynccontextmanager
async def credentials(settings: Settings, *, create: bool = True) -> AsyncIterator[CredentialStore]:
    """Keys and secrets without the other stores, for a command."""
    if settings.engine == "cluster":
        async with cluster_of(settings).credentials(settings) as store:
            yield store
    else:
        with open_environment(settings, create=create) as environment:
            yield EmbeddedCredentials(environment)


@contextlib.asynccontextmanager
async def open_graph(settings: Settings, *, create: bool = True) -> AsyncIterator[Graph]:
    """The graph without the other stores, for a command."""
    async with open_stores(settings, "chore", create=create) as stores:
        yield stores.graph


def relations(settings: Settings, graph: Graph, reconciler: FollowReconciler) -> Relations:
    """The rules of relations between users, over open stores. `reconciler`: applies follows to board follows."""
    limits = RelationLimits(settings.follows_max, settings.batch_max)
    return Relations(graph, Privacy(graph), limits, dependents=reconciler)


def suggestions(settings: Settings, stores: OpenStores) -> Suggestions:
    """Suggestions of whom to follow, over open stores."""
    return Suggestions(stores.graph, stores.suggestions, cached_ms=settings.suggestions_minutes * 60_000)
