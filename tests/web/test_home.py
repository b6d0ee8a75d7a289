"""Home in a browser: the endless list, live updates, and a network that goes away."""

from __future__ import annotations

import re

import pytest
from pictures import photo
from playwright.sync_api import Route, expect
from scenes import PATIENCE_S, STREAM, TO_THE_END, Stage, card, loaded, until
from servers import eventually, sign

POSTS = 2_000
NODES_MAX = 200
SCROLL = """
async (posts) => {
  const seen = new Set();
  let most = 0;
  for (const until = performance.now() + 400_000; seen.size < posts && performance.now() < until; ) {
    const drawn = document.querySelectorAll("kith-list article, kith-list kith-post");
    most = Math.max(most, drawn.length);
    for (const one of drawn) seen.add(one.querySelector(".words").textContent);
    scrollBy(0, 250);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  return { seen: seen.size, most, y: scrollY };
}
"""
SHOWN = """
() => {
  const one = [...document.querySelectorAll("kith-post")].find((one) => one.getBoundingClientRect().top > 100);
  return [one.querySelector(".words").textContent, one.getBoundingClientRect().top];
}
"""
FROM_TOP_TO_END = """
async () => {
  const [seen, twice] = [new Set(), []];
  scrollTo(0, 0);
  for (let last = -1; scrollY !== last; ) {
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    last = scrollY;
    const words = [...document.querySelectorAll("kith-post .words")].map((one) => one.textContent);
    const shown = words.map((said) => Number(said.split(" ").at(-1)));
    for (const number of shown) seen.add(number);
    twice.push(...shown.filter((number, at) => at > 0 && number >= shown[at - 1]));
    scrollBy(0, 300);
  }
  return { seen: [...seen], twice };
}
"""
"""Posts are numbered, newest first. So a number that is not below the one above it is a duplicate."""
NOTE_SHIFTS = """
shifted = 0;
new PerformanceObserver((all) => {
  for (const one of all.getEntries()) {
    if (one.sources.some(({ node }) => node && !node.closest?.(".list-end"))) shifted += one.value;
  }
}).observe({ type: "layout-shift", buffered: true });
"""
"""The end of the list moves to make room for loaded posts. That does not count as a layout shift."""
NOTE_PLACES = """
(name) => {
  places = 0;
  listener = new BroadcastChannel(name);
  listener.onmessage = ({ data }) => (places += data.type === "place" && data.eventId !== null);
}
"""
SHIFTED_MAX = 0.1
"""The cumulative layout shift that Web Vitals still call good."""


def test_scrolling_through_2000_posts_keeps_at_most_200_in_the_page(stage: Stage) -> None:
    stage.posts(stage.alice, [f"post number {number}" for number in range(POSTS)])
    page = stage.open(stage.alice)
    stage.at(page, "#/latest")
    expect(page.get_by_role("link", name="Latest")).to_have_attribute("aria-current", "page")
    expect(page.locator("kith-post").first).to_be_visible()
    page.evaluate(NOTE_SHIFTS)
    found = page.evaluate(SCROLL, POSTS)
    assert found["seen"] == POSTS
    assert page.evaluate("shifted") < SHIFTED_MAX
    assert found["most"] <= NODES_MAX
    expect(page.get_by_text("That is all.")).to_be_visible()


def test_the_next_page_and_its_pictures_are_fetched_before_they_are_reached(stage: Stage) -> None:
    files = {"file": ("sea.jpg", photo(900, 600))}
    media = stage.ask("POST", "/media", user=stage.alice, files=files, data={"altText": "the sea"})
    stage.posts(stage.alice, [f"before number {number}" for number in range(20)])
    stage.ask("POST", "/posts", {"content": {"text": "at sea", "mediaIds": [media["id"]]}}, stage.alice)
    stage.posts(stage.alice, [f"after number {number}" for number in range(25)])
    held, asked, ranked = list[Route](), list[str](), list[Route]()
    context = stage.context(viewport={"width": 1000, "height": 400})
    # Never answer home, whose first page has the picture.
    context.route(re.compile(r"/feed\?.*type=ranked"), lambda route: ranked.append(route))  # noqa: PLW0108 - not a builtin
    page = stage.open(stage.alice, context)
    page.on("request", lambda request: asked.append(request.url))
    page.route(re.compile(r"/feed\?.*cursor="), lambda route: held.append(route))  # noqa: PLW0108 - not a builtin
    stage.at(page, "#/latest")
    expect(page.locator("kith-post").first).to_be_visible()
    while not held:
        page.evaluate("scrollBy(0, 100)")
        page.wait_for_timeout(50)
    left = page.evaluate("document.querySelector('kith-list').getBoundingClientRect().bottom / innerHeight")
    assert left > 2, "screens of the first page are left when the second is asked for"
    thumbnail = media["thumbnailUrl"].rpartition("/")[2]
    assert not any(url.endswith(thumbnail) for url in asked)
    page.evaluate("scrollTo(0, 0)")
    with page.expect_request(re.compile(f"/{thumbnail}$")):
        held.pop().continue_()
    expect(page.get_by_role("img", name="the sea")).to_have_count(0)


def test_back_restores_the_scroll_position(stage: Stage) -> None:
    stage.posts(stage.alice, [f"post number {number}" for number in range(120)])
    page = stage.open(stage.alice)
    stage.at(page, "#/latest")
    expect(page.locator("kith-post").first).to_be_visible()
    page.evaluate(SCROLL, 90)
    until(page, "[...document.querySelectorAll('kith-post')].some(one => one.getBoundingClientRect().top > 100)")
    text, top = page.evaluate(SHOWN)
    one = page.locator("kith-post", has=page.get_by_text(text, exact=True))
    one.locator(".time").evaluate(
        "time => time.click()"
    )  # clicked by script, because Playwright's click would scroll to it
    expect(page.get_by_role("heading", name="Comments")).to_be_visible()
    page.go_back()
    expect(one).to_be_in_viewport()
    now = one.evaluate("one => one.getBoundingClientRect().top")
    assert abs(now - top) < 50


def test_scrolling_faster_than_the_quota_shows_a_note_and_resumes_without_help(stage: Stage) -> None:
    stage.posts(stage.alice, [f"post number {number}" for number in range(60)])
    page, refused, told = stage.open(stage.alice), list[str](), list[bool]()

    def refuse(route: Route) -> None:
        if told or "type=latest" not in route.request.url or "cursor=" not in route.request.url:
            route.continue_()
            return
        refused.append(route.request.url)
        error = {"code": "RATE_LIMITED", "message": "more than 60 feed loads in 60 s", "details": {}}
        route.fulfill(status=429, headers={"Retry-After": "6"}, json={"error": error})

    page.route("**/api/v1/feed?*", refuse)
    stage.at(page, "#/latest")
    expect(page.locator("kith-post").first).to_be_visible()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.get_by_text("More comes by itself in 6 seconds.")).to_be_attached()
    told.append(True)
    until(page, TO_THE_END)
    expect(page.get_by_text("post number 0", exact=True)).to_be_visible()
    assert refused


def test_views_that_could_not_be_loaded_load_once_the_network_is_back(stage: Stage) -> None:
    stage.posts(stage.bob, [f"post number {number}" for number in range(60)])
    post = stage.post(stage.carol, "by Carol")
    board = stage.ask("POST", "/boards", {"name": "Fine things"}, stage.alice)["id"]
    page = stage.open(stage.alice)
    stage.at(page, f"#/user/{stage.bob}")
    expect(page.locator("kith-post").first).to_be_visible()
    stage.settled(page)
    page.context.set_offline(True)
    tries = page.get_by_role("button", name="Try again")
    until(page, "(scrollTo(0, document.documentElement.scrollHeight), document.querySelector('[role=alert]') !== null)")
    for hidden in (f"#/post/{post}", f"#/user/{stage.carol}", f"#/board/{board}", "#/me/edit"):
        stage.at(page, hidden)
        expect(tries).to_be_visible()
    expect(page.get_by_text("You are offline")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_label("Username")).to_have_value(f"alice_{stage.first}")
    for found in ("Fine things", "Carol", "Comments"):
        page.go_back()
        expect(page.get_by_role("heading", name=found)).to_be_visible()
    page.go_back()
    until(page, TO_THE_END)


def test_the_times_of_posts_and_comments_stay_right_while_they_are_shown(stage: Stage) -> None:
    post = stage.post(stage.alice, "how time flies")
    stage.ask("POST", f"/posts/{post}/comments", {"text": "indeed"}, stage.alice)
    page = stage.context().new_page()
    page.clock.install()
    page.goto(stage.link(stage.alice))
    expect(card(page, "how time flies").locator("time")).to_have_text("now")
    stage.at(page, f"#/post/{post}")
    comment = page.locator(".comment time")
    expect(comment).to_have_text("now")
    page.clock.fast_forward("02:00:00")
    expect(comment).to_have_text("2 hr. ago")
    page.go_back()
    expect(card(page, "how time flies").locator("time")).to_have_text("2 hr. ago")
    expect(page.get_by_role("article", name="Alice, 2 hr. ago")).to_be_visible()


def test_a_like_shows_at_once_and_is_undone_if_the_network_is_cut(stage: Stage) -> None:
    post = stage.post(stage.alice, "like me")
    stage.follow(stage.bob, stage.alice)
    page = stage.open(stage.bob)
    like = card(page, "like me").get_by_role("button", name=re.compile("^Like"))
    expect(like).to_be_visible()
    page.context.set_offline(True)
    assert like.evaluate("one => (one.click(), one.ariaPressed)") == "true", "at once"
    expect(page.get_by_text("You are offline")).to_be_visible()
    expect(like).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_text("That was taken back")).to_be_visible()
    assert stage.ask("GET", f"/posts/{post}", user=stage.alice)["engagement"]["likeCount"] == 0
    page.context.set_offline(False)
    like.click()
    expect(like).to_have_text("1")
    expect(page.get_by_text("You are offline")).to_be_hidden()
    stage.settled(page)
    page.reload()
    expect(card(page, "like me").get_by_role("button", name="Like, 1")).to_have_attribute("aria-pressed", "true")


def test_a_like_and_its_undo_that_both_fail_leave_the_post_as_it_was(stage: Stage) -> None:
    stage.post(stage.alice, "like me, like me not")
    page = stage.open(stage.alice)
    like = card(page, "like me, like me not").get_by_role("button", name=re.compile("^Like"))
    expect(like).to_be_visible()
    stage.settled(page)
    page.context.set_offline(True)
    like.click()
    like.click()
    expect(page.get_by_text("That was taken back")).to_have_count(2)
    expect(like).to_have_attribute("aria-pressed", "false")
    expect(like).to_have_text("")


def test_a_like_and_its_undo_arrive_in_order(stage: Stage) -> None:
    post = stage.post(stage.alice, "like me, like me not")
    page, sent, held = stage.open(stage.alice), list[str](), list[Route]()
    like = card(page, "like me, like me not").get_by_role("button", name=re.compile("^Like"))

    def hold(route: Route) -> None:
        sent.append(route.request.method)
        if len(sent) == 1:
            held.append(route)
        else:
            route.continue_()

    page.route(f"**/posts/{post}/like", hold)
    for _ in range(5):
        like.click()
    expect(like).to_have_attribute("aria-pressed", "true")
    eventually(lambda: page.evaluate("true") and held, PATIENCE_S)
    assert sent == ["POST"], "the later requests wait for the first"
    held[0].continue_()
    eventually(lambda: page.evaluate("true") and len(sent) == 5, PATIENCE_S)
    assert sent == ["POST", "DELETE", "POST", "DELETE", "POST"]
    stage.settled(page)
    page.reload()
    expect(card(page, "like me, like me not").get_by_role("button", name="Like, 1")).to_be_visible()
    assert stage.ask("GET", f"/posts/{post}", user=stage.alice)["engagement"]["likeCount"] == 1


def test_a_post_that_was_liked_and_shared_elsewhere_is_not_counted_twice(stage: Stage) -> None:
    post = stage.post(stage.alice, "like me once")
    page = stage.open_live(stage.alice)
    expect(card(page, "like me once")).to_be_visible()
    for path, name in (("like", "Like, 1"), ("share", "Share, 1")):
        stage.ask("POST", f"/posts/{post}/{path}", user=stage.alice)  # as on another device
        button = card(page, "like me once").get_by_role("button", name=name)
        expect(button).to_be_visible()
        button.click()
        stage.settled(page)
        expect(button).to_have_attribute("aria-pressed", "true")


def test_new_posts_and_counts_appear_live(stage: Stage) -> None:
    first = stage.post(stage.alice, "the first one")
    stage.follow(stage.bob, stage.alice)
    page = stage.open_live(stage.bob)
    expect(card(page, "the first one")).to_be_visible()
    stage.ask("POST", f"/posts/{first}/like", user=stage.carol)
    expect(card(page, "the first one").get_by_role("button", name="Like, 1")).to_be_visible()
    for number in range(3):
        stage.post(stage.alice, f"more of it {number}")
    pill = page.get_by_role("button", name="3 new posts")
    expect(pill).to_be_visible()
    pill.click()
    expect(card(page, "more of it 2")).to_be_visible()
    expect(pill).to_be_hidden()
    stage.ask("DELETE", f"/posts/{first}", user=stage.alice)
    expect(card(page, "the first one")).to_have_count(0)


def test_ten_tabs_share_one_stream_and_the_next_takes_over(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    context, opened = stage.context(), []
    context.on("request", lambda request: opened.append(request.url) if STREAM in request.url else None)
    tabs = [stage.open_live(stage.bob, context)]
    tabs += [stage.open(stage.bob, context) for _ in range(9)]
    for tab in tabs:
        loaded(tab)
    stage.post(stage.alice, "hello to all tabs")
    for tab in tabs:
        expect(tab.get_by_role("button", name="1 new post")).to_be_visible()
    assert len(opened) == 1
    tabs[0].close()
    stage.post(stage.alice, "and to those that are left")
    for tab in tabs[1:]:
        expect(tab.get_by_role("button", name="2 new posts")).to_be_visible()
    assert len(opened) == 2


@pytest.mark.parametrize("early", [True, False], ids=["opened before it began", "opened while it was silent"])
def test_a_tab_that_got_no_event_resumes_the_stream_where_it_was(stage: Stage, early: bool) -> None:
    stage.follow(stage.alice, stage.bob)
    context, held = stage.context(), list[Route]()
    context.route(f"**{STREAM}*", lambda route: held.append(route))  # noqa: PLW0108 - not a builtin
    first = stage.open(stage.alice, context)
    first.evaluate(NOTE_PLACES, f"kith-live-{stage.alice}")
    eventually(lambda: first.evaluate("true") and held, PATIENCE_S)
    second = stage.open(stage.alice, context) if early else None
    held.pop().continue_()
    until(first, "places > 0")
    if second is None:
        first.evaluate("places = 0")
        second = stage.open(stage.alice, context)
        until(first, "places > 0")
    first.close()
    eventually(lambda: second.evaluate("true") and held, PATIENCE_S)
    stage.post(stage.bob, "posted in between")
    held.pop().continue_()
    expect(second.get_by_role("button", name="1 new post")).to_be_visible()


def test_scrolling_survives_a_changing_list_and_an_expired_token(stage: Stage) -> None:
    posts = [stage.post(stage.alice, f"post number {number}") for number in range(60)]
    page, refused = stage.open(stage.alice), list[str]()

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        route.fulfill(status=401, json={"error": {"code": "UNAUTHORIZED", "message": "it has ended", "details": {}}})

    page.route(re.compile("/api/v1/feed.*cursor="), refuse)
    stage.at(page, "#/latest")
    until(page, "(scrollTo(0, document.documentElement.scrollHeight), document.querySelector('dialog[open]') !== null)")
    again = page.get_by_role("dialog", name="Sign in again")
    expect(again).to_contain_text("Your sign-in has ended. What you typed is kept.")
    assert refused
    gone = posts[20:25]
    for post in gone:
        stage.ask("DELETE", f"/posts/{post}", user=stage.alice)
    stage.post(stage.alice, "post number 60")
    page.unroute(re.compile("/api/v1/feed.*cursor="))
    again.get_by_label("Token").fill(sign(stage.alice, ttl_s=1200))
    again.get_by_role("button", name="Sign in", exact=True).click()
    expect(again).to_be_hidden()
    until(page, TO_THE_END)
    found = page.evaluate(FROM_TOP_TO_END)
    assert found["twice"] == []
    assert set(found["seen"]) >= set(range(60)) - set(range(20, 25))
