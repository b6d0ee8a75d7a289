"""Wires engines to services: what every process needs over open stores.

On top of it `services` and `api` wire an API process, `consumers` the workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from types import ModuleType

from kith.access.credentials import CredentialStore
from kith.boards.settling import Settling
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
    """Open the stores of a process, and end what is under way at the end. `process`: its kind, for the metrics.

    `on_fatal` is called when this process cannot go on with its stores, and another can. StoreMismatch where an import
    was cut short. `committer`: on one machine, a process that writes for this one.
    """
    if settings.engine == "cluster":
        async with cluster_of(settings).open_stores(settings, process, on_fatal=on_fatal) as stores:
            yield stores
    else:
        one = one_machine.open_stores(settings, process, create=create, on_fatal=on_fatal, committer=committer)
        async with one as stores:
            yield stores


def cluster_of(settings: Settings) -> ModuleType:
    """The module that knows distributed engines. BadRequest where their clients are not installed."""
    try:
        from kith.run.opening import cluster  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise BadRequest(
            f"`engine = \"{settings.engine}\"` needs clients: pip install '.[cluster]' in a checkout of Kith"
        ) from error
    return cluster


@contextlib.asynccontextmanager
async def credentials(settings: Settings, *, create: bool = True) -> AsyncIterator[CredentialStore]:
    """Keys and secrets alone, for a command."""
    if settings.engine == "cluster":
        async with cluster_of(settings).credentials(settings) as store:
            yield store
    else:
        with open_environment(settings, create=create) as environment:
            yield EmbeddedCredentials(environment)


@contextlib.asynccontextmanager
async def open_graph(settings: Settings, *, create: bool = True) -> AsyncIterator[Graph]:
    """The graph alone, for a command."""
    async with open_stores(settings, "chore", create=create) as stores:
        yield stores.graph


def relations(settings: Settings, graph: Graph, settling: Settling) -> Relations:
    """The rules of people, over open stores. `settling`: what their follows mean for boards."""
    limits = RelationLimits(settings.follows_max, settings.batch_max)
    return Relations(graph, Privacy(graph), limits, dependents=settling)


def suggestions(settings: Settings, stores: OpenStores) -> Suggestions:
    """People to follow, over open stores."""
    return Suggestions(stores.graph, stores.suggestions, keep_ms=settings.suggestions_minutes * 60_000)
