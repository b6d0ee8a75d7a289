"""The home feed over HTTP: a community with posts, likes and readers, one API process and its worker."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
from numpy.typing import NDArray

from bench import peers
from bench.figures import KEY, Figure, imported, real_graph, server, with_peer
from bench.load import Load, request, run
from kith.commands.transfer.formats import read
from kith.core.ids import EPOCH_MS, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import AUTHORED, LIKES
from kith.home.timelines import TIMELINE_IDS_MAX
from kith.posts.post import Draft, check_draft, post_from, post_record
from kith.run.config import Settings
from kith.run.services import Services, running

SECONDS = 6.0
_POSTS, _LIKES_A_POST, _READERS, _FOLLOWED_MIN = 60_000, 3, 2_000, 20
_DAYS = 7
_PEER = "Redis: ZREVRANGE and 20 HGETALL in a pipeline, redis-py asyncio, 8 connections; no HTTP, no rules, no ranking"
_SNOWFLAKE_BITS = 22
_WORDS = ["the river was quiet this morning", "somebody had left a red boat", "by the old bridge", "again", "tea"]
Ids = Sequence[int]
Item = TypeVar("Item")


def home(folder: Path) -> list[Figure]:
    """Pages of 20, ranked and latest, of readers who follow 20 and more; the first page of each."""
    data = real_graph(folder)
    settings = imported(folder, data)
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    posts = asyncio.run(_fill(settings, edges))
    sources, follows = np.unique(edges[:, 0], return_counts=True)
    readers = random.Random(3).sample(sources[follows >= _FOLLOWED_MIN].tolist(), _READERS)
    says = (
        f"{data.says}; {_POSTS:,} posts of {_DAYS} days, {_LIKES_A_POST * _POSTS:,} likes; "
        f"{_READERS:,} readers who follow {_FOLLOWED_MIN} and more, 8 connections"
    )
    figures = []
    with server(settings):
        _warm(settings, readers)
        for kind in ("ranked", "latest"):
            load = _run(settings.port, functools.partial(_pages, readers, kind))
            name = "home" if kind == "ranked" else f"home-{kind}"
            figures += [
                Figure(name, load.rate, "pages/s", ">= 2,000", data=says),
                Figure(f"{name}-p99", load.p99_ms, "ms", "< 10", data=says),
            ]
    peer = peers.redis_pages(folder, posts, _homes(edges, posts, readers))
    return [with_peer(figure, _PEER, peer) if figure.unit == "pages/s" else figure for figure in figures]


def _homes(edges: NDArray[Any], posts: Sequence[tuple[int, int]], readers: Ids) -> dict[int, list[int]]:
    """The newest ids of each reader's home."""
    followed: dict[int, set[int]] = {reader: set() for reader in readers}
    for reader, author in edges.tolist():
        if reader in followed:
            followed[reader].add(author)
    by_author: dict[int, list[int]] = {}
    for id_, author in posts:
        by_author.setdefault(author, []).append(id_)
    return {
        reader: sorted((id_ for author in authors for id_ in by_author.get(author, ())), reverse=True)[
            :TIMELINE_IDS_MAX
        ]
        for reader, authors in followed.items()
    }


def _pages(readers: Ids, kind: str) -> list[bytes]:
    return [request("GET", f"/api/v1/feed?type={kind}", KEY, user=reader) for reader in readers]


def _run(port: int, make: Callable[[], Sequence[bytes]]) -> Load:
    load = run(port, make, connections=8, seconds=SECONDS)
    if load.errors:
        raise RuntimeError(f"{load.errors} of {load.requests} answers were errors")
    return load


def _warm(settings: Settings, readers: Ids) -> None:
    """Until every reader has a timeline."""
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{settings.port}", headers=headers) as client:
        for reader in readers:
            client.get("/api/v1/feed", headers={"x-kith-user": str(reader)}).raise_for_status()
        deadline = time.monotonic() + 60
        while "kith_fanout_lag_events 0.0" not in client.get("/metrics").text:
            if time.monotonic() > deadline:
                raise RuntimeError("fan-out does not catch up")
            time.sleep(0.1)


async def _fill(settings: Settings, edges: NDArray[Any]) -> Sequence[tuple[int, int]]:
    """(id, author) of posts made over the last days by authors drawn by their followers; these like some of them."""
    chosen = random.Random(5)
    async with running(settings) as services:
        rows = chosen.choices(range(len(edges)), k=_POSTS)
        now_ms = int(time.time() * 1000)
        times = sorted(now_ms - chosen.randrange(_DAYS * 86_400_000) for _ in rows)
        ids = [((at - EPOCH_MS) << _SNOWFLAKE_BITS) + number % 4096 for number, at in enumerate(times)]
        posts = [(id_, int(edges[row][1])) for id_, row in zip(ids, rows, strict=True)]
        for chunk in _batches(posts, 2_000):
            await _put_posts(services, chosen, chunk)
        likes = services.opened.graph.graphs.number(LIKES)
        by_author: dict[int, list[int]] = {}
        for source, destination in edges.tolist():
            by_author.setdefault(destination, []).append(source)
        writes = [
            services.opened.graph.adding(likes, NodeId(reader), NodeId(post))
            for post, author in posts
            for reader in chosen.choices(by_author[author], k=_LIKES_A_POST)
        ]
        for some in _batches(writes, 5_000):
            await services.opened.graph.store.apply(some)
        return posts


async def _put_posts(services: Services, chosen: random.Random, chunk: Sequence[tuple[int, int]]) -> None:
    authored = services.opened.graph.graphs.number(AUTHORED)
    records, outbox = [], []
    for id_, author in chunk:
        text = " ".join(chosen.choices(_WORDS, k=4)) + f" {id_}"
        link = f"https://example.org/{id_}" if chosen.random() < 0.3 else None
        version = services.opened.graph.clock.next()
        post = post_from(
            NodeId(id_), NodeId(author), (id_ >> _SNOWFLAKE_BITS) + EPOCH_MS, check_draft(Draft(text=text, link=link))
        )
        records.append(post_record(post, version))
        outbox.append(EdgeWrite(Edge(authored, NodeId(author), NodeId(id_), State.NORMAL, post.created_at, version)))
    await services.posts.store.put(records, outbox)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[at : at + size] for at in range(0, len(items), size))
