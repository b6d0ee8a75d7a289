"""Signing in and out: by link, by token, across tabs, and with nothing left for the next user."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from scenes import Stage, card
from servers import API, eventually, sign

EXPIRED = {"error": {"code": "UNAUTHORIZED", "message": "the token has ended", "details": {}}}

BUSY = """
const tell = BroadcastChannel.prototype.postMessage;
BroadcastChannel.prototype.postMessage = function (said) {
  if (said.token) window.answer = () => tell.call(this, said);
  else tell.call(this, said);
};
"""
"""Makes a tab answer other tabs only when `answer()` is called."""


def stored_by(page: Page) -> Any:
    """Everything that a tab has stored."""
    return page.evaluate(
        "[location.href, JSON.stringify({...sessionStorage}), JSON.stringify({...localStorage}), document.cookie]"
    )


def test_a_link_signs_in_and_the_token_leaves_the_address_and_the_history(stage: Stage) -> None:
    stage.post(stage.alice, "good morning")
    page = stage.open(stage.alice)
    expect(card(page, "good morning")).to_be_visible()
    assert page.url == f"{stage.server.url}/app"
    page.reload()
    expect(card(page, "good morning")).to_be_visible()
    assert "token" not in page.url


def test_a_link_of_another_user_replaces_the_session_only_after_confirmation(stage: Stage) -> None:
    context = stage.context()
    own = stage.open(stage.alice, context)

    def answer_the_dialog(page: Page, answer: str) -> None:
        ask = page.get_by_role("dialog", name="signs you in as another user")
        expect(ask).to_be_visible()
        assert str(stage.bob) in str(ask.text_content())
        ask.get_by_role("button", name=answer, exact=True).click()
        expect(ask).to_be_hidden()

    def user(page: Page) -> str:
        expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        return str(json.loads(page.evaluate("atob(sessionStorage['kith.token'].split('.')[1])"))["sub"])

    own.goto(stage.link(stage.bob))
    answer_the_dialog(own, "Cancel")
    assert (user(own), own.url) == (str(stage.alice), f"{stage.server.url}/app")
    own.evaluate("sessionStorage.setItem('draft', 'typed by Alice')")
    own.goto("about:blank")
    own.goto(stage.link(stage.bob))
    answer_the_dialog(own, "Cancel")
    assert user(own) == str(stage.alice)
    assert own.evaluate("sessionStorage.draft") == "typed by Alice"
    further = context.new_page()
    further.goto(stage.link(stage.bob))
    answer_the_dialog(further, "Cancel")
    assert user(further) == str(stage.alice)
    further.goto("about:blank")
    further.goto(stage.link(stage.bob))
    answer_the_dialog(further, f"Sign in as {stage.bob}")
    assert user(further) == str(stage.bob)
    own.goto(stage.link(stage.bob))
    answer_the_dialog(own, f"Sign in as {stage.bob}")
    eventually(lambda: user(own) == str(stage.bob))
    assert own.evaluate("sessionStorage.draft") is None, "nothing of hers is left for Bob"


def test_another_tab_is_signed_in_too_and_signing_out_ends_both_and_leaves_nothing(stage: Stage) -> None:
    stage.post(stage.alice, "only for who is signed in")
    context = stage.context()
    first = stage.open(stage.alice, context)
    second = context.new_page()
    second.goto(f"{stage.server.url}/app")
    expect(card(second, "only for who is signed in")).to_be_visible()
    stage.at(first, "#/people")
    first.get_by_role("button", name="More", exact=True).click()
    first.get_by_role("button", name="Sign out").click()
    for page in (first, second):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.get_by_text("only for who").count() == 0
        _, session, local, cookie = stored_by(page)
        assert (session, local, cookie) == ("{}", "{}", "")
    first.go_back()
    expect(first.get_by_role("heading", name="Sign in")).to_be_visible()
    assert first.get_by_text("only for who").count() == 0
    third = context.new_page()
    third.goto(f"{stage.server.url}/app")
    expect(third.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_busy_tab_that_answers_late_still_signs_in_another_tab(stage: Stage) -> None:
    context = stage.context()
    context.add_init_script(BUSY)
    stage.post(stage.alice, "better late")
    first = stage.open(stage.alice, context)
    second = context.new_page()
    second.goto(f"{stage.server.url}/app")
    expect(second.get_by_role("heading", name="Sign in")).to_be_visible()
    first.evaluate("answer()")
    expect(card(second, "better late")).to_be_visible()


def test_no_api_answer_stays_in_the_browsers_cache(stage: Stage) -> None:
    stage.post(stage.alice, "do not keep this")
    page = stage.open(stage.alice)
    expect(card(page, "do not keep this")).to_be_visible()
    cached = page.evaluate(
        "fetch('/api/v1/feed?type=ranked&limit=20', {cache: 'only-if-cached', mode: 'same-origin'})"
        ".then((answer) => answer.status, () => 0)"
    )
    assert cached in (0, 504)
    assert page.evaluate("caches.keys()") == []


def test_text_that_is_no_token_is_refused_with_a_message(stage: Stage) -> None:
    page = stage.context().new_page()
    page.goto(f"{stage.server.url}/app")
    page.get_by_label("Token").fill("hello")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("no token")
    page.get_by_label("Token").fill(sign(stage.alice))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


@pytest.mark.parametrize("fragment", ["token=broken%20link", "token=", "main"])
def test_a_broken_link_leads_home(stage: Stage, fragment: str) -> None:
    stage.post(stage.alice, "good morning")
    context = stage.context()
    stage.open(stage.alice, context)
    page = context.new_page()
    page.goto(f"{stage.server.url}/app#{fragment}")
    expect(card(page, "good morning")).to_be_visible()
    assert "token" not in page.url


def test_an_expired_token_is_requested_again_and_typed_text_stays(stage: Stage) -> None:
    stage.posts(stage.alice, [f"post number {number}" for number in range(60)])
    page = stage.open(stage.alice)
    expect(page.locator("kith-post").first).to_be_visible()
    page.get_by_role("button", name="Write").click()
    page.get_by_label("What you say").fill("a long thought")

    def refuse(route: Route) -> None:
        route.fulfill(status=401, content_type="application/json", body=json.dumps(EXPIRED))

    page.route(f"**{API}/**", refuse)
    page.get_by_role("button", name="Post", exact=True).click()
    again = page.get_by_role("dialog", name="Sign in again")
    expect(again).to_be_visible()
    page.unroute(f"**{API}/**")
    again.get_by_label("Token").fill(sign(stage.alice, ttl_s=1200))
    again.get_by_role("button", name="Sign in", exact=True).click()
    expect(again).to_be_hidden()
    expect(page.get_by_label("What you say")).to_have_value("a long thought")
    page.get_by_role("button", name="Post", exact=True).click()
    expect(card(page, "a long thought")).to_be_visible()


def test_on_a_device_whose_clock_is_a_day_off_a_new_post_shows_as_new(stage: Stage) -> None:
    context = stage.context()
    context.add_init_script("const real = Date.now; Date.now = () => real() - 86_400_000;")
    stage.post(stage.alice, "what time is it?")
    page = stage.open(stage.alice, context)
    expect(card(page, "what time is it?").locator("time")).to_have_text("now")
