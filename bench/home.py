"""The home feed over HTTP: a town with posts, likes and readers, one API process and its worker.

Three kinds of pages: a reader's first page (each reader once), the same page again within 30 s, and the latest posts.
For each it measures the highest rate, and the latency at half of the target rate. All readers have a timeline, as
recent readers do.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import numpy as np

from bench import peers
from bench.figures import KEY, SECONDS, Figure, server, with_peer
from bench.linkbench import Turns
from bench.load import Load, request, run
from bench.routes import client, expected
from bench.town import Ids, Town, batches, put_posts, spread, town
from kith.core.ids import NodeId
from kith.graph.graphs import LIKES
from kith.home.timelines import TIMELINE_IDS_MAX
from kith.posts.post import Draft
from kith.run.config import Settings
from kith.run.services import open_services

_POSTS, _LIKES_A_POST = 60_000, 3
_TURNS = 2
"""Turns, each of one API process and then of two, because the machine's speed changes within minutes."""
_FOLLOWED_MIN, _WARM_FOLLOWED_MIN = 20, 10
_REPEAT_READERS, _SAMPLE = 2_000, 50
_PAGE, _CONNECTIONS = 20, 16
_PAGE_BYTES_MIN = 1_000  # an empty one has about 200
_TARGETS = {"home": 1_200, "home-again": 2_000, "home-latest": 3_000}
_PEER = "Redis: ZREVRANGE and 20 HGETALL in a pipeline, redis-py asyncio, 16 connections; no HTTP, no rules, no ranking"
_WORDS = ["the river was quiet this morning", "somebody had left a red boat", "by the old bridge", "again", "tea"]


class Readers(NamedTuple):
    """`all`: readers who follow 20 users or more and have a page of posts. `again`: some of them, measured twice.
    `warm`: readers who follow fewer; they warm the server up.
    """

    all: list[int]
    again: list[int]
    warm: list[int]


class Cast(NamedTuple):
    """The town, its readers and posts. `posts`: id and author, oldest first."""

    settings: Settings
    at: Town
    posts: Sequence[tuple[int, int]]
    readers: Readers


def home(folder: Path) -> list[Figure]:
    """Rates and latencies of pages of 20 posts."""
    cast = _cast(folder)
    first, two = Turns([]), Turns([])
    for turn in range(_TURNS):
        for workers, turns in ((1, first), (2, two)):
            with _ready(cast, workers=workers) as port:
                if not turn:
                    _check(cast)
                turns.loads.append(_firsts(port, cast))
    with _ready(cast) as port:
        first_arriving = _firsts(port, cast, arrivals=_TARGETS["home"] / 2)
    with _ready(cast) as port:
        run(port, functools.partial(_pages, cast.readers.again, "ranked"),
            connections=_CONNECTIONS, seconds=60, warm_s=0, once=True)  # fmt: skip
        again, again_arriving = _both(port, cast, "home-again", "ranked")
        latest, latest_arriving = _both(port, cast, "home-latest", "latest")
    says = (
        f"{cast.at.data.says}; {_POSTS:,} posts of a week, {_LIKES_A_POST * _POSTS:,} likes; "
        f"{len(cast.readers.all):,} readers who follow {_FOLLOWED_MIN} and more, {_CONNECTIONS} connections"
    )
    peer = peers.redis_pages(folder, cast.posts, _homes(cast.at, cast.posts, cast.readers.again))
    loads: dict[str, tuple[Load | Turns, Load]] = {
        "home": (first, first_arriving), "home-again": (again, again_arriving), "home-latest": (latest, latest_arriving)
    }  # fmt: skip
    figures = []
    for name, (load, arriving) in loads.items():
        rate, half = _TARGETS[name], _TARGETS[name] // 2
        figures += [
            with_peer(Figure(name, load.rate, "pages/s", f">= {rate:,}", data=says), _PEER, peer),
            Figure(f"{name}-p99", arriving.p99_ms, "ms", "< 10", data=f"{says}; {half:,} pages/s arrive"),
        ]
    by_two = Figure("home-two-processes", two.rate, "pages/s", ">= 1.8 times one", data=says)
    return [*figures, with_peer(by_two, "one API process", first.rate)]


def _cast(folder: Path) -> Cast:
    at = town(folder)
    settings = at.copied("home")
    posts = asyncio.run(_fill(settings, at))
    sources, follows = np.unique(at.edges[:, 0], return_counts=True)
    readers = np.random.default_rng(3).permutation(sources[follows >= _FOLLOWED_MIN]).tolist()
    homes = _homes(at, posts, readers)
    readers = [reader for reader in readers if len(homes[reader]) >= _PAGE]
    warm = sources[(follows >= _WARM_FOLLOWED_MIN) & (follows < _FOLLOWED_MIN)].tolist()
    return Cast(settings, at, posts, Readers(readers, readers[:_REPEAT_READERS], warm))


def _homes(at: Town, posts: Sequence[tuple[int, int]], readers: Sequence[int]) -> dict[int, list[int]]:
    """The newest ids of each reader's home: posts of the users they follow, and their own."""
    by_author: dict[int, list[int]] = {}
    for id_, author in posts:
        by_author.setdefault(author, []).append(id_)
    follows = at.edges[np.isin(at.edges[:, 0], readers)]
    authors: dict[int, set[int]] = {reader: {reader} for reader in readers}
    for reader, author in follows.tolist():
        authors[reader].add(author)
    return {
        reader: sorted((id_ for author in some for id_ in by_author.get(author, ())), reverse=True)[:TIMELINE_IDS_MAX]
        for reader, some in authors.items()
    }


@contextlib.contextmanager
def _ready(cast: Cast, *, workers: int = 1) -> Iterator[int]:
    """The port of a fresh server on which every reader has a timeline, warmed up by other readers."""
    settings = msgspec.structs.replace(cast.settings, workers=workers)
    readers = cast.readers
    with server(settings):
        run(settings.port, functools.partial(_pages, [*readers.all, *readers.warm], "latest"),
            connections=_CONNECTIONS, seconds=120, warm_s=0, once=True)  # fmt: skip
        _wait_for_fanout(settings)
        run(settings.port, functools.partial(_pages, readers.warm, "ranked"),
            connections=_CONNECTIONS, seconds=2, warm_s=0, once=True)  # fmt: skip
        yield settings.port


def _wait_for_fanout(settings: Settings) -> None:
    url, deadline = f"http://127.0.0.1:{settings.port}/metrics", time.monotonic() + 60
    while "kith_fanout_lag_events 0.0" not in httpx.get(url, headers={"authorization": f"Bearer {KEY}"}).text:
        if time.monotonic() > deadline:
            raise RuntimeError("fan-out does not catch up")
        time.sleep(0.1)


def _check(cast: Cast) -> None:
    """Check that latest pages hold the newest posts, and ranked pages as many posts."""
    readers = cast.readers.all[-_SAMPLE:]
    followed = set(cast.at.edges[np.isin(cast.at.edges[:, 0], readers)][:, 1].tolist()) | set(readers)
    with client(cast.settings) as http:
        for reader, newest in _homes(cast.at, cast.posts, readers).items():
            latest, ranked = (
                http.get(f"/feed?type={kind}", headers={"x-kith-user": str(reader)}).raise_for_status().json()["posts"]
                for kind in ("latest", "ranked")
            )
            expected([int(post["id"]) for post in latest], newest[:_PAGE], f"the latest page of {reader}")
            expected(len(ranked), _PAGE, f"the length of the ranked page of {reader}")
            expected({int(post["author"]["id"]) for post in ranked} - followed, set(), f"strangers of {reader}")


def _pages(readers: Sequence[int], kind: str) -> list[bytes]:
    return [request("GET", f"/api/v1/feed?type={kind}", KEY, user=reader) for reader in readers]


def _firsts(port: int, cast: Cast, arrivals: float | None = None) -> Load:
    """Load each reader's first page, once."""
    readers = cast.readers.all[:-_SAMPLE]
    return run(
        port,
        functools.partial(_pages, readers, "ranked"),
        connections=_CONNECTIONS,
        seconds=_firsts_s(len(readers), arrivals),
        warm_s=0,
        once=True,
        arrivals=arrivals,
        least_bytes=_PAGE_BYTES_MIN,
    )


def _firsts_s(readers: int, arrivals: float | None) -> float:
    """For how many seconds the readers last, if each comes once."""
    return SECONDS if arrivals is None else min(SECONDS, readers / arrivals)


def _both(port: int, cast: Cast, name: str, kind: str) -> tuple[Load, Load]:
    """The highest rate of pages; and pages that arrive at half of the target rate."""
    loaded = functools.partial(
        run, port, functools.partial(_pages, cast.readers.again, kind),
        connections=_CONNECTIONS, seconds=SECONDS, least_bytes=_PAGE_BYTES_MIN,
    )  # fmt: skip
    return loaded(), loaded(arrivals=_TARGETS[name] / 2)


async def _fill(settings: Settings, at: Town) -> Sequence[tuple[int, int]]:
    """Add posts, by authors drawn in proportion to their followers, and likes of these followers. Returns (id, author)
    of all posts, oldest first."""
    chosen = random.Random(5)
    async with open_services(settings) as services:
        rows = np.random.default_rng(5).integers(0, len(at.edges), _POSTS - len(at.posts))
        made = spread(chosen, at.edges[rows, 1].tolist())
        await put_posts(services, made, lambda post: _draft(chosen, post))
        posts = sorted([*made, *((id_, author) for id_, author in at.posts.tolist())])
        likes, graph = services.stores.graph.graphs.number(LIKES), services.stores.graph
        followers = _by_author(at.edges)
        writes = [
            graph.add_write(likes, NodeId(reader), NodeId(post))
            for post, author in posts
            for reader in chosen.choices(followers[author], k=_LIKES_A_POST)
        ]
        for some in batches(writes, 5_000):
            await graph.store.apply(some)
        return posts


def _by_author(edges: Ids) -> dict[int, list[int]]:
    followers: dict[int, list[int]] = {}
    for source, destination in edges.tolist():
        followers.setdefault(destination, []).append(source)
    return followers


def _draft(chosen: random.Random, post: int) -> Draft:
    text = " ".join(chosen.choices(_WORDS, k=4)) + f" {post}"
    return Draft(text=text, link=f"https://example.org/{post}" if chosen.random() < 0.3 else None)
