"""The cost of labels and quotas for requests that meet none. In process; the fastest of many short runs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.figures import Figure
from kith.access.sliding_window import Quota
from kith.core.ids import NodeId
from kith.core.labels import LIMIT, SENSITIVE
from kith.engines.embedded.quota_store import FileQuotas
from kith.posts.post import Draft
from kith.run.config import Settings
from kith.run.services import Services, open_services

_AUTHORS, _PAGE, _READER = 200, 20, NodeId(7)
_RUNS, _PAGES_A_RUN = 300, 40
_TAKES = 20_000


def moderation(folder: Path) -> list[Figure]:
    """Read a page of posts with the hard rules, and count one request against a quota."""
    figures = asyncio.run(_visible(folder))
    store = FileQuotas(folder / "quotas")
    figures.append(asyncio.run(_quota(store)))
    store.close()
    return figures


async def _quota(store: FileQuotas) -> Figure:
    quota, best_us = Quota(10**9, 60), float("inf")
    for _ in range(10):
        started = time.perf_counter()
        for user in range(_TAKES):
            await store.take(0, user % 5_000, quota, time.time())
        best_us = min(best_us, (time.perf_counter() - started) / _TAKES * 1e6)
    return Figure("quota", best_us, "us", "", data="5,000 users, one process")


async def _visible(folder: Path) -> list[Figure]:
    settings = Settings(data=str(folder / "moderation"), durability="relaxed")
    async with open_services(settings) as services:
        made = [await services.posts.create(NodeId(1_000 + at), Draft(text="hello " * 10)) for at in range(_AUTHORS)]
        posts = [written.post.id for written in made]
        says = f"{_PAGE} posts of {_PAGE} authors for a reader who follows none of them"
        figures = [await _figure("visible", services, posts, says)]
        for user in range(1_000):
            await services.moderation.set("user", NodeId(50_000 + user), LIMIT)
        figures.append(await _figure("visible-beside", services, posts, f"{says}; 1,000 labelled accounts elsewhere"))
        for at in range(_AUTHORS):
            await services.moderation.set("user", NodeId(1_000 + at), SENSITIVE)
        figures.append(await _figure("visible-labelled", services, posts, f"{says}, each labelled sensitive"))
    return figures


async def _figure(name: str, services: Services, posts: list[int], says: str) -> Figure:
    best_us = float("inf")
    for _ in range(_RUNS):
        started = time.perf_counter()
        for at in range(_PAGES_A_RUN):
            first = at * _PAGE % (len(posts) - _PAGE)
            await services.posts.visible(_READER, posts[first : first + _PAGE])
        best_us = min(best_us, (time.perf_counter() - started) / _PAGES_A_RUN * 1e6)
    return Figure(name, best_us, "us", "", data=says)
