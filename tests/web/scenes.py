"""A stage for tests in a browser: users who act over the API, and windows in which they are signed in."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Request, expect
from servers import API, Server, eventually, sign

NAMES = ("Alice", "Bob", "Carol", "Dana")
THREADS = 8
STREAM = "/feed/stream"
PATIENCE_S = 60
"""Seconds that a test waits for something that must come. Long, because test machines are busy."""
TO_THE_END = """
(scrollTo(0, document.documentElement.scrollHeight),
  document.querySelector("kith-list").textContent.endsWith("That is all."))
"""
expect.set_options(timeout=1_000 * PATIENCE_S)


class Stage:
    """The users and windows of one test. `first`: the first of a hundred ids that belong to the test."""

    def __init__(self, browser: Browser, server: Server, first: int) -> None:
        self.browser, self.server, self.first = browser, server, first
        self.alice, self.bob, self.carol, self.dana = range(first, first + 4)
        self._contexts: list[BrowserContext] = []
        self._faults: list[str] = []
        self._under_way: dict[Page, set[Request]] = {}
        self._http = server.client()
        for number, name in enumerate(NAMES):
            self.ask("PUT", f"/users/{first + number}", {"displayName": name, "username": f"{name.lower()}_{first}"})

    def ask(self, method: str, path: str, body: Any = None, user: int | None = None, **options: Any) -> Any:
        """The API's answer to a request of a user. Fails if the API refuses."""
        headers = {} if user is None else {"X-Kith-User": str(user)}
        answer = self._http.request(method, API + path, json=body, headers=headers, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def follow(self, user: int, *others: int) -> None:
        """Let `user` follow the others."""
        for other in others:
            self.ask("POST", f"/users/{other}/follow", user=user)

    def post(self, user: int, text: str, **more: Any) -> str:
        """Publish a post; return its id."""
        return str(self.ask("POST", "/posts", {"content": {"text": text}, **more}, user)["id"])

    def posts(self, user: int, texts: list[str]) -> None:
        """Publish many posts concurrently."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda text: self.post(user, text), texts))

    def context(self, **options: Any) -> BrowserContext:
        """A separate browser profile. Its pages may not throw, break their content policy, or call another server."""
        context = self.browser.new_context(**{"viewport": {"width": 1000, "height": 900}, **options})
        context.set_default_timeout(1_000 * PATIENCE_S)
        context.on("page", self._watch)
        self._contexts.append(context)
        return context

    def link(self, user: int, *, ttl_s: int = 3600) -> str:
        """The URL that signs a user in."""
        return f"{self.server.url}/app#token={sign(user, ttl_s=ttl_s)}"

    def open(self, user: int, context: BrowserContext | None = None, **options: Any) -> Page:
        """A window with a signed-in user, at home."""
        page = (context or self.context(**options)).new_page()
        page.goto(self.link(user))
        expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        return page

    def open_live(self, user: int, context: BrowserContext | None = None) -> Page:
        """Like `open`, and wait until the window's live stream is open."""
        page = (context or self.context()).new_page()
        with page.expect_response(lambda answer: STREAM in answer.url):
            page.goto(self.link(user))
        return page

    def at(self, page: Page, hash_: str) -> None:
        """Open a view."""
        page.evaluate("hash => { location.hash = hash; }", hash_)

    def settled(self, page: Page) -> None:
        """Wait until the server has answered all requests of the page.

        Changes shown before that may be undone, and are lost if the page is reloaded.
        """
        eventually(lambda: page.evaluate("true") and not self._under_way[page], PATIENCE_S)

    def close(self) -> None:
        """End the test. Fails if a page did something forbidden."""
        for context in self._contexts:
            context.close()
        self._http.close()
        assert not self._faults

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self._faults.append(f"thrown: {error}"))
        page.on("console", lambda said: self._faults.append(said.text) if "Content Security" in said.text else None)
        page.on("request", self._check)
        asked = self._under_way.setdefault(page, set())
        page.on("request", lambda request: None if STREAM in request.url else asked.add(request))

        def answered(request: Request) -> None:
            asked.discard(request)

        page.on("requestfinished", answered)
        page.on("requestfailed", answered)

    def _check(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme in ("http", "https", "ws", "wss") and f"{asked.scheme}://{asked.netloc}" != self.server.url:
            self._faults.append(f"asked elsewhere: {request.url}")
        token = request.headers.get("authorization", "Bearer token=").removeprefix("Bearer ")
        if token in request.url:
            self._faults.append(f"a token in an address: {request.url}")


def until(page: Page, condition: str) -> None:
    """Wait until a JavaScript expression is true.

    Playwright's `wait_for_function` evaluates text inside the page, which the content policy forbids.
    """
    eventually(lambda: page.evaluate(condition), PATIENCE_S)


def loaded(page: Page) -> None:
    """Wait until the lists of a view have loaded their first items."""
    expect(page.locator(".placeholder")).to_have_count(0)
    until(page, "![...document.querySelectorAll('kith-list')].some(one => one.ariaBusy === 'true')")


def card(page: Page, text: str) -> Any:
    """The post that contains this text."""
    return page.locator("kith-post", has_text=text).first


def keep(page: Page, name: str) -> None:
    """Save a picture of the view, if SCREENSHOTS names a folder."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{re.sub('[^a-z-]', '', name.lower())}.png")
