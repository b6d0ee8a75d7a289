"""Wires the services of an API process over open stores."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kith.access.policy import ReadPolicy
from kith.boards.boards import Boards
from kith.boards.consumer import BoardsConsumer
from kith.boards.following import BoardFollowing
from kith.boards.pins import Pins
from kith.boards.reconciler import FollowReconciler
from kith.core.clock import wall_ms
from kith.core.ids import NODES_MAX, NodeId
from kith.core.stopping import stop
from kith.engines.blobs.blob_store import open_blobs
from kith.engines.embedded import store_role
from kith.engines.embedded.committer import Committer
from kith.engines.embedded.served_log import ServedFiles
from kith.graph.graphs import NAMES
from kith.graph.node_jobs import NodeJobs, WhenDone
from kith.home.home import Home
from kith.home.rank.affinity import Affinity
from kith.home.rank.facts import PostFacts
from kith.home.rank.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.skeleton.pinned import PinnedPosts
from kith.home.skeleton.skeleton import Skeletons
from kith.home.timelines import TimelineReader
from kith.leases.background import keep_resuming
from kith.leases.node_numbers import NodeNumber, node_number
from kith.media.library import MediaLibrary
from kith.notifications import intake, mention_consumer
from kith.notifications.external_mentions import ExternalMentions
from kith.notifications.notifications import Notifications
from kith.notifications.presence import Presence
from kith.notifications.push import push
from kith.notifications.push.device import Offer
from kith.notifications.push.devices import Devices
from kith.outbound.addresses import networks_of
from kith.people.privacy import Privacy
from kith.people.privacy_switch import PrivacySwitch
from kith.people.profiles import Profiles
from kith.people.relations import Relations
from kith.people.removal import account_jobs
from kith.people.unrestricted import UnrestrictedPeople
from kith.posts.comments import Comments
from kith.posts.engagement import Engagement
from kith.posts.labels import Moderation
from kith.posts.post_cache import PostCache
from kith.posts.posts import Posts
from kith.records.read_cache import ReadCache
from kith.records.store import RecordKind
from kith.run import limits
from kith.run.config import Settings
from kith.run.machines import fencing
from kith.run.measures.observed import CallObserver, observed
from kith.run.opening import keys, timelines
from kith.run.opening.folders import media_folder
from kith.run.opening.keys import Keys
from kith.run.opening.stores import OpenStores
from kith.run.opening.wiring import open_stores, relations, suggestions
from kith.run.posts_and_notices import notice_services, posts_over
from kith.run.push_keys import push_keys
from kith.stories.stories import Stories
from kith.stories.strip import Strip
from kith.streams.live import LiveStreams
from kith.suggestions.suggestions import Suggestions
from kith.watch.visibility import ChangeVisibility, ReadVisible
from kith.watch.watch import Watch
from kith.webhooks.webhook import Secrets
from kith.webhooks.webhooks import Webhooks


class Services(NamedTuple):
    """The services that the API's resources use."""

    stores: OpenStores
    number: NodeNumber
    keys: Keys
    privacy: Privacy
    relations: Relations
    profiles: Profiles
    jobs: NodeJobs
    privacy_switch: PrivacySwitch
    suggestions: Suggestions
    posts: Posts
    comments: Comments
    engagement: Engagement
    moderation: Moderation
    media: MediaLibrary
    boards: Boards
    board_following: BoardFollowing
    pins: Pins
    stories: Stories
    strip: Strip
    home: Home
    read_cache: ReadCache
    cached_posts: PostCache
    unrestricted: UnrestrictedPeople
    live: LiveStreams
    watch: Watch
    webhooks: Webhooks
    notifications: Notifications
    external_mentions: ExternalMentions
    presence: Presence
    devices: Devices
    push_offer: Offer


@contextlib.asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    create: bool = True,
    on_fatal: Callable[[], None] = lambda: None,
    committer: Committer | None = None,
) -> AsyncIterator[Services]:
    """Open the stores and services of one API process, and close them at the end."""
    async with (
        open_stores(settings, "api", create=create, on_fatal=on_fatal, committer=committer) as stores,
        node_number(stores.leases, NODES_MAX, on_lost=on_fatal) as number,
        timelines.open_reader(settings) as timeline_reader,
        _services(settings, stores, number, timeline_reader) as services,
    ):
        yield services


@contextlib.asynccontextmanager
async def _services(
    settings: Settings, stores: OpenStores, number: NodeNumber, timeline_reader: TimelineReader
) -> AsyncIterator[Services]:
    for group in (intake.NAME, mention_consumer.NAME, push.NAME):
        await intake.begin(stores.log, group)
    graph, posts = stores.graph, posts_over(stores, number)
    comments, engagement = Comments(posts), Engagement(posts)
    media = media_over(settings, posts, stores.metrics)
    profiles = Profiles(posts.store, graph.clock, media.check_image, graph.graphs.number(NAMES))
    stories = Stories(posts.store, graph, posts.snowflakes, hours=settings.story_hours)
    suggested, served = suggestions(settings, stores), _served_log(settings)
    notices = notice_services(settings, stores, posts)
    read_cache = ReadCache(graph.store, stores.log, wall_ms, share=settings.read_share)
    await read_cache.refresh()  # from here on it follows the log
    facts = PostFacts(posts.store, graph, read_cache, wall_ms)
    affinity = Affinity(graph, comments, facts, read_cache, wall_ms)
    skeletons = Skeletons(graph, timeline_reader, stores.fanout_state, stores.log, read_cache)
    live = _live(settings, stores, posts, engagement, notices.notifications)
    reconciler = FollowReconciler(graph, stores.records)
    boards_consumer = BoardsConsumer(reconciler)
    boards = Boards(reconciler, posts.snowflakes, boards_consumer.note_change, boards_consumer.finish)
    cached_posts, unrestricted = PostCache(posts, read_cache), UnrestrictedPeople(graph, read_cache)
    ranker, rules = Ranker(graph, facts, affinity, read_cache, wall_ms), HomeRules(graph, cached_posts, unrestricted)
    home = Home(skeletons, ranker, rules, PinnedPosts(boards, read_cache, wall_ms), served=served)
    following, pins = BoardFollowing(boards, follows_max=settings.follows_max), Pins(boards, posts)
    loaded_keys = await keys.load_keys(stores.credentials, settings)
    devices = Devices(stores.records, graph.clock, loaded_keys.signing)
    people = relations(settings, graph, reconciler)
    privacy_switch = PrivacySwitch(graph, people, stores.leases)
    jobs = account_jobs(
        graph, stores.leases, posts.erase, comments.erase, stories.erase, boards.erase,
        forget=_in_turn(profiles.forget, notices.notifications.forget, devices.forget),
        restored=privacy_switch.account_restored, beside=comments.beside,
    )  # fmt: skip
    privacy = Privacy(graph)
    watch = _watch(stores, privacy, loaded_keys.signing, posts, stories, comments, boards)
    hooks = _webhooks(settings, stores, Secrets(loaded_keys.signing))
    presence, presence_task = _presence(stores, live)
    facts_task = asyncio.create_task(facts.read_ahead())
    try:
        async with _background_work(stores, jobs, privacy_switch, settings.peers):
            yield Services(
                stores=stores, number=number, keys=loaded_keys, privacy=privacy, relations=people, profiles=profiles,
                jobs=jobs, privacy_switch=privacy_switch, suggestions=suggested, posts=posts, comments=comments,
                media=media, engagement=engagement, moderation=Moderation(posts), boards=boards,
                board_following=following, pins=pins, stories=stories, strip=Strip(graph, stories, affinity.by_author),
                home=home, read_cache=read_cache, cached_posts=cached_posts, unrestricted=unrestricted, live=live,
                watch=watch, webhooks=hooks, notifications=notices.notifications,
                external_mentions=notices.external_mentions, presence=presence, devices=devices,
                push_offer=push_keys(settings, loaded_keys.signing).offer(settings.webpush_hosts),
            )  # fmt: skip
    finally:
        await stop(presence_task, facts_task)
        await live.close()
        await watch.close()
        await jobs.close()
        await privacy_switch.close()
        await suggested.close()
        served.flush()
        media.close()


def _live(
    settings: Settings, stores: OpenStores, posts: Posts, engagement: Engagement, notifications: Notifications
) -> LiveStreams:
    """The service that sends changes to connected readers."""
    return LiveStreams(
        posts, engagement, notifications, stores.log, stores.metrics,
        resume_events=settings.stream_resume_events, heartbeat_s=settings.stream_heartbeat_s,
    )  # fmt: skip


def _watch(
    stores: OpenStores,
    privacy: Privacy,
    secret: bytes,
    posts: Posts,
    stories: Stories,
    comments: Comments,
    boards: Boards,
) -> Watch:
    """The service that sends changes to watchers; a user gets only the changes that they may see."""
    store = stores.graph.store
    visible: dict[RecordKind, ReadVisible] = {
        RecordKind.POST: posts.visible, RecordKind.STORY: stories.visible, RecordKind.COMMENT: comments.visible,
        RecordKind.BOARD: boards.visible,
    }  # fmt: skip
    visibility = ChangeVisibility(store, posts.store, privacy, ReadPolicy(stores.graph, privacy), visible)
    return Watch(stores.log, lambda: store.declare(()), secret, visibility, time.monotonic)


def _webhooks(settings: Settings, stores: OpenStores, secrets: Secrets) -> Webhooks:
    return Webhooks(
        stores.store, stores.log, secrets,
        webhooks_max=settings.webhooks_max, now_ms=wall_ms, networks=networks_of(settings.outbound_networks),
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _background_work(
    stores: OpenStores, jobs: NodeJobs, privacy_switch: PrivacySwitch, peers: Sequence[str]
) -> AsyncIterator[None]:
    """Run a primary's background work: resume jobs whose process is gone, and notify the primary that it replaced."""
    store = None if stores.folder is None else stores.folder.environment
    if store is not None and store_role.read_closed_note(store) is not None:
        yield
        return
    coroutines = [keep_resuming(jobs.resume, privacy_switch.resume)]
    if store is not None:
        coroutines.append(fencing.keep_fencing(store, stores.leases, peers))
    tasks = [asyncio.create_task(work) for work in coroutines]
    try:
        await jobs.resume()
        await privacy_switch.resume()
        yield
    finally:
        await stop(*tasks)


def _presence(stores: OpenStores, live: LiveStreams) -> tuple[Presence, asyncio.Task[None]]:
    """The reporter of who is online, and its task."""
    presence = Presence(stores.activity, stores.leases.holder, live.readers, wall_ms)
    return presence, asyncio.create_task(presence.keep_reporting())


def _served_log(settings: Settings) -> ServedFiles:
    """The log of ranked pages that were served. The API processes divide its size among them."""
    return ServedFiles(
        Path(settings.data) / "served",
        share=settings.served_log_share,
        bytes_max=settings.served_log_bytes_max,
        writers=settings.api_processes,
    )


def media_over(settings: Settings, posts: Posts, observer: CallObserver) -> MediaLibrary:
    """Pictures and videos; their files are in the folder or bucket of the settings."""
    blobs = open_blobs(settings.media_url, media_folder(settings), sync=settings.durability == "full")
    observed_blobs = observed(blobs, "blobs", observer)
    return MediaLibrary(posts.store, posts.graph, posts.snowflakes, observed_blobs, limits.media(settings))


def _in_turn(*finish: WhenDone) -> WhenDone:
    """Run these one after the other."""

    async def do(user: NodeId) -> None:
        for action in finish:
            await action(user)

    return do
