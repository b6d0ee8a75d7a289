"""The console in a browser: under load, with a killed worker, and with dead events."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from calls import add_edges, ok
from coroutines import run_coroutine
from playwright.sync_api import Browser, Page, Route, expect
from scenes import keep
from servers import API, KEY, Server, eventually, serving, sign

from kith.core.events import NOWHERE
from kith.log.store import Failure
from kith.run.config import Settings
from kith.run.opening import wiring

VIEWS = ("overview", "operations", "log", "lookup", "tasks", "settings")
REFUSED = "Failed to load resource"
"""The beginning of the browser's log message for every answer with status 400 or above."""
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two API processes, so that either may answer a poll of the console."""
    quotas = {"KITH_RATE_POSTS_PER_HOUR": "10"}
    with serving(tmp_path_factory.mktemp("console"), KITH_WORKERS="2", **quotas) as running:
        yield running


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """The console, signed in. A test fails if the page logged an error."""
    context = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900})
    window, wrong = context.new_page(), list[str]()
    window.on("pageerror", lambda error: wrong.append(str(error)))
    window.on(
        "console", lambda said: wrong.append(said.text) if said.type == "error" and REFUSED not in said.text else None
    )
    window.goto("/console")
    sign_in(window, KEY)
    yield window
    context.close()
    assert not wrong


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Server key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name).click()
    expect(page).to_have_title(f"{name} · Kith console")


@contextmanager
def load(server: Server) -> Iterator[None]:
    """Keep a user sending requests."""
    stopping = threading.Event()

    def ask() -> None:
        with server.client(acting=1) as http:
            while not stopping.is_set():
                http.get(f"{API}/feed")
                http.post(f"{API}/users/2/follow")

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        stopping.set()
        asking.join()


def settings_of(server: Server) -> Settings:
    return Settings(data=str(server.data), durability="relaxed")


def in_another_thread(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, run in another thread, because the browser's loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run_coroutine, work).result()


def give_up(server: Server, *destinations: int) -> None:
    """Make the events of edges to these destinations dead for fan-out, with a hostile error text."""

    async def keep() -> None:
        async with wiring.open_stores(settings_of(server), "chore", create=False) as stores:
            events = (await stores.log.read(NOWHERE, 10_000)).events
            gone = {
                event.log_position: Failure(
                    "fanout", event, 8, f"ValueError: {HOSTILE}", 1_700_000_000_000, 0, dead=True
                )
                for event in events
                if event.destination in destinations
            }
            assert len(gone) == len(destinations)
            await stores.log.save("fanout", None, gone)

    in_another_thread(keep())


def failures(server: Server) -> list[int]:
    """The destinations of all events that fan-out failed on."""

    async def kept() -> list[int]:
        async with wiring.open_stores(settings_of(server), "chore", create=False) as stores:
            return [failure.event.destination for failure in await stores.log.failures("fanout")]

    return list(in_another_thread(kept()))


def test_a_killed_worker_is_shown_during_a_load_and_the_curves_continue(server: Server, page: Page) -> None:
    with load(server):
        requests = page.get_by_role("img", name=re.compile("^Requests: now [0-9.,]+.s"))
        expect(requests).to_be_visible()
        with server.client() as http:
            told = ok(http.get("/console/numbers"))
        (fanout,) = [one["pid"] for one in told["processes"] if one["kind"] == "fanout" and one["running"]]
        os.kill(fanout, signal.SIGKILL)
        expect(page.get_by_text(f"Process {fanout} (fanout) ended")).to_be_visible()
        view(page, "Operations")
        page.get_by_role("button", name="feed", exact=True).click()
        expect(page.get_by_role("img", name=re.compile("^Calls: now [0-9.,]+.s"))).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^Time to answer: now p50 [0-9.,]+ ms"))).to_be_visible()


def test_a_dead_event_is_replayed_and_another_is_dropped_after_confirmation(server: Server, page: Page) -> None:
    with server.client() as http:
        add_edges(http, "follows", (7, 70), (7, 71))
    give_up(server, 70, 71)
    view(page, "Log")
    first, second = (page.get_by_role("row", name=re.compile(f"follows 7 → {one} ")) for one in (70, 71))
    expect(first).to_contain_text(HOSTILE)
    first.get_by_role("button", name="Replay").click()
    expect(first).to_have_count(0)
    eventually(lambda: failures(server) == [71], 60)
    second.get_by_role("button", name="Drop").click()
    expect(page.get_by_role("button", name="Do it")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(second).to_have_count(1)
    second.get_by_role("button", name="Drop").click()
    page.get_by_label("Type drop").fill("drop")
    page.get_by_role("button", name="Do it").click()
    expect(second).to_have_count(0)
    assert failures(server) == []


def test_the_focus_stays_with_its_event_when_the_log_is_redrawn(server: Server, page: Page) -> None:
    """The focus moved to the first button of the same name, so Enter would have dropped another event."""
    with server.client() as http:
        add_edges(http, "follows", (7, 80), (7, 81))
    give_up(server, 80, 81)
    view(page, "Log")
    for row in page.get_by_role("row", name=re.compile("follows 7 → 8[01] ")).all():
        row.get_by_role("button", name="Drop").focus()
        heading = page.locator("h1").element_handle()
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # as if the tab was shown again
        heading.wait_for_element_state("hidden")
        expect(row.get_by_role("button", name="Drop")).to_be_focused()
    for row in page.get_by_role("row", name=re.compile("follows 7 → 8[01] ")).all()[::-1]:
        row.get_by_role("button", name="Replay").click()
        expect(row).to_have_count(0)
    eventually(lambda: failures(server) == [], 60)


def test_the_focus_stays_on_the_link_of_a_view(page: Page) -> None:
    link = page.get_by_role("navigation").get_by_role("link", name="Settings")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    expect(link).to_be_focused()


def test_a_figure_just_below_100_keeps_its_digits(server: Server, page: Page) -> None:
    def change(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        told["operations"] = [{"name": "slow", "count": 1, "failed": 0, "p50Ms": 99.94, "p99Ms": 99.97}]
        route.fulfill(response=answer, json=told)

    page.route("**/console/numbers?*", change)
    view(page, "Operations")
    expect(page.get_by_role("row", name="slow 1 0 99.9 ms 100 ms")).to_be_visible()


def test_a_post_is_looked_up_as_stored_and_as_others_see_it_and_labelled(server: Server, page: Page) -> None:
    with server.client(acting=5) as http:
        post = ok(http.post(f"{API}/posts", json={"content": {"text": HOSTILE}}), 201)["id"]
    view(page, "Look up")
    page.get_by_label(re.compile("^Id of a user, post")).fill(post)
    page.keyboard.press("Enter")
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    labels = page.locator("section", has=page.get_by_role("heading", name="Labels", exact=True))
    labels.get_by_label("Id").fill(post)
    page.keyboard.press("Enter")
    page.get_by_label("hide", exact=True).check()
    page.get_by_label("Reason").fill("a test")
    page.get_by_role("button", name="Set").click()
    page.get_by_label(f"Type {post}").fill(post)
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("^Set 20"))).to_be_visible()
    seen = page.locator("section", has=page.get_by_role("heading", name="As somebody sees it"))
    seen.get_by_label("Id", exact=True).fill(post)
    for viewer, words in (("6", "no such post"), ("5", HOSTILE)):
        seen.get_by_label(re.compile("^Seen by")).fill(viewer)
        seen.get_by_role("button").click()
        expect(page.locator("main > div")).to_contain_text(re.compile(re.escape(words), re.IGNORECASE))


def test_the_delivery_of_a_post_is_shown(server: Server, page: Page) -> None:
    with server.client(acting=5) as http:
        post = ok(http.post(f"{API}/posts", json={"content": {"text": "hello"}, "mentions": ["6"]}), 201)["id"]
    view(page, "Look up")
    asked = page.locator("section", has=page.get_by_role("heading", name="A post on its way", exact=True))
    asked.get_by_label("Id of a post").fill(post)
    asked.get_by_role("button", name="Follow it").click()
    expect(page.get_by_text(re.compile("^Delivery to timelines: "))).to_be_visible()
    expect(page.get_by_role("region", name="Mentions").get_by_role("row", name=re.compile("^6 "))).to_be_visible()


def test_users_at_the_limit_of_a_quota_are_shown(server: Server, page: Page) -> None:
    with server.client(sign(901)) as http:
        for number in range(10):
            ok(http.post(f"{API}/posts", json={"content": {"text": str(number)}}), 201)
    expect(page.get_by_text("1 user is at the limit of a quota: see below.")).to_be_visible()
    expect(page.get_by_role("region", name="Quotas").get_by_role("row", name="posts 901 10 10 3,600 s")).to_be_visible()


def test_an_audit_is_run_and_its_report_shown(server: Server, page: Page) -> None:
    with server.client() as http:
        add_edges(http, "follows", (8, 80))
    view(page, "Tasks")
    page.get_by_role("button", name="Run an audit").click()
    expect(page.get_by_role("status")).to_contain_text("done")
    expect(page.get_by_role("row", name=re.compile("^follows "))).to_contain_text("agrees")


def test_the_key_is_requested_kept_in_the_tab_and_forgotten(server: Server, browser: Browser) -> None:
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    page.goto("/console#settings")
    for wrong in ("not a key of this server", sign(1)):
        sign_in(page, wrong)
        expect(page.get_by_role("alert")).to_contain_text("no server key")
    sign_in(page, KEY)
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    assert KEY not in page.url
    assert page.evaluate("localStorage.length") == 0
    assert context.cookies() == []
    other = context.new_page()
    other.goto("/console")
    expect(other.get_by_label("Server key")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Server key")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_passes_axe(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    for name in ("Overview", "Operations", "Log", "Look up", "Tasks", "Settings"):
        view(page, name)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        found = Axe().run(page)
        if found.violations_count:  # retry, as the view may have been redrawn meanwhile
            found = Axe().run(page)
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"
        keep(page, f"console-{name}-{scheme}")


@pytest.mark.parametrize("width", [1280, 360])
def test_no_view_is_wider_than_the_window_and_each_has_one_heading(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for name in VIEWS:
        page.evaluate("name => { location.hash = name }", name)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.locator("nav [aria-current=page]")).to_have_attribute("href", f"#{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_an_unreachable_server_is_reported_and_found_again(tmp_path: Path, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    with serving(tmp_path) as server:
        page.goto(f"{server.url}/console")
        sign_in(page, KEY)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        port = server.port
    expect(page.get_by_role("alert")).to_contain_text("No server answers here")
    with serving(tmp_path, port=port):
        expect(page.get_by_role("alert")).to_be_hidden()
    context.close()
