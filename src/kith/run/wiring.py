"""Wires engines to services. The only module that imports both."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kith.access.guard import UserTokens, hash_key
from kith.core.clock import HybridClock, ms_of, wall_ms
from kith.core.errors import StoreMismatch
from kith.core.ids import Snowflakes
from kith.engines.blobs.blob_store import open_blobs
from kith.engines.embedded import environment as environments
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import LOADING, Environment
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.suggestion_store import EmbeddedSuggestions
from kith.engines.embedded.timeline_store import Rings
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN, Graphs
from kith.home.fanout import deliveries
from kith.home.sources import DELIVERIES_NOTE
from kith.log.runner import lag_of
from kith.media.library import MediaLibrary
from kith.people.privacy import Privacy
from kith.people.relations import RelationLimits, Relations
from kith.posts.posts import Posts
from kith.run import limits
from kith.run.config import Settings
from kith.run.metrics import Metrics
from kith.suggestions.suggestions import Suggestions

_KEY_NOTE = "server-key/"


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
    graph: Graph
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
    service = Graph(store, Graphs(environment.graph_numbers()), clock, walk_max=settings.walk_max)
    try:
        yield Opened(environment, commits, store, log, service, metrics)
    finally:
        await asyncio.to_thread(commits.close)
        metrics.close()
        environment.close()


def relations(settings: Settings, graph: Graph) -> Relations:
    """The rules of people, over an open folder."""
    return Relations(graph, Privacy(graph), RelationLimits(settings.follows_max, settings.batch_max))


def timelines(settings: Settings) -> Rings:
    """The timelines, for the one process that writes them."""
    return Rings(timelines_folder(settings), slots=settings.timelines_max)


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
    return Posts(object_store(parts), parts.graph, snowflakes)


def object_store(parts: Opened) -> EmbeddedRecords:
    """The records of an open folder."""
    return EmbeddedRecords(parts.environment, parts.commits)


def _gauges(environment: Environment, log: EmbeddedLog) -> Mapping[str, float]:
    first, last = log.bounds()
    gauges: dict[str, float] = {
        "log_events": last - first + 1,
        "log_sequence": last,
        "store_bytes": environment.bytes_used(),
    }
    for group, at in log.groups().items():
        lag, failures = lag_of(log, at, wall_ms()), log.failures(group)
        gauges |= {f"{group}_lag_events": lag.events, f"{group}_lag_oldest_seconds": lag.oldest_s}
        gauges[f"{group}_dead_events"] = sum(failure.dead for failure in failures)
        gauges[f"{group}_failed_events"] = len(failures) - gauges[f"{group}_dead_events"]
    gauges["fanout_deliveries"] = len(deliveries.unpack(environment.get_note(DELIVERIES_NOTE)))
    return gauges


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[None]:
    """Hold the data folder as a server; the first one there starts counting anew."""
    agreed = {
        "durability": settings.durability,
        "store_bytes_max": settings.store_bytes_max,
        "timelines_folder": str(timelines_folder(settings).resolve()),
    }
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
