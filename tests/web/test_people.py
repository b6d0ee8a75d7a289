"""Follows, requests, blocks, the inbox and boards in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect
from scenes import PATIENCE_S, TO_THE_END, Stage, card, loaded, until
from servers import eventually


def test_after_a_block_neither_user_sees_the_other(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    stage.follow(stage.alice, stage.bob)
    stage.post(stage.alice, "by Alice")
    stage.post(stage.bob, "by Bob")
    alice, bob = stage.open(stage.alice), stage.open(stage.bob)
    expect(card(bob, "by Alice")).to_be_visible()
    card(alice, "by Bob").get_by_role("button", name="More about").click()
    alice.get_by_role("button", name="Block Bob").click()
    alice.get_by_role("dialog").get_by_role("button", name="Block").click()
    expect(card(alice, "by Bob")).to_have_count(0)
    expect(alice.get_by_text("Bob is blocked")).to_be_visible()
    stage.settled(alice)
    stage.at(bob, f"#/user/{stage.alice}")
    expect(bob.get_by_text("This account is not available to you.")).to_be_visible()
    stage.at(alice, "#/blocked")
    alice.get_by_role("button", name="Unblock: Bob").click()
    stage.settled(alice)
    stage.at(alice, f"#/user/{stage.bob}")
    expect(alice.get_by_role("button", name="Follow: Bob")).to_be_visible()


def test_a_private_account_gets_a_follow_request_and_accepts(stage: Stage) -> None:
    stage.ask("PATCH", f"/users/{stage.alice}", {"private": True})
    stage.post(stage.alice, "for my followers")
    bob, alice = stage.open(stage.bob), stage.open(stage.alice)
    stage.at(bob, f"#/user/{stage.alice}")
    bob.get_by_role("button", name="Follow: Alice").click()
    expect(bob.get_by_role("button", name="Requested: Alice")).to_be_visible()
    stage.settled(bob)
    stage.at(alice, "#/requests")
    alice.get_by_role("button", name="Accept: Bob").click()
    expect(alice.get_by_role("button", name="Accept: Bob")).to_be_hidden()
    stage.settled(alice)
    bob.reload()
    expect(bob.get_by_role("button", name="Following: Alice")).to_be_visible()
    expect(card(bob, "for my followers")).to_be_visible()
    stage.at(bob, f"#/user/{stage.alice}/followers")
    expect(bob.get_by_role("article", name="Bob")).to_be_visible()


def test_a_follow_that_is_taken_back_before_its_answer_shows_as_taken_back(stage: Stage) -> None:
    page, held = stage.open(stage.alice), list[Route]()
    page.route("**/follow", lambda route: held.append(route))  # noqa: PLW0108 - not a builtin
    stage.at(page, f"#/user/{stage.bob}")
    follow = page.get_by_role("button", name="Follow: Bob")
    follow.click()
    page.get_by_role("button", name="Following: Bob").click()
    expect(follow).to_be_visible()
    for sent in (1, 2):
        eventually(lambda sent=sent: page.evaluate("true") and len(held) == sent, PATIENCE_S)
        held[-1].continue_()
    stage.settled(page)
    expect(follow).to_be_visible()
    (how,) = stage.ask("POST", "/relationships", {"targets": [str(stage.bob)]}, stage.alice)["relationships"]
    assert not how["following"]


def test_suggested_users_are_followed_or_dismissed(stage: Stage) -> None:
    stage.follow(stage.alice, stage.bob)
    stage.follow(stage.bob, stage.carol, stage.dana)
    page = stage.open(stage.alice)
    page.get_by_role("link", name="People", exact=True).click()
    page.get_by_role("button", name="Do not suggest Dana").click()
    page.get_by_role("button", name="Follow: Carol").click()
    expect(page.get_by_role("button", name="Following: Carol")).to_be_visible()
    stage.settled(page)
    page.reload()
    expect(page.get_by_text("Nobody just now")).to_be_visible()


def test_a_post_can_be_explained_and_hidden(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    stage.post(stage.alice, "once more")
    page = stage.open(stage.bob)
    card(page, "once more").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Why am I seeing this?").click()
    why = page.get_by_role("dialog", name="Why am I seeing this?")
    expect(why.get_by_role("row", name=re.compile("It is new"))).to_be_visible()
    widths = why.locator(".bar").evaluate_all("bars => bars.map(bar => bar.offsetWidth)")
    assert len(widths) == 4
    assert max(widths) > 100
    page.keyboard.press("Escape")
    card(page, "once more").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Hide this post").click()
    expect(card(page, "once more")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(card(page, "once more")).to_be_visible()


def test_a_post_is_saved_and_shared_and_its_author_shown_less_and_muted(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    stage.post(stage.alice, "to be kept")
    page = stage.open(stage.bob)
    card(page, "to be kept").get_by_role("button", name="Save").click()
    card(page, "to be kept").get_by_role("button", name="Share").click()
    expect(card(page, "to be kept").get_by_role("button", name="Save")).to_have_attribute("aria-pressed", "true")
    expect(card(page, "to be kept").get_by_role("button", name="Share, 1")).to_be_visible()
    stage.settled(page)
    stage.at(page, "#/saved")
    expect(card(page, "to be kept")).to_be_visible()
    stage.at(page, f"#/user/{stage.alice}/followers")
    expect(page.get_by_role("link", name="Bob").first).to_be_visible()
    stage.at(page, f"#/user/{stage.alice}")
    for choice, said in (("See fewer posts", "You will see fewer posts of Alice."), ("Mute", "Alice is muted")):
        page.get_by_role("button", name="More about Alice", exact=True).click()
        page.get_by_role("button", name=choice, exact=True).click()
        expect(page.get_by_text(said)).to_be_visible()
    stage.settled(page)
    (how,) = stage.ask("POST", "/relationships", {"targets": [str(stage.alice)]}, stage.bob)["relationships"]
    assert how["muting"]


@pytest.mark.parametrize("way", ["Mute", "Block"])
def test_the_posts_of_an_account_that_is_not_muted_or_blocked_any_more_return(stage: Stage, way: str) -> None:
    stage.post(stage.alice, "here again")
    page = stage.open(stage.bob)
    stage.at(page, f"#/user/{stage.alice}")
    more = page.get_by_role("button", name="More about Alice", exact=True)
    expect(card(page, "here again")).to_be_visible()
    more.click()
    page.get_by_role("button", name=way, exact=True).click()
    if way == "Block":
        page.get_by_role("dialog").get_by_role("button", name="Block").click()
        page.get_by_role("button", name="Unblock").click()
        expect(page.get_by_text("Alice is no longer blocked.")).to_be_visible()
    else:
        expect(card(page, "here again")).to_have_count(0)
        stage.settled(page)
        more.click()
        page.get_by_role("button", name="Unmute", exact=True).click()
    expect(card(page, "here again")).to_be_visible()


def test_the_inbox_counts_live(stage: Stage) -> None:
    post = stage.post(stage.alice, "a post to like")
    page = stage.open_live(stage.alice)
    expect(card(page, "a post to like")).to_be_visible()
    stage.ask("POST", f"/posts/{post}/like", user=stage.bob)
    badge = page.get_by_role("img", name="1 unread")
    expect(badge).to_be_visible()
    page.get_by_role("link", name=re.compile("^Inbox")).click()
    row = page.get_by_role("article", name="Bob liked your post", exact=True)
    expect(row).to_contain_text("Bob liked your post")
    page.get_by_role("button", name="Mark all as read").click()
    expect(badge).to_be_hidden()


def test_marking_all_as_read_marks_those_below_the_window_too(stage: Stage) -> None:
    for number in range(25):
        stage.ask("POST", f"/posts/{stage.post(stage.alice, f'post number {number}')}/like", user=stage.bob)
    eventually(lambda: stage.ask("GET", "/notifications/unread", user=stage.alice)["count"] == 25, PATIENCE_S)
    page = stage.open(stage.alice, viewport={"width": 1000, "height": 300})
    stage.at(page, "#/inbox")
    loaded(page)
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_role("img", name="unread")).to_be_hidden()
    last = page.get_by_role("article").filter(has_text="post number 0")
    until(page, TO_THE_END)
    expect(last).to_be_visible()
    assert page.locator(".notification.unread").count() == 0


def test_a_post_is_pinned_to_a_board_that_others_follow(stage: Stage) -> None:
    stage.post(stage.alice, "worth keeping")
    page = stage.open(stage.alice)
    card(page, "worth keeping").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Pin to a board").click()
    page.get_by_role("dialog", name="Pin to a board").get_by_role("button", name="New board").click()
    page.get_by_label("Name", exact=True).fill("Fine things")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("Pinned to Fine things.")).to_be_visible()
    reader = stage.open(stage.bob)
    stage.at(reader, f"#/user/{stage.alice}/boards")
    reader.get_by_role("link", name="Fine things").click()
    expect(card(reader, "worth keeping")).to_be_visible()
    follow = reader.get_by_role("button", name="Follow", exact=True)
    follow.click()
    expect(reader.get_by_role("button", name="Following", exact=True)).to_be_visible()


def test_a_collaborator_pins_a_post_to_the_board_of_another_user(stage: Stage) -> None:
    board = stage.ask("POST", "/boards", {"name": "Ours", "secret": True}, stage.bob)["id"]
    stage.ask("POST", f"/boards/{board}/collaborators/{stage.alice}", user=stage.bob)
    stage.ask("POST", "/boards", {"name": "Mine"}, stage.alice)
    post = stage.post(stage.alice, "worth keeping")
    page = stage.open(stage.alice)
    card(page, "worth keeping").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Pin to a board").click()
    choices = page.get_by_role("dialog", name="Pin to a board")
    expect(choices.get_by_role("button", name="Mine")).to_be_visible()
    choices.get_by_role("button", name="Ours").click()
    expect(page.get_by_text("Pinned to Ours.")).to_be_visible()
    assert [one["id"] for one in stage.ask("GET", f"/boards/{board}/pins", user=stage.bob)["items"]] == [post]


def test_an_old_post_at_home_says_that_a_board_brought_it(stage: Stage) -> None:
    post = stage.post(stage.carol, "an old post")
    board = stage.ask("POST", "/boards", {"name": "Fine things"}, stage.bob)["id"]
    stage.ask("POST", f"/boards/{board}/follow", user=stage.alice)
    stage.ask("POST", f"/boards/{board}/pins", {"post": post}, stage.bob)
    expect(card(stage.open(stage.alice), "an old post")).to_contain_text("On a board you follow")


def test_an_invitation_leads_to_a_secret_board_from_which_a_collaborator_unpins(stage: Stage) -> None:
    board = stage.ask("POST", "/boards", {"name": "Hush", "secret": True}, stage.bob)["id"]
    stage.ask("POST", f"/boards/{board}/collaborators/{stage.alice}", user=stage.bob)
    stage.ask("POST", f"/boards/{board}/pins", {"post": stage.post(stage.bob, "between us")}, stage.bob)
    eventually(lambda: stage.ask("GET", "/notifications", user=stage.alice)["items"], PATIENCE_S)
    page = stage.open(stage.alice)
    stage.at(page, "#/inbox")
    page.get_by_role("article", name="invited you to a board").get_by_role("link", name="Open").click()
    expect(page.get_by_role("heading", name="Hush")).to_be_visible()
    expect(page.get_by_role("button", name="Follow", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Unpin").click()
    stage.settled(page)
    assert stage.ask("GET", f"/boards/{board}/pins", user=stage.bob)["items"] == []


def test_a_user_who_may_not_pin_is_not_offered_to_unpin(stage: Stage) -> None:
    board = stage.ask("POST", "/boards", {"name": "Fine things"}, stage.bob)["id"]
    stage.ask("POST", f"/boards/{board}/collaborators/{stage.alice}", user=stage.bob)
    stage.ask("POST", f"/boards/{board}/pins", {"post": stage.post(stage.bob, "worth keeping")}, stage.bob)
    for user, may in ((stage.alice, True), (stage.bob, True), (stage.carol, False)):
        page = stage.open(user)
        stage.at(page, f"#/board/{board}")
        expect(card(page, "worth keeping")).to_be_visible()
        expect(page.get_by_role("button", name="Follow", exact=True)).to_have_count(int(user != stage.bob))
        expect(page.get_by_role("button", name="Unpin")).to_have_count(int(may))
