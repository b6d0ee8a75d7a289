"""Lists of likes, saves, mentions, blocks and comments over HTTP; and how long it takes to make an account public.

16 connections, one API process. Each list has 20 entries and is read whole. Before a route is loaded, the entries of
some of its answers are counted.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from bench.figures import KEY, SECONDS, Figure, server
from bench.load import request, run
from bench.routes import API, client, expected
from bench.town import Ids, Town, batches, town
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, LIKES, MENTIONED, SAVES
from kith.run.config import Settings
from kith.run.services import Services, open_services

_LISTS, _ENTRIES = 1_000, 20
_COMMENTED, _COMMENTS, _REPLIES = 300, 10, 2
_LONG_THREADS, _IN_THREAD = 5, 2_000
_WAITING = 1_000
_READS = 20_000
_CONNECTIONS = 16
_SAMPLE = 20
_LEAST_BYTES = 1_000  # an answer with entries
_EDGES_PER_WRITE = 1_000
_OPENING_TIMEOUT_S, _POLL_S = 60.0, 0.005


class _ListRead(NamedTuple):
    """A path, the user who requests it, and how many items the answer must have."""

    path: str
    user: int
    length: int


def likes_list_http(folder: Path) -> list[Figure]:
    """The 20 users who like a post."""
    at = town(folder)
    posts, likers = _drawn(at.posts[:, 0]), at.profiles[:_ENTRIES].tolist()
    rows = [(liker, post) for post in posts for liker in likers]
    asked = [_ListRead(f"/posts/{post}/likes?limit={_ENTRIES}", likers[0], _ENTRIES) for post in posts]
    return _read("likes-list-http", at, lambda services: put_edges(services, LIKES, rows), asked)


def saved_list_http(folder: Path) -> list[Figure]:
    """The 20 posts that a user saved."""
    return _posts_of_users("saved-list-http", folder, SAVES, "saved")


def mentions_list_http(folder: Path) -> list[Figure]:
    """The 20 posts that mention a user."""
    return _posts_of_users("mentions-list-http", folder, MENTIONED, "mentions")


def blocked_list_http(folder: Path) -> list[Figure]:
    """The 20 users whom a user blocks."""
    at = town(folder)
    users, strangers = _drawn(at.profiles), range(at.users, at.users + _ENTRIES)
    rows = [(user, stranger) for user in users for stranger in strangers]
    asked = [_ListRead(f"/users/{user}/blocked?limit={_ENTRIES}", user, _ENTRIES) for user in users]
    return _read("blocked-list-http", at, lambda services: put_edges(services, BLOCKS, rows), asked)


def comments_page_http(folder: Path) -> list[Figure]:
    """10 comments of a post, each with the first 2 replies."""
    at = town(folder)
    posts, writers = _drawn(at.posts[:, 0], _COMMENTED), at.profiles.tolist()
    asked = [_ListRead(f"/posts/{post}/comments?limit={_COMMENTS}", writers[0], _COMMENTS) for post in posts]

    async def fill(services: Services) -> None:
        async def comment(post: int, number: int) -> None:
            actor, on = NodeId(writers[number]), NodeId(post)
            made, _ = await services.comments.create(actor, on, f"a boat, {number}")
            for answer in range(_REPLIES):
                await services.comments.create(actor, on, f"red, {answer}", NodeId(made.id))

        both = [(post, number) for post in posts for number in range(_COMMENTS)]
        for some in batches(both, _EDGES_PER_WRITE):
            await asyncio.gather(*(comment(post, number) for post, number in some))

    return _read("comments-page-http", at, fill, asked)


def comments_top_http(folder: Path) -> list[Figure]:
    """The 20 most liked of 2,000 comments on a post, a third of which are liked once. Readers share a few posts."""
    at = town(folder)
    posts, writers = _drawn(at.posts[:, 0], _LONG_THREADS), at.profiles.tolist()
    asked = [
        _ListRead(f"/posts/{post}/comments?limit={_ENTRIES}&sort=top", writer, _ENTRIES)
        for writer in writers[:_LISTS]
        for post in posts
    ]

    async def fill(services: Services) -> None:
        async def comment(post: int, number: int) -> None:
            made, _ = await services.comments.create(NodeId(writers[number]), NodeId(post), f"a boat, {number}")
            if number % 3 == 0:
                await services.comments.like(NodeId(writers[-number - 1]), NodeId(made.id))

        both = [(post, number) for post in posts for number in range(_IN_THREAD)]
        for some in batches(both, _EDGES_PER_WRITE):
            await asyncio.gather(*(comment(post, number) for post, number in some))

    return _read("comments-top-http", at, fill, asked)


def opening_http(folder: Path) -> list[Figure]:
    """Make a private account with 1,000 follow requests public: time from the request until all of them follow."""
    at = town(folder)
    settings, user = at.copied("opening-http"), at.users
    rows = [(waiting, user) for waiting in at.profiles[:_WAITING].tolist()]
    with server(settings), client(settings, user) as http:
        http.put(f"/users/{user}", json={"private": True}).raise_for_status()
    asyncio.run(_filled(settings, lambda services: put_edges(services, FOLLOW_REQUESTS, rows)))
    with server(settings), client(settings, user) as http:
        started = time.perf_counter()
        http.put(f"/users/{user}", json={"private": False}).raise_for_status()
        answered_ms = (time.perf_counter() - started) * 1000
        while (followers := _ask(http, f"/graph/follows/{user}/in/count")["count"]) < _WAITING:
            if time.perf_counter() - started > _OPENING_TIMEOUT_S:
                raise RuntimeError(f"{followers} of {_WAITING} follow after {_OPENING_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        all_ms = (time.perf_counter() - started) * 1000
    says = f"{at.says}; {_WAITING:,} requests"
    return [
        Figure("opening-http", all_ms, "ms", "", data=says),
        Figure("opening-http-answer", answered_ms, "ms", "", data=says),
    ]


def _posts_of_users(name: str, folder: Path, graph: str, route: str) -> list[Figure]:
    at = town(folder)
    users, posts = _drawn(at.profiles), at.posts[:_ENTRIES, 0].tolist()
    rows = [(user, post) for user in users for post in posts]
    asked = [_ListRead(f"/users/{user}/{route}?limit={_ENTRIES}", user, _ENTRIES) for user in users]
    return _read(name, at, lambda services: put_edges(services, graph, rows), asked)


def _read(name: str, at: Town, fill: Callable[[Services], Awaitable[None]], asked: Sequence[_ListRead]) -> list[Figure]:
    settings = at.copied(name)
    asyncio.run(_filled(settings, fill))
    with server(settings):
        for one in asked[:_SAMPLE]:
            with client(settings, one.user) as http:
                expected(len(_ask(http, one.path)["items"]), one.length, f"the length of {one.path}")
        load = run(
            settings.port, functools.partial(_requests, asked),
            connections=_CONNECTIONS, seconds=SECONDS, least_bytes=_LEAST_BYTES,
        )  # fmt: skip
    return [
        Figure(name, load.rate, "pages/s", "", data=at.says),
        Figure(f"{name}-p99", load.p99_ms, "ms", "", data=at.says),
    ]


def _requests(asked: Sequence[_ListRead]) -> list[bytes]:
    chosen = np.random.default_rng(22).integers(0, len(asked), _READS).tolist()
    return [request("GET", API + asked[one].path, KEY, user=asked[one].user) for one in chosen]


async def _filled(settings: Settings, fill: Callable[[Services], Awaitable[None]]) -> None:
    async with open_services(settings) as services:
        await fill(services)


async def put_edges(services: Services, name: str, rows: Sequence[tuple[int, int]]) -> None:
    """Write edges of a graph, each at a later position than the one before."""
    graph = services.stores.graph
    number, now = graph.graphs.number(name), graph.clock.next
    for some in batches(rows, _EDGES_PER_WRITE):
        await graph.store.apply([
            EdgeWrite(Edge(number, NodeId(source), NodeId(destination), State.NORMAL, place, now()))
            for place, (source, destination) in enumerate(some)
        ])  # fmt: skip


def _drawn(of: Ids, count: int = _LISTS) -> list[int]:
    drawn: list[int] = np.random.default_rng(21).permutation(of)[:count].tolist()
    return drawn


def _ask(http: httpx.Client, path: str) -> Any:
    return http.get(path).raise_for_status().json()
