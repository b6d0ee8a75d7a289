"""Builds the API of a process: resources over the services, and the door in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from kith.access.guard import Guard
from kith.access.policy import ReadPolicy
from kith.access.quotas import Quotas
from kith.api import docs, openapi
from kith.api.call import ClientTokens
from kith.api.consistency import Consistency
from kith.api.cors import CrossOrigin
from kith.api.door import Door
from kith.api.operations import Operation, operations_of
from kith.api.post_encoder import PostEncoder
from kith.api.presenter import Presenter
from kith.api.resources.accounts import AccountsResource
from kith.api.resources.boards import BoardsResource
from kith.api.resources.comments import CommentsResource
from kith.api.resources.console import ConsoleResource, SettingAnswer
from kith.api.resources.devices import DevicesResource
from kith.api.resources.engagement import EngagementResource
from kith.api.resources.files import FILES_PATH, FilesResource
from kith.api.resources.graphs import GraphResource
from kith.api.resources.home import HomeResource
from kith.api.resources.labels import LabelsResource
from kith.api.resources.media import MediaResource
from kith.api.resources.notifications import NotificationsResource
from kith.api.resources.post_spread import SpreadResource
from kith.api.resources.posts import PostsResource
from kith.api.resources.preferences import PreferencesResource
from kith.api.resources.profiles import ProfilesResource
from kith.api.resources.relations import RelationsResource
from kith.api.resources.service import Pages, ServiceResource
from kith.api.resources.standby import StandbyResource
from kith.api.resources.stored import StoredResource
from kith.api.resources.stories import StoriesResource
from kith.api.resources.stream import StreamResource
from kith.api.resources.suggestions import SuggestionsResource
from kith.api.resources.watch import WatchResource
from kith.api.resources.web import WebResource
from kith.api.resources.webhooks import WebhooksResource
from kith.core.errors import KithError
from kith.core.paging import Cursors
from kith.core.stopping import stop
from kith.core.tokens import WriteTokens
from kith.engines.embedded.committer import Committer
from kith.engines.embedded.store_file import lost_message
from kith.http.exchange import Serve
from kith.notifications.walks import Walks
from kith.people.accounts import check_not_removed
from kith.people.name_sorter import NameSorter
from kith.people.search import PeopleSearch
from kith.run import config, limits
from kith.run.audit_process import AuditProcesses
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.machines.machine import Machine, machine_of
from kith.run.measures.history import MeasureHistory
from kith.run.opening import quotas
from kith.run.opening.keys import accepted_keys
from kith.run.services import Services, open_services
from kith.run.serving import processes
from kith.web.site import APP, CONSOLE, Site, client_folder

KEYS_READ_S = 3.0
"""Seconds between two polls for server keys that were made or revoked."""


class Api(NamedTuple):
    """The API of a process: its door, a way to close open streams, the console's history and audits, and the guard."""

    door: Serve
    operations: Sequence[Operation]
    end_streams: Callable[[], None]
    history: MeasureHistory
    audits: AuditProcesses
    guard: Guard


@contextlib.asynccontextmanager
async def open_api(
    settings: Settings,
    *,
    create: bool = True,
    on_fatal: Callable[[], None] = lambda: None,
    committer: Committer | None = None,
) -> AsyncIterator[Api]:
    """Open everything that an API process runs, and close it at the end."""
    async with (
        open_services(settings, create=create, on_fatal=on_fatal, committer=committer) as services,
        machine_of(settings, services.stores.folder) as machine,
        quotas.open_store(settings) as counts,
    ):
        api = api_over(settings, services, Quotas(counts, limits.quotas(settings)), machine)
        background = [
            asyncio.create_task(api.history.run()),
            asyncio.create_task(_poll_server_keys(settings, services, api.guard)),
        ]
        try:
            yield api
        finally:
            await stop(*background)
            await api.audits.close()


async def _poll_server_keys(settings: Settings, services: Services, guard: Guard) -> None:
    """Poll for server keys that `kith token` makes and revokes, in another process or on another machine."""
    while True:
        await asyncio.sleep(KEYS_READ_S)
        with contextlib.suppress(KithError):  # the next poll retries
            guard.accept(await accepted_keys(services.stores.credentials, settings, services.keys.signing))


def api_over(settings: Settings, services: Services, counted: Quotas, machine: Machine | None) -> Api:
    """Build the API over the services."""
    stores, keys, bounds = services.stores, services.keys, limits.bounds(settings)
    graph, metrics = stores.graph, stores.metrics
    guard = Guard(keys.server_keys, keys.user_tokens, limits.rates(settings))
    profiles, people = services.profiles, services.unrestricted
    check_there = partial(check_not_removed, graph.store)
    access = ReadPolicy(graph, services.privacy, stores.checked, people if graph.store.logs_every_change else None)
    present = Presenter(
        profiles, services.media, services.engagement, services.comments,
        settings.media_base_url.rstrip("/") or FILES_PATH,
    )  # fmt: skip
    shown = PostEncoder(present, profiles, services.media, services.engagement, services.cached_posts, people)
    stream, watching = _live_resources(settings, services, guard, bounds.timeout_s)
    standbys = [] if machine is None else [StandbyResource(machine.source, machine.keep, metrics.observe)]
    history, audits = MeasureHistory(Path(settings.data) / "samples", metrics), AuditProcesses(Path(settings.data))

    @cache
    def pages() -> Pages:
        document = openapi.document(operations)
        return Pages(msgspec.json.encode(document), docs.render(document).encode())

    resources: list[object] = [
        GraphResource(graph, access, batch_max=settings.batch_max, select_ids_max=settings.select_ids_max),
        RelationsResource(services.relations, access, present, NameSorter(profiles), PeopleSearch(graph, profiles)),
        AccountsResource(services.jobs, profiles),
        ProfilesResource(profiles, graph, services.privacy, services.media, services.privacy_switch, present, people),
        SuggestionsResource(services.suggestions),
        PostsResource(services.posts, access, present, shown),
        EngagementResource(services.engagement, present),
        CommentsResource(services.comments, present),
        MediaResource(services.media, present),
        HomeResource(services.home, services.posts, shown, services.presence.note),
        stream,
        StoriesResource(services.stories, services.strip, access, present),
        BoardsResource(services.boards, services.board_following, services.pins, access, present),
        NotificationsResource(services.notifications, services.external_mentions, present, services.presence.note),
        PreferencesResource(services.notifications.preferences, check_there),
        DevicesResource(services.devices, services.push_offer, services.posts.snowflakes.next, check_there),
        LabelsResource(services.moderation),
        FilesResource(services.media),
        watching,
        WebhooksResource(services.webhooks, graph.graphs, services.posts.snowflakes.next, services.watch),
        *standbys,
        *_console_resources(settings, services, history, audits, counted),
        ServiceResource(partial(_problems, services, machine), metrics.render, pages, partial(_role_of, machine)),
    ]
    if settings.web_app == "on":
        origins = media_origins(settings, os.environ.get("AWS_ENDPOINT_URL", ""))
        resources.append(WebResource(Site(APP, {"client": client_folder()}, origins)))
    operations = [operation for resource in resources for operation in operations_of(resource)]
    consistency = Consistency(WriteTokens(keys.signing), stores.log, graph.clock.observe)
    tokens = ClientTokens(Cursors(keys.signing), consistency)
    refusal = None if machine is None else machine.refusal
    door: Serve = Door(operations, guard, counted, tokens, bounds, metrics.observe, refusal)
    door = door if machine is None else machine.with_lag_header(door)
    if settings.cors_origins:
        door = CrossOrigin(door, settings.cors_origins, operations, metrics.observe)

    return Api(door, operations, partial(_close_streams, stream, watching, *standbys), history, audits, guard)


def _live_resources(
    settings: Settings, services: Services, guard: Guard, timeout_s: float
) -> tuple[StreamResource, WatchResource]:
    """The resources with long-lived connections: streams for readers, and `/watch` for apps."""
    stores = services.stores
    stream = StreamResource(
        services.live, services.home, limits.streams(settings), stores.metrics,
        when_invalid=guard.when_invalid, timeout_s=timeout_s, signing=services.keys.signing,
    )  # fmt: skip
    watching = WatchResource(
        services.watch, stores.graph.graphs, stores.metrics, when_invalid=guard.when_invalid,
        watchers_max=settings.watchers_max, user_max=settings.streams_user_max,
        buffer_bytes=settings.stream_buffer_bytes,
    )  # fmt: skip
    return stream, watching


def _console_resources(
    settings: Settings, services: Services, history: MeasureHistory, audits: AuditProcesses, counted: Quotas
) -> tuple[ConsoleResource, StoredResource, SpreadResource]:
    """The resources of the operator's console."""
    stores = services.stores
    return (
        ConsoleResource(Site(CONSOLE, {}), history, audits, counted, _settings(settings)),
        StoredResource(stores.graph, stores.records, stores.log, services.jobs, list(CONSUMERS)),
        SpreadResource(stores.graph, stores.records, stores.log, stores.fanout_state, Walks(stores.graph.store)),
    )


def _settings(settings: Settings) -> list[SettingAnswer]:
    """Each setting in force, with its source."""
    sources = processes.sources_of_process()
    return [
        SettingAnswer(
            row.name,
            row.value,
            row.default,
            row.meaning,
            sources.get(row.name, "default" if row.value == row.default else "the command"),
        )
        for row in config.table(settings)
    ]


def _close_streams(*resources: StreamResource | WatchResource | StandbyResource) -> None:
    """Close open streams, which never end on their own."""
    for resource in resources:
        resource.close()


def media_origins(settings: Settings, bucket: str = "") -> tuple[str, ...]:
    """Origins besides this server from which the web app may load pictures and videos.

    `bucket`: the address of the bucket's service, if it is not Amazon's.
    """
    urls = [settings.media_base_url]
    if settings.media_url and urlsplit(bucket).scheme == "http":  # such as a bucket on a developer's machine
        urls.append(bucket)
    origins = [f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, urls) if parts.netloc]
    # the host of a bucket is known only from the URLs that it signs
    return (*origins, *(("https:",) if settings.media_url else ()))


def _role_of(machine: Machine | None) -> dict[str, str]:
    """What the machine reports about its role to probes."""
    return {} if machine is None else machine.status()


def _problems(services: Services, machine: Machine | None) -> dict[str, str]:
    """Why this process is not ready: problem by component; empty if it is ready."""
    problems, folder = {}, services.stores.folder
    if folder is not None and folder.commits.failed:
        problems["store"] = "the store failed and takes no more writes; this process restarts"
    elif folder is not None and (lost := folder.environment.files.lost()):
        problems["store"] = lost_message(lost)
    if machine is not None and machine.problem():
        problems["primary"] = machine.problem()
    if why := services.stores.refusal():
        problems["writes"] = why
    if not services.number.held.is_usable:
        problems["ids"] = "the node number of this process is lost, or cannot be renewed; it makes no ids"
    return problems
