"""Wires engines to services. The only module that imports both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import structlog

from kith.api.backend import Backend, Bounds
from kith.api.bridge import Bridge
from kith.api.fast import Exchange, FrontDoor, Scope
from kith.api.guard import Guard, Rates, UserTokens, hash_key
from kith.api.http import build
from kith.api.metrics import Metrics
from kith.config import Settings, load
from kith.core.clock import HybridClock
from kith.core.errors import StoreMismatch
from kith.core.paging import Cursors
from kith.core.tokens import WriteTokens
from kith.engines.embedded import environment as environments
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edges import EmbeddedEdges
from kith.engines.embedded.environment import LOADING, Environment
from kith.graph.graphs import BUILT_IN, Graphs
from kith.graph.nodes import NodeJobs
from kith.graph.service import GraphService, Limits

SETTINGS_VARIABLE = "KITH_SERVE_SETTINGS"
"""How `kith serve` hands its settings to the API processes it starts."""
SUPERVISOR_VARIABLE = "KITH_SERVE_SUPERVISOR"
"""The supervisor's process id, for API processes that it may not outlive."""
_KEY_NOTE = "server-key/"
_SUPERVISOR_CHECK_S = 1.0
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


@contextlib.asynccontextmanager
async def running(
    settings: Settings, *, create: bool = True, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[Backend]:
    """The whole service in this process, from opening the store to draining the commit queue."""
    environment = open_environment(settings, create=create)
    try:
        refuse_unfinished_import(environment)
    except StoreMismatch:
        environment.close()
        raise
    clock = HybridClock()
    metrics = Metrics(metrics_folder(settings), lambda: commits.depth, lambda: _gauges(environment, store))
    commits = CommitQueue(
        environment,
        writes_max=settings.commit_writes_max,
        wait_ms=settings.commit_wait_ms,
        queue_max=settings.commit_queue_max,
        events_max=settings.log_events_max,
        observer=metrics,
        on_fatal=on_fatal,
    )
    store = EmbeddedEdges(environment, commits)
    store.restore_clock(clock)
    limits = Limits(settings.follows_max, settings.batch_max, settings.walk_max)
    service = GraphService(store, Graphs(environment.graph_numbers()), clock, limits)
    secret = environment.secret("signing")
    jobs = NodeJobs(service)
    per_process = max(1, settings.workers)
    rates = Rates(*(-(-rate // per_process) for rate in _rates(settings)))
    backend = Backend(
        graph=service,
        jobs=jobs,
        guard=Guard(server_keys(environment, settings), user_tokens(environment, settings), rates),
        cursors=Cursors(secret),
        tokens=WriteTokens(secret),
        metrics=metrics,
        bounds=Bounds(
            settings.batch_max, settings.body_bytes_max, settings.select_ids_max, settings.request_timeout_ms / 1000
        ),
        sequence=lambda: store.log_bounds()[1],
        ready=lambda: {"store": "the store refused to go on; this process restarts"} if commits.failed else {},
    )
    await jobs.resume()
    try:
        yield backend
    finally:
        await jobs.close()
        await asyncio.to_thread(commits.close)
        metrics.close()
        environment.close()


def _rates(settings: Settings) -> tuple[int, int, int, int]:
    return (
        settings.rate_user_read, settings.rate_user_write, settings.rate_server_read, settings.rate_server_write
    )  # fmt: skip


def _gauges(environment: Environment, store: EmbeddedEdges) -> Mapping[str, float]:
    first, last = store.log_bounds()
    return {"log_events": last - first + 1, "log_sequence": last, "store_bytes": environment.bytes_used()}


class Server:
    """What granian runs in each API process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._running: contextlib.AbstractAsyncContextManager[Backend] | None = None
        self._door: FrontDoor | None = None
        self._watch: asyncio.Task[None] | None = None

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        configure_logging(self._settings)
        self._watch = loop.create_task(_end_with_supervisor())
        self._running = running(self._settings, on_fatal=_replace_process)
        backend = loop.run_until_complete(self._running.__aenter__())
        self._door = FrontDoor(backend, Bridge(build(backend), backend))

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._running is not None:
            loop.run_until_complete(self._running.__aexit__(None, None, None))
            self._running = None

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
    """The factory named to granian; settings come from `kith serve` by SETTINGS_VARIABLE."""
    raw = os.environ.get(SETTINGS_VARIABLE)
    return Server(msgspec.json.decode(raw, type=Settings) if raw else load())


def configure_logging(settings: Settings) -> None:
    """Structured lines on stderr, one JSON object each."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


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
