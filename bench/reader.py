"""The reader and the console in a real Chromium (`make test-web` installs it).

It measures the time from the link to posts, scrolling, a like, memory, and the CPU use of an idle console page. Frames
and the console page are measured in CPU time, because the machine may do other things. Frame times are multiplied by
four, for a processor that is four times slower.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bench.browser import chromium
from bench.figures import KEY, Figure, free_port, server
from bench.lists import put_edges
from bench.town import put_posts, put_profiles, spread
from kith.graph.graphs import FOLLOWS
from kith.posts.post import Draft
from kith.run.config import Settings
from kith.run.services import Services, open_services

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

_READER, _AUTHORS, _POSTS = 1, 40, 2_000
_OPENED, _LIKES = 7, 20
_SLOWER = 4
_FIRST_PAGE = 20
_FRAME_MS = 50
_CONSOLE_S = 30.0
_WORDS = [
    "river",
    "boat",
    "bread",
    "lamp",
    "stair",
    "rain",
    "kite",
    "pan",
    "moss",
    "coat",
    "gate",
    "moon",
    "fern",
    "salt",
]
_WINDOW: Any = {"viewport": {"width": 1000, "height": 900}}
_POLL_S = 0.02
_UNLIMITED = {"KITH_RATE_FEED_PER_MINUTE": "0"}  # a program scrolls faster than people

_SHOWN = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("kith-post")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => performance.mark("posts")));
}).observe(document, { childList: true, subtree: true });
"""
_POSTS_MARK = "performance.getEntriesByName('posts')[0]?.startTime ?? null"
_SCROLL = """
async (posts) => {
  const seen = new Set();
  const atEnd = () => document.querySelector("kith-list").textContent.endsWith("That is all.");
  for (const until = performance.now() + 120_000; seen.size < posts && !atEnd() && performance.now() < until; ) {
    for (const one of document.querySelectorAll("kith-post")) seen.add(one.querySelector(".words").textContent);
    scrollBy(0, 300);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  return seen.size;
}
"""
_LIKE = """
async () => {
  const one = document.querySelector("kith-post .act.like");
  const [was, began] = [one.ariaPressed, performance.now()];
  one.click();
  if (one.ariaPressed === was) throw new Error("not at once");
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}
"""


def reader(folder: Path) -> list[Figure]:
    """Read 2,000 posts of 40 authors whom the reader follows."""
    settings = Settings(data=str(folder / "reader"), port=free_port(), api_keys=(KEY,), workers=1)
    asyncio.run(_fill(settings))
    with patch.dict(os.environ, _UNLIMITED), server(settings), chromium() as browser:
        link = f"http://127.0.0.1:{settings.port}/app#token={_token(settings)}"
        says = f"{_POSTS:,} posts, no pictures"
        first, took = zip(*[_open(browser, link) for _ in range(_OPENED)], strict=True)
        cpu = f"CPU time of the page {statistics.median(took):.0f} ms"
        return [
            Figure("reader-first-posts", statistics.median(first), "ms", "< 1,000", data=f"{_spread(first)}; {cpu}"),
            *_scrolled(browser, link, says),
            *_console(browser, settings.port),
        ]


async def _fill(settings: Settings) -> None:
    authors, chosen = range(2, 2 + _AUTHORS), random.Random(15)
    posts = spread(chosen, chosen.choices(authors, k=_POSTS))

    def draft(post: int) -> Draft:
        return Draft(text=f"{post}: {' '.join(chosen.choices(_WORDS, k=chosen.randrange(3, 60)))}")

    async with open_services(settings) as services:
        await put_profiles(services, [_READER, *authors])
        await _follow(services, authors)
        await put_posts(services, posts, draft)


async def _follow(services: Services, authors: Sequence[int]) -> None:
    await put_edges(services, FOLLOWS, [(_READER, author) for author in authors])


def _token(settings: Settings) -> str:
    command = [sys.executable, "-m", "kith", "token", "--user", str(_READER), "--data", settings.data]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _open(browser: Browser, link: str) -> tuple[float, float]:
    """Milliseconds, elapsed and of CPU, from following the link until posts are on the screen, in a browser without a
    cache.
    """
    context = browser.new_context(**_WINDOW)
    context.add_init_script(_SHOWN)
    page = context.new_page()
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(link, wait_until="commit")
    shown = _awaited(page, _POSTS_MARK)
    took = _metrics(tools)["TaskDuration"]
    context.close()
    return float(shown), 1_000 * took


def _awaited(page: Page, expression: str) -> Any:
    """Evaluate an expression until it is not null; returns its value."""
    deadline = time.monotonic() + 60
    while (found := page.evaluate(expression)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"still null after a minute: {expression}")
        time.sleep(_POLL_S)
    return found


def _scrolled(browser: Browser, link: str, says: str) -> list[Figure]:
    """Like posts, then scroll through all of them in large steps."""
    context = browser.new_context(**_WINDOW)
    page = context.new_page()
    page.goto(link)
    page.evaluate("location.hash = '#/latest'")
    page.locator("kith-post").first.wait_for()
    likes = [page.evaluate(_LIKE) for _ in range(_LIKES)]
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(_SCROLL, _FIRST_PAGE * 2)
    before = _heap_mb(tools)
    browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline"])
    seen = page.evaluate(_SCROLL, _POSTS)
    frames = [_SLOWER * ms for ms in _frames_ms(browser.stop_tracing())]
    after = _heap_mb(tools)
    context.close()
    over = f"{sum(frame > _FRAME_MS for frame in frames)} of {len(frames):,} over {_FRAME_MS} ms"
    slow = (
        f"{seen:,} more posts scrolled; CPU time of a frame, {_SLOWER} times; {over}, median {_at(frames, 0.5):.0f} ms"
    )
    return [
        Figure("reader-like", statistics.median(likes), "ms", "< 50", data=_spread(likes)),
        Figure("reader-scroll-frame", frames[-1], "ms", "< 50", data=slow),
        Figure("reader-memory", after - before, "MB", "0", data=f"{before:.1f} MB before, {after:.1f} MB after {says}"),
    ]


def _frames_ms(trace: bytes) -> list[float]:
    """The CPU time of each task of the page's thread that took a millisecond or more, ascending.

    At most the elapsed time of the task: on a shared processor some tasks are charged for more CPU time than that.
    """
    events = json.loads(trace)["traceEvents"]
    page = {(one["pid"], one["tid"]) for one in events if one.get("args", {}).get("name") == "CrRendererMain"}
    tasks = [one for one in events if one["name"] == "RunTask" and (one["pid"], one["tid"]) in page]
    took_us = (min(one["tdur"], one["dur"]) for one in tasks if "tdur" in one)
    return sorted(us / 1_000 for us in took_us if us >= 1_000)


def _heap_mb(tools: CDPSession) -> float:
    tools.send("HeapProfiler.collectGarbage")
    return _metrics(tools)["JSHeapUsedSize"] / 1e6


def _metrics(tools: CDPSession) -> dict[str, float]:
    return {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}


def _console(browser: Browser, port: int) -> list[Figure]:
    """Share of a core that the open overview takes in the browser."""
    context = browser.new_context(**_WINDOW)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/console")
    page.get_by_label("Server key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    page.locator("main svg").first.wait_for(timeout=60_000)
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, began = _metrics(tools)["TaskDuration"], time.perf_counter()
    page.wait_for_timeout(1_000 * _CONSOLE_S)
    took = _metrics(tools)["TaskDuration"] - before
    share = 100 * took / (time.perf_counter() - began)
    context.close()
    return [Figure("console-page", share, "% of a core", "< 1", data=f"the overview, for {_CONSOLE_S:.0f} s")]


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _spread(values: Sequence[float]) -> str:
    return f"median of {len(values)}; {min(values):.0f} to {max(values):.0f} ms"
