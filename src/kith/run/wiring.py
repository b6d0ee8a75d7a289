"""Wires engines to services: what every process needs over open stores.

On top of it `services` and `api` wire an API process, `consumers` the workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from kith.boards.settling import Settling
from kith.graph.graph import Graph
from kith.people.privacy import Privacy
from kith.people.relations import RelationLimits, Relations
from kith.run import one_machine
from kith.run.config import Settings
from kith.run.stores import Opened
from kith.suggestions.suggestions import Suggestions


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, process: str, *, create: bool = True, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[Opened]:
    """Open the stores of a process, and end what is under way at the end. `process`: its kind, for the metrics.

    `on_fatal` is called when a store refuses everything. Errors: StoreMismatch where an import was cut short.
    """
    async with one_machine.opened(settings, process, create=create, on_fatal=on_fatal) as parts:
        yield parts


@contextlib.asynccontextmanager
async def opened_graph(settings: Settings, *, create: bool = True) -> AsyncIterator[Graph]:
    """The graph of a data folder alone, for a command."""
    async with opened(settings, "chore", create=create) as parts:
        yield parts.graph


def relations(settings: Settings, graph: Graph, settling: Settling) -> Relations:
    """The rules of people, over an open folder. `settling`: what their follows mean for boards."""
    limits = RelationLimits(settings.follows_max, settings.batch_max)
    return Relations(graph, Privacy(graph), limits, ties=settling)


def suggestions(settings: Settings, parts: Opened) -> Suggestions:
    """People to follow, over an open folder."""
    return Suggestions(parts.graph, parts.suggestions, keep_ms=settings.suggestions_minutes * 60_000)
