"""Wires engines to services: what an API process and a command need over an open data folder.

Beside it only `consumers` knows both sides, for the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from kith.access.guard import Guard
from kith.access.quotas import Quotas
from kith.api.backend import Backend
from kith.api.media import FILES_PATH
from kith.api.metrics import Metrics
from kith.core.clock import HybridClock, ms_of, wall_ms
from kith.core.errors import StoreMismatch
from kith.core.ids import NODES_MAX, Snowflakes
from kith.core.paging import Cursors
from kith.core.tokens import WriteTokens
from kith.engines.blobs.store import open_blobs
from kith.engines.embedded import environment as environments
from kith.engines.embedded import quotas
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edges import EmbeddedEdges
from kith.engines.embedded.log import EmbeddedLog
from kith.engines.embedded.quotas import FileQuotas
from kith.engines.embedded.rings import RingReader
from kith.engines.embedded.served import ServedFiles
from kith.engines.embedded.suggestions import EmbeddedSuggestions
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.graph.nodes import NodeJobs
from kith.home.affinity import Affinity
from kith.home.facts import PostFacts
from kith.home.fanout import consumer
from kith.home.home import Home
from kith.home.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.skeleton import Skeletons
from kith.media.library import MediaLibrary
from kith.people.privacy import Privacy
from kith.people.profiles import Profiles
from kith.people.relations import Limits, Relations
from kith.posts.comments import Comments
from kith.posts.engagement import Engagement
from kith.posts.labels import Moderation
from kith.posts.posts import Posts
from kith.run import limits
from kith.run.config import Settings
from kith.run.folders import (
    Opened,
    media_folder,
    metrics_folder,
    open_environment,
    refuse_unfinished_import,
    timelines_folder,
)
from kith.run.gauges import gauges
from kith.run.keys import server_keys, user_tokens
from kith.stories.stories import Stories
from kith.stories.strip import Strip
from kith.streams.live import Live
from kith.suggestions.suggestions import Suggestions


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, process: str, *, create: bool = True, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[Opened]:
    """Open a data folder, and drain its commit queue at the end. `process`: the kind of this process, for the metrics.

    `on_fatal` is called when the store refuses everything. Errors: StoreMismatch where an import was cut short.
    """
    environment = open_environment(settings, create=create)
    try:
        refuse_unfinished_import(environment)
    except StoreMismatch:
        environment.close()
        raise
    clock = HybridClock()
    metrics = Metrics(metrics_folder(settings), lambda: commits.depth, lambda: gauges(environment, log), process)
    commits = CommitQueue(
        environment,
        writes_max=settings.commit_writes_max,
        wait_ms=settings.commit_wait_ms,
        queue_max=settings.commit_queue_max,
        events_max=settings.log_events_max,
        observer=metrics,
        on_fatal=on_fatal,
    )
    store, log = EmbeddedEdges(environment, commits), EmbeddedLog(environment, commits)
    store.restore_clock(clock)
    service = Graph(store, Graphs(environment.graph_numbers()), clock, walk_max=settings.walk_max)
    try:
        yield Opened(environment, commits, store, log, service, metrics)
    finally:
        await asyncio.to_thread(commits.close)
        metrics.close()
        environment.close()


@contextlib.asynccontextmanager
async def opened_graph(settings: Settings, *, create: bool = True) -> AsyncIterator[Graph]:
    """The graph of a data folder alone, for a command."""
    async with opened(settings, "chore", create=create) as parts:
        yield parts.graph


@contextlib.asynccontextmanager
async def running(
    settings: Settings, *, create: bool = True, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[Backend]:
    """What an API process runs."""
    async with opened(settings, "api", create=create, on_fatal=on_fatal) as parts:
        with environments.node_number(Path(settings.data), NODES_MAX) as number:
            async with _backend(settings, parts, number) as backend:
                yield backend


@contextlib.asynccontextmanager
async def _backend(settings: Settings, parts: Opened, number: int) -> AsyncIterator[Backend]:
    environment, commits, store, log, service, metrics = parts
    secret, history = environment.secret("signing"), environment.history()
    objects = objects_of(parts, number)
    comments = Comments(objects)
    facts = PostFacts(objects.store, service, wall_ms)
    affinity = Affinity(service, comments, facts, wall_ms)
    stories = Stories(objects.store, service, objects.snowflakes, hours=settings.story_hours)
    suggested = suggestions(settings, parts)
    media = media_over(settings, objects)
    profiles = Profiles(objects.store, service.clock, media.check_image)
    counts = FileQuotas(Path(settings.data) / quotas.FILE)
    timelines = RingReader(timelines_folder(settings))
    share, bytes_max = settings.served_log_share, settings.served_log_bytes_max
    served = ServedFiles(Path(settings.data) / "served", share=share, bytes_max=bytes_max, writers=settings.workers)
    engagement = Engagement(objects)
    live = Live(
        objects, engagement, log, metrics,
        resume_events=settings.stream_resume_events, heartbeat_s=settings.stream_heartbeat_s,
    )  # fmt: skip
    backend = Backend(
        graph=service,
        relations=relations(settings, service),
        privacy=Privacy(service),
        jobs=NodeJobs(service, objects.erase, comments.erase, stories.erase, forget=profiles.forget),
        suggestions=suggested,
        objects=objects,
        comments=comments,
        engagement=engagement,
        profiles=profiles,
        media=media,
        feed=Home(
            Skeletons(service, timelines, log, group=consumer.NAME),
            Ranker(service, facts, affinity, wall_ms),
            HomeRules(service, objects),
            served=served,
        ),
        stories=stories,
        strip=Strip(service, stories, affinity.between),
        live=live,
        moderation=Moderation(objects),
        guard=Guard(server_keys(environment, settings), user_tokens(environment, settings), limits.rates(settings)),
        quotas=Quotas(counts, limits.quotas(settings)),
        cursors=Cursors(secret),
        tokens=WriteTokens(secret, history),
        history=history,
        metrics=metrics,
        bounds=limits.bounds(settings),
        streams=limits.streams(settings),
        media_base_url=settings.media_base_url.rstrip("/") or FILES_PATH,
        sequence=lambda: store.log_bounds()[1],
        ready=lambda: {"store": "the store refused to go on; this process restarts"} if commits.failed else {},
    )
    await backend.jobs.resume()
    try:
        yield backend
    finally:
        await live.close()
        await backend.jobs.close()
        await suggested.close()
        timelines.close()
        served.flush()
        counts.close()
        media.close()


def relations(settings: Settings, graph: Graph) -> Relations:
    """The rules of people, over an open folder."""
    return Relations(graph, Privacy(graph), Limits(settings.follows_max, settings.batch_max))


def suggestions(settings: Settings, parts: Opened) -> Suggestions:
    """People to follow, over an open folder."""
    store = EmbeddedSuggestions(parts.environment, parts.commits)
    return Suggestions(parts.graph, store, keep_ms=settings.suggestions_minutes * 60_000)


def media_over(settings: Settings, objects: Posts) -> MediaLibrary:
    """Pictures and videos, with their files where the settings say."""
    blobs = open_blobs(settings.media_url, media_folder(settings), sync=settings.durability == "full")
    return MediaLibrary(objects.store, objects.graph, objects.snowflakes, blobs, limits.media(settings))


def objects_of(parts: Opened, number: int) -> Posts:
    """Posts of this process. Ids take their time from the clock that was restored past all that is stored, and
    start after it: whoever made ids with our node number before can have used no later millisecond.
    """
    clock = parts.graph.clock
    snowflakes = Snowflakes(number, lambda: ms_of(clock.next()))
    snowflakes.restore(ms_of(clock.next()))
    return Posts(parts.records, parts.graph, snowflakes)
