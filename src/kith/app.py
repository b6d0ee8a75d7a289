"""Wires engines to services. The only module that imports both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from kith import limits, logs
from kith.api.backend import Backend
from kith.api.bridge import Bridge
from kith.api.fast import Exchange, FrontDoor, Scope
from kith.api.guard import Guard, UserTokens, hash_key
from kith.api.http import build
from kith.api.media import FILES_PATH
from kith.api.metrics import Metrics
from kith.api.quotas import Quotas
from kith.config import Settings, load
from kith.core.clock import HybridClock, ms_of, wall_ms
from kith.core.errors import StoreMismatch, Unavailable
from kith.core.ids import NODES_MAX, Snowflakes
from kith.core.paging import Cursors
from kith.core.tokens import WriteTokens
from kith.engines.blobs.store import open_blobs
from kith.engines.embedded import environment as environments
from kith.engines.embedded import quotas
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edges import EmbeddedEdges
from kith.engines.embedded.environment import LOADING, Environment
from kith.engines.embedded.log import EmbeddedLog
from kith.engines.embedded.objects import EmbeddedObjects
from kith.engines.embedded.quotas import FileQuotas
from kith.engines.embedded.rings import RingReader, Rings
from kith.engines.embedded.served import ServedFiles
from kith.engines.embedded.suggestions import EmbeddedSuggestions
from kith.feed import deliveries
from kith.feed.affinity import Affinity
from kith.feed.facts import PostFacts
from kith.feed.live import Live
from kith.feed.ranker import Ranker
from kith.feed.rules import HomeRules
from kith.feed.service import FeedService
from kith.feed.skeleton import Skeletons
from kith.feed.sources import DELIVERIES_NOTE, Sources
from kith.feed.strip import Strip
from kith.graph.graphs import BUILT_IN, Graphs
from kith.graph.nodes import NodeJobs
from kith.graph.service import GraphService, Limits
from kith.graph.suggestions import Suggestions
from kith.log.runner import Pace, Runner, lag_of
from kith.objects.comments import Comments
from kith.objects.engagement import Engagement
from kith.objects.labels import Moderation
from kith.objects.profiles import Profiles
from kith.objects.reclaiming import reclaim
from kith.objects.service import ObjectService
from kith.objects.stories import Stories
from kith.objects.uploads import MediaService
from kith.workers import fanout

SETTINGS_VARIABLE = "KITH_SERVE_SETTINGS"
"""How `kith serve` hands its settings to the API processes it starts."""
SUPERVISOR_VARIABLE = "KITH_SERVE_SUPERVISOR"
"""The supervisor's process id, for API processes that it may not outlive."""
_KEY_NOTE = "server-key/"
_SUPERVISOR_CHECK_S = 1.0
_EVICTED_EVERY_S = 600.0
_RECLAIMED_EVERY_S = 3_600.0
_LAST_ANSWERS_S = 0.3


def open_environment(settings: Settings, *, create: bool = True) -> Environment:
    """The data folder, as set, with its graphs declared."""
    environment = Environment(
        Path(settings.data), durability=settings.durability, bytes_max=settings.store_bytes_max, create=create
    )
    environment.declare([*BUILT_IN, *settings.graphs])
    return environment


def add_server_key(environment: Environment, key: str) -> None:
    """Let `key` in from the next start on; only its hash is stored."""
    environment.put_note(_KEY_NOTE + hash_key(key).hex(), b"1")


def server_keys(environment: Environment, settings: Settings) -> list[bytes]:
    """Hashes of every key that is let in."""
    stored = map(bytes.fromhex, environment.notes(_KEY_NOTE))
    return [*stored, *(hash_key(key) for key in settings.api_keys)]


def user_tokens(environment: Environment, settings: Settings) -> UserTokens:
    """How user tokens are signed: with the app's secret, or one made for this folder."""
    secret = settings.jwt_secret or environment.secret("jwt").hex()
    return UserTokens(secret, settings.jwt_algorithms, settings.jwt_issuer, settings.jwt_audience)


def metrics_folder(settings: Settings) -> Path:
    """Where the API processes leave their counts for each other."""
    return Path(settings.data) / "metrics"


class Opened(NamedTuple):
    """An open data folder and the services over it, the same in every process."""

    environment: Environment
    commits: CommitQueue
    store: EmbeddedEdges
    log: EmbeddedLog
    graph: GraphService
    metrics: Metrics


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, process: str, *, create: bool = True, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[Opened]:
    """From opening the store to draining the commit queue. `process`: its kind, for the metrics."""
    environment = open_environment(settings, create=create)
    try:
        refuse_unfinished_import(environment)
    except StoreMismatch:
        environment.close()
        raise
    clock = HybridClock()
    metrics = Metrics(metrics_folder(settings), lambda: commits.depth, lambda: _gauges(environment, log), process)
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
    bounds = Limits(settings.follows_max, settings.batch_max, settings.walk_max)
    service = GraphService(store, Graphs(environment.graph_numbers()), clock, bounds)
    try:
        yield Opened(environment, commits, store, log, service, metrics)
    finally:
        await asyncio.to_thread(commits.close)
        metrics.close()
        environment.close()


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
    secret = environment.secret("signing")
    objects = objects_of(parts, number)
    comments = Comments(objects)
    facts = PostFacts(objects.store, service, wall_ms)
    affinity = Affinity(service, comments, facts, wall_ms)
    stories = Stories(objects.store, service, objects.snowflakes, hours=settings.story_hours)
    suggested = suggestions(settings, parts)
    jobs = NodeJobs(service, objects.erase, comments.erase, stories.erase)
    counts = FileQuotas(Path(settings.data) / quotas.FILE)
    timelines = RingReader(timelines_folder(settings))
    share, bytes_max = settings.served_log_share, settings.served_log_bytes_max
    served = ServedFiles(Path(settings.data) / "served", share=share, bytes_max=bytes_max)
    engagement = Engagement(objects)
    heartbeat_s, resume_events = settings.stream_heartbeat_s, settings.stream_resume_events
    live = Live(objects, engagement, log, metrics, resume_events=resume_events, heartbeat_s=heartbeat_s)
    media = media_over(settings, objects)
    backend = Backend(
        graph=service,
        jobs=jobs,
        suggestions=suggested,
        objects=objects,
        comments=comments,
        engagement=engagement,
        profiles=Profiles(objects.store, service.clock),
        media=media,
        feed=FeedService(
            Skeletons(service, timelines, log, group=fanout.NAME),
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
        tokens=WriteTokens(secret),
        metrics=metrics,
        bounds=limits.bounds(settings),
        streams=limits.streams(settings),
        media_base_url=settings.media_base_url.rstrip("/") or FILES_PATH,
        sequence=lambda: store.log_bounds()[1],
        ready=lambda: {"store": "the store refused to go on; this process restarts"} if commits.failed else {},
    )
    await jobs.resume()
    try:
        yield backend
    finally:
        await live.close()
        await jobs.close()
        await suggested.close()
        timelines.close()
        served.flush()
        counts.close()
        media.close()


async def work(settings: Settings) -> None:
    """Run the fan-out worker until it is told to stop; it saves where it is."""
    logs.configure(settings.log_level)
    with Rings(timelines_folder(settings), slots=settings.timelines_max) as timelines:
        async with opened(settings, fanout.NAME, create=False) as parts:
            consumer = fanout.Fanout(
                Sources(parts.graph),
                timelines,
                graphs=parts.graph.graphs,
                policy=limits.fanout(settings),
            )
            runner = Runner(consumer, parts.log, Pace(tries_max=settings.log_tries_max))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, runner.stop)
            watch = asyncio.create_task(_end_with_supervisor())
            forget = asyncio.create_task(_forget_unread(timelines, settings.timeline_days))
            stories = asyncio.create_task(_forget_stories(parts, settings.story_hours))
            await runner.run()
            for task in (watch, forget, stories):
                task.cancel()


async def _forget_unread(timelines: Rings, days: int) -> None:
    """Keep timelines for the active only."""
    while True:
        timelines.evict(wall_ms() - days * 86_400_000)
        await asyncio.sleep(_EVICTED_EVERY_S)


async def _forget_stories(parts: Opened, hours: int) -> None:
    """Give back the room of stories that are over, at the start and then from time to time."""
    log = structlog.get_logger("kith.stories")
    store = EmbeddedObjects(parts.environment, parts.commits)
    while True:
        try:
            done = await reclaim(store, parts.graph, hours)
            log.info("stories reclaimed", stories=done.stories, views=done.views)
        except Unavailable as error:
            log.warning("stories are reclaimed later", error=error.message)
        await asyncio.sleep(_RECLAIMED_EVERY_S)


def timelines_folder(settings: Settings) -> Path:
    """Where the fan-out worker keeps timelines."""
    return Path(settings.timelines_folder or Path(settings.data) / "timelines")


def suggestions(settings: Settings, parts: Opened) -> Suggestions:
    """People to follow, over an open folder."""
    store = EmbeddedSuggestions(parts.environment, parts.commits)
    return Suggestions(parts.graph, store, keep_ms=settings.suggestions_minutes * 60_000)


def media_folder(settings: Settings) -> Path:
    """Where the files of pictures and videos are, unless in a bucket."""
    return Path(settings.data) / "media"


def media_over(settings: Settings, objects: ObjectService) -> MediaService:
    """Pictures and videos, with their files where the settings say."""
    blobs = open_blobs(settings.media_url, media_folder(settings), sync=settings.durability == "full")
    return MediaService(objects, blobs, limits.media(settings))


def objects_of(parts: Opened, number: int) -> ObjectService:
    """Posts of this process. Ids take their time from the clock that was restored past all that is stored, and
    start after it: whoever made ids with our node number before can have used no later millisecond.
    """
    clock = parts.graph.clock
    snowflakes = Snowflakes(number, lambda: ms_of(clock.next()))
    snowflakes.restore(ms_of(clock.next()))
    return ObjectService(EmbeddedObjects(parts.environment, parts.commits), parts.graph, snowflakes)


def _gauges(environment: Environment, log: EmbeddedLog) -> Mapping[str, float]:
    first, last = log.bounds()
    gauges: dict[str, float] = {
        "log_events": last - first + 1,
        "log_sequence": last,
        "store_bytes": environment.bytes_used(),
    }
    for group, at in log.groups().items():
        lag = lag_of(log, at, wall_ms())
        gauges |= {f"{group}_lag_events": lag.events, f"{group}_lag_oldest_seconds": lag.oldest_s}
    gauges["fanout_deliveries"] = len(deliveries.unpack(environment.get_note(DELIVERIES_NOTE)))
    return gauges


class Server:
    """What granian runs in each API process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._running: contextlib.AbstractAsyncContextManager[Backend] | None = None
        self._door: FrontDoor | None = None
        self._watch: asyncio.Task[None] | None = None

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends a process that starts; a loop at rest would miss it
        logs.configure(self._settings.log_level)
        self._watch = loop.create_task(_end_with_supervisor())
        self._running = running(self._settings, on_fatal=_replace_process)
        backend = loop.run_until_complete(self._running.__aenter__())
        self._door = FrontDoor(backend, Bridge(build(backend), backend))
        loop.call_soon(loop.add_signal_handler, signal.SIGTERM, self._stop)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._running is not None:
            loop.run_until_complete(self._running.__aexit__(None, None, None))
            self._running = None

    def _stop(self) -> None:
        """granian waits for every answer to end, and streams do not by themselves. It takes SIGINT as it takes SIGTERM,
        which is ours here; its supervisor sends SIGTERM in any case.
        """
        if self._door is not None:
            self._door.close()
        os.kill(os.getpid(), signal.SIGINT)

    async def __rsgi__(self, scope: Scope, exchange: Exchange) -> None:
        assert self._door is not None  # noqa: S101 - granian calls __rsgi_init__ first
        await self._door(scope, exchange)


async def _end_with_supervisor() -> None:
    """Stop this process when its supervisor has died, so that nobody serves a folder unsupervised."""
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    while supervisor is not None:
        await asyncio.sleep(_SUPERVISOR_CHECK_S)
        if os.getppid() != int(supervisor):
            os.kill(os.getpid(), signal.SIGTERM)


def _replace_process() -> None:
    """End this process once its answers are out; granian starts another, which opens the store afresh."""
    structlog.get_logger("kith").error("the store refuses everything; this process is replaced")
    threading.Timer(_LAST_ANSWERS_S, os._exit, (os.EX_IOERR,)).start()


def serve_process() -> Server:
    """The factory named to granian."""
    return Server(settings_of_process())


def settings_of_process(data: str | None = None) -> Settings:
    """The settings that `kith serve` handed down, or else those of this folder."""
    raw = os.environ.get(SETTINGS_VARIABLE)
    return msgspec.json.decode(raw, type=Settings) if raw else load({"data": data})


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[None]:
    """Hold the data folder as a server; the first one there starts counting anew."""
    agreed = {"durability": settings.durability, "store_bytes_max": settings.store_bytes_max}
    with environments.serving(Path(settings.data), agreed) as first:
        if first:
            shutil.rmtree(metrics_folder(settings), ignore_errors=True)
        yield


def refuse_unfinished_import(environment: Environment) -> None:
    """StoreMismatch if a bulk load of this folder was cut short: its graph would be half there."""
    for graph in environment.notes(LOADING):
        raise StoreMismatch(
            f"an import into {graph!r} was cut short; run the same `kith import edges` again to finish it"
        )
