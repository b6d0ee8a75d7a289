"""The registry of consumers, which follow the event log. `kith serve` runs them in worker processes beside the API.

To add one, write it in its room (see `log.runner.Consumer`), open it here, and enter it in CONSUMERS. Then `kith serve`
runs it, `kith worker` and `kith dead` know its name, and `/metrics` reports its lag and its failures.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import structlog

from kith.boards import consumer as boards
from kith.boards.consumer import BoardsConsumer
from kith.boards.reconciler import FollowReconciler
from kith.checks import worker as checks
from kith.core.clock import wall_ms
from kith.core.errors import StoreMismatch
from kith.core.ids import NODES_MAX
from kith.home.fanout import consumer as fanout
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates
from kith.home.skeleton.sources import Sources
from kith.leases.node_numbers import node_number
from kith.log.runner import Pace, Runner
from kith.notifications import backpressure, intake, mention_consumer, pools, walks
from kith.notifications.coordinator import Coordinator
from kith.notifications.notice import NOTICE_KEPT_MS
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import PreferenceStore
from kith.notifications.push import push
from kith.notifications.push.devices import Devices
from kith.notifications.push.due import PushSelector
from kith.notifications.push.pending import FAULTS, PendingPushStore
from kith.notifications.push.pending import PREFIX as OWED
from kith.notifications.refilling import InboxRefill
from kith.notifications.rules import NoticeRules
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk
from kith.outbound.addresses import networks_of
from kith.posts.comment_reader import CommentReader
from kith.run.config import Settings
from kith.run.deciding import APPLY, Decider
from kith.run.measures import media_size
from kith.run.opening import inboxes, timelines
from kith.run.opening.folders import media_folder
from kith.run.opening.stores import OpenStores
from kith.run.posts_and_notices import notice_services, posts_over
from kith.run.serving import processes
from kith.stories.reclaiming import reclaim
from kith.watch.tokens import WatchTokens
from kith.webhooks import webhooks
from kith.webhooks.webhook import Secrets

PUSH_BATCH_MAX = 200
"""Events in a batch of the worker `push`. A worker that dies in a batch sends the batch's notices again."""
_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000
INTAKE_GAP_S = 0.003
"""Shortest pause of intake between two batches. With a longer one it was half of the time from a like to the stream."""
INTAKE_GAP_EVENT_S = 0.000_2
"""Pause of intake per event of a batch. At 500 likes a second a like waited 34 ms with the 1 ms of other consumers;
with this, 7 ms.
"""
UPKEEP_GAP_S = 0.05
"""Pause between two batches of consumers that nobody waits for; events that arrive meanwhile form the next batch."""
_log = structlog.get_logger("kith")


class Task(NamedTuple):
    """Periodic work. A worker does it when it starts, and then every `every_s` seconds."""

    name: str  # of the task in log lines, and of the lease that one worker holds during it
    every_s: float


CLAIM_TIMELINES = Task("claim timelines", every_s=5.0)
EVICT_TIMELINES = Task("evict unread timelines", every_s=600.0)
REFILL_INBOXES = Task("refill inboxes", every_s=600.0)
EXPIRE_INBOXES = Task("expire inboxes", every_s=3_600.0)
MEASURE_MEDIA = Task("measure media", every_s=media_size.EVERY_S)
RECLAIM_STORIES = Task("reclaim stories", every_s=3_600.0)
EXPIRE_EDGES = Task("expire edges", every_s=1.0)
SPLIT_LISTS = Task("split long lists", every_s=60.0)
BUILD_FILTER = Task("build the filter of checks", every_s=600.0)


class LogFollower(Protocol):
    """Follows the log: a `Runner`, or a follower that keeps its own positions in the log."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    async def run(self) -> None:
        """Follow the log until stopped."""
        ...

    def stop(self) -> None:
        """Save the position, and return from `run`."""
        ...


class Worker(NamedTuple):
    """What a worker process runs: a follower of the log, and tasks beside it. `is_ready`: for readiness probes."""

    follower: LogFollower
    tasks: Mapping[Task, Callable[[], Coroutine[Any, Any, None]]]
    is_ready: Callable[[], bool] = lambda: True


async def _no_gauges(_: OpenStores) -> Mapping[str, float]:
    return {}


class ConsumerSpec(NamedTuple):
    """How to open a consumer over open stores, and its gauges besides lag and failures.

    `alone`: how many processes `kith serve` gives this consumer alone, because its batches take long. With 0, it shares
    one process with all other consumers that have 0. `has_position`: it has one position in the log, under its name.
    """

    open: Callable[[Settings, OpenStores], AbstractAsyncContextManager[Worker]]
    gauges: Callable[[OpenStores], Awaitable[Mapping[str, float]]] = _no_gauges
    alone: Callable[[Settings], int] = lambda _: 0
    has_position: bool = True


@contextlib.asynccontextmanager
async def _apply(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Decides writes. Its tasks remove expired edges and split long lists. Errors: StoreMismatch over a folder."""
    deciding = stores.write_decisions
    if deciding is None:
        raise StoreMismatch("the worker `apply` is for distributed engines; over a data folder nothing is left to it")

    async def expire_edges() -> None:
        await deciding.end_expired()

    async def split_long_lists() -> None:
        if divided := await deciding.divide_long():
            _log.info("long lists are divided", parts=divided)

    decider = Decider(deciding.own)
    tasks = {EXPIRE_EDGES: expire_edges, SPLIT_LISTS: split_long_lists}
    yield Worker(decider, tasks, decider.is_ready)


@contextlib.asynccontextmanager
async def _checks(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Keeps the layers in front of checks up to date. Errors: StoreMismatch where there are none."""
    keeping = stores.keeping
    if keeping is None:
        raise StoreMismatch("the worker `checks` is for distributed engines with `checks_snapshots` set")

    async def build_filter() -> None:
        if await keeping.maker.make():
            _log.info("a snapshot of the filter was made")

    yield Worker(keeping.invalidator, {BUILD_FILTER: build_filter})


@contextlib.asynccontextmanager
async def _fanout(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Writes timelines. Its tasks evict unread timelines and reclaim expired stories."""
    async with timelines.open_store(settings) as store:
        consumer = fanout.Fanout(
            Sources(stores.graph),
            store,
            stores.fanout_state,
            stores.leases,
            graphs=stores.graph.graphs,
            policy=fanout_policy(settings),
        )
        await consumer.claim()

        async def evict_timelines() -> None:
            await store.evict(wall_ms() - settings.timeline_days * _DAY_MS)

        async def reclaim_stories() -> None:
            reclaimed = await reclaim(stores.records, stores.graph, settings.story_hours)
            _log.info("stories reclaimed", stories=reclaimed.stories, views=reclaimed.views)

        try:
            runner = Runner(consumer, stores.log, Pace(tries_max=settings.log_tries_max))
            tasks = {
                CLAIM_TIMELINES: consumer.claim,  # the Redis node that held the name may come back empty
                EVICT_TIMELINES: evict_timelines,
                RECLAIM_STORIES: reclaim_stories,
            }
            yield Worker(runner, tasks)
        finally:
            await consumer.close()


def fanout_policy(settings: Settings) -> Thresholds | ByRates:
    """The policy that decides to which followers a post is pushed."""
    if settings.fanout_policy == "rates":
        return ByRates(settings.fanout_pull_cost)
    return Thresholds(settings.fanout_push_max, settings.fanout_pull_min)


async def _fanout_gauges(stores: OpenStores) -> Mapping[str, float]:
    return {"fanout_deliveries": len((await stores.fanout_state.snapshot()).deliveries)}


@contextlib.asynccontextmanager
async def _webhooks(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Sends changes to webhooks. Each webhook has its own position in the log."""
    # The HTTP client is imported only here, so other processes start without it.
    from kith.outbound.outbound import Outbound  # noqa: PLC0415
    from kith.webhooks.worker import WebhookWorker  # noqa: PLC0415

    signing = await stores.credentials.secret("signing")
    secrets, store = Secrets(signing), stores.store
    hooks = webhooks.Webhooks(store, stores.log, secrets, webhooks_max=settings.webhooks_max, now_ms=wall_ms)
    # A webhook has one request in flight at most, so hanging webhooks leave a connection for each of the others.
    outbound = Outbound(networks_of(settings.outbound_networks), connections_max=settings.webhooks_max)
    try:
        worker = WebhookWorker(
            hooks,
            stores.log,
            lambda: store.declare(()),
            stores.leases,
            outbound.send,
            secrets,
            WatchTokens(signing).issue_all,
            give_up_ms=int(settings.webhook_retry_hours * _HOUR_MS),
            now_ms=wall_ms,
        )
        yield Worker(worker, {})
    finally:
        await outbound.close()


async def _webhook_gauges(stores: OpenStores) -> Mapping[str, float]:
    return {"webhooks": len(await stores.store.notes(webhooks.PREFIX))}


@contextlib.asynccontextmanager
async def _boards(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Reconciles board follows after follows, blocks and changes of boards. Its task measures the size of media."""
    from kith.engines.blobs.blob_store import open_blobs  # noqa: PLC0415 - its library is large

    async def measure_media() -> None:
        blobs = open_blobs(settings.media_url, media_folder(settings), sync=False)
        await media_size.measure(blobs, Path(settings.data), wall_ms())

    consumer = BoardsConsumer(FollowReconciler(stores.graph, stores.records))
    runner = Runner(consumer, stores.log, Pace(tries_max=settings.log_tries_max, gap_s=UPKEEP_GAP_S))
    yield Worker(runner, {MEASURE_MEDIA: measure_media})


@contextlib.asynccontextmanager
async def _notifications(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Notifies users of what others did. Its tasks delete old inbox rows and refill the inboxes of a restored store."""
    async with node_number(stores.leases, NODES_MAX, on_lost=processes.replace_process) as number:
        posts = posts_over(stores, number)
        comments = CommentReader(posts)
        services = notice_services(settings, stores, posts)

        async def expire() -> None:
            periods, notices = await services.notices.expire(wall_ms() - NOTICE_KEPT_MS)
            _log.info("inboxes expired", periods=periods, notices=notices)

        restart_walks = _coordinator(settings, stores, ()).begin_untiered
        refilling = InboxRefill(stores.inboxes, Outcomes(stores.records, stores.graph.clock), restart_walks, wall_ms)

        async def refill_inboxes() -> None:
            rows = None if stores.folder is None else await inboxes.fill(stores.folder.environment, refilling)
            if rows is not None:
                _log.info("inboxes are filled from the notices of this store", rows=rows)

        consumer = intake.Intake(services.notices, services.recipients, services.recent, posts, comments)
        pace = Pace(tries_max=settings.log_tries_max, gap_s=INTAKE_GAP_S, gap_event_s=INTAKE_GAP_EVENT_S)
        runner = Runner(consumer, stores.log, pace)
        yield Worker(runner, {EXPIRE_INBOXES: expire, REFILL_INBOXES: refill_inboxes})


@contextlib.asynccontextmanager
async def _mentions(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Starts to notify followers that an account was mentioned; only followers who asked for it are notified."""
    consumer = mention_consumer.MentionConsumer(_coordinator(settings, stores, ()))
    yield Worker(Runner(consumer, stores.log, Pace(tries_max=settings.log_tries_max, gap_s=UPKEEP_GAP_S)), {})


def _pool(name: str, processes: Callable[[Settings], int]) -> ConsumerSpec:
    """A pool of workers that notifies the followers in its tiers of mentions."""
    tiers = pools.POOLS[name]

    @contextlib.asynccontextmanager
    async def open_worker(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
        yield Worker(pools.PoolWorker(name, _coordinator(settings, stores, tiers), stores.log), {})

    return ConsumerSpec(open_worker, partial(_tier_gauges, tiers), processes, has_position=False)


def _coordinator(settings: Settings, stores: OpenStores, tiers: Sequence[Tier]) -> Coordinator:
    async def end(ended: EndedWalk) -> None:
        walk = ended.walk
        stores.metrics.walk_ended(walk.tier.name.lower(), walk.told, walk.suppressed, ended.left, ended.dead)
        if walk.tier is not Tier.ALL or walk.told:
            _log.info(
                "followers told of a mention", notice=str(walk.notice), tier=walk.tier.name, told=walk.told,
                suppressed=walk.suppressed, chunks=walk.done, chunks_left_to_pull=ended.left, chunks_dead=ended.dead,
            )  # fmt: skip

    return mention_consumer.coordinator_over(
        stores.graph, stores.records, stores.inboxes, stores.activity, stores.leases, wall_ms, end,
        celebrity_followers_min=settings.celebrity_followers_min, tiers=tiers,
    )  # fmt: skip


async def _tier_gauges(tiers: Sequence[Tier], stores: OpenStores) -> Mapping[str, float]:
    """Walks and chunks that wait in each tier, and the oldest's age; with tier MONTH, the backpressure flag."""
    now_ms, values = wall_ms(), dict[str, float]()
    for tier in tiers:
        depth = walks.backlog_of(walks.read_walks((await stores.store.notes(walks.prefix_of(tier))).values()), now_ms)
        name = f"mentions_{tier.name.lower()}"
        values |= {
            f"{name}_walks": depth.walks, f"{name}_chunks": depth.chunks, f"{name}_oldest_seconds": depth.oldest_s
        }  # fmt: skip
    if Tier.MONTH in tiers:
        values["mentions_pressure"] = float(
            backpressure.is_raised(await stores.store.get_note(backpressure.FLAG), now_ms)
        )
    return values


@contextlib.asynccontextmanager
async def _push(settings: Settings, stores: OpenStores) -> AsyncIterator[Worker]:
    """Sends notices to users' devices through push services."""
    from kith.outbound.outbound import Outbound  # noqa: PLC0415 - see `_webhooks`
    from kith.run import push_keys  # noqa: PLC0415

    signing = await stores.credentials.secret("signing")
    keys = push_keys.push_keys(settings, signing)
    outbound = Outbound(networks_of(settings.outbound_networks), total_s=push_keys.SEND_S, http2=True)
    async with node_number(stores.leases, NODES_MAX, on_lost=processes.replace_process) as number:
        posts = posts_over(stores, number)
        preferences = PreferenceStore(stores.records, stores.graph.clock)
        services = notice_services(settings, stores, posts)
        devices = Devices(stores.records, stores.graph.clock, signing)
        selector = PushSelector(
            stores.graph, services.notices, NoticeRules(stores.graph, stores.records), preferences, devices
        )
        pending = PendingPushStore(stores.store, random.random)
        consumer = push.Push(
            services.notices, selector, devices, pending, keys.providers(outbound.send), stores.leases, now_ms=wall_ms
        )
        try:
            pace = Pace(tries_max=settings.log_tries_max, batch_max=PUSH_BATCH_MAX, gap_s=UPKEEP_GAP_S)
            yield Worker(Runner(consumer, stores.log, pace), {})
        finally:
            await outbound.close()


async def _push_gauges(stores: OpenStores) -> Mapping[str, float]:
    pending, faults = await stores.store.notes(OWED), await stores.store.notes(FAULTS)
    return {"push_owed": len(pending), "push_faults": len(faults)}


CONSUMERS: Mapping[str, ConsumerSpec] = {
    fanout.NAME: ConsumerSpec(_fanout, _fanout_gauges, lambda _: 1),
    webhooks.NAME: ConsumerSpec(_webhooks, _webhook_gauges, has_position=False),
    boards.NAME: ConsumerSpec(_boards),
    intake.NAME: ConsumerSpec(_notifications),
    push.NAME: ConsumerSpec(_push, _push_gauges),
    mention_consumer.NAME: ConsumerSpec(_mentions),
    "mentions-online": _pool("mentions-online", lambda settings: settings.mention_workers_online),
    "mentions-day": _pool("mentions-day", lambda settings: settings.mention_workers_day),
    "mentions-month": _pool("mentions-month", lambda settings: settings.mention_workers_month),
}
"""Consumers by name. Progress and failures are stored under this name; it also names the worker and its gauges."""
WORKERS: Mapping[str, ConsumerSpec] = {
    APPLY: ConsumerSpec(_apply, alone=lambda _: 1, has_position=False),
    checks.NAME: ConsumerSpec(_checks, alone=lambda _: 1, has_position=False),
    **CONSUMERS,
}
"""All workers that `kith worker` runs. The first two are for distributed engines only. `apply` follows the log of
commands; `checks` stores its position beside the cached sets.
"""


def processes_of_workers(settings: Settings) -> list[tuple[str, ...]]:
    """The consumers of each worker process of `kith serve`: one tuple of names per process."""
    consumers = WORKERS if settings.engine == "cluster" else CONSUMERS
    if not settings.checks_snapshots:
        consumers = {name: registered for name, registered in consumers.items() if name != checks.NAME}
    alone = [(name,) for name, registered in consumers.items() for _ in range(registered.alone(settings))]
    return [*alone, tuple(name for name, registered in consumers.items() if not registered.alone(settings))]
