"""Writing in a browser: posts with pictures, edits, comments, stories, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import photo
from playwright.sync_api import Page, Route, expect
from scenes import PATIENCE_S, Stage, card
from servers import eventually


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "fox.jpg"
    path.write_bytes(photo(640, 480))
    return path


def write(page: Page, text: str) -> None:
    """Open the form for a post, and fill it in."""
    page.get_by_role("button", name="Write").click()
    page.get_by_label("What you say").fill(text)


def send(page: Page) -> None:
    page.get_by_role("button", name="Post", exact=True).click()


def test_a_picture_posted_in_one_window_appears_in_another(stage: Stage, picture: Path) -> None:
    stage.follow(stage.bob, stage.alice)
    reader, author = stage.open_live(stage.bob), stage.open(stage.alice)
    expect(reader.get_by_text("Nothing at home yet")).to_be_visible()
    write(author, "seen today")
    author.locator("input[type=file]").set_input_files(picture)
    author.get_by_label("Description").fill("a fox in snow")
    expect(author.get_by_text("Stored")).to_be_visible()
    send(author)
    expect(card(author, "seen today").get_by_role("img", name="a fox in snow")).to_be_visible()
    pill = reader.get_by_role("button", name="1 new post")
    expect(pill).to_be_visible()
    pill.click()
    shown = card(reader, "seen today").get_by_role("img", name="a fox in snow")
    expect(shown).to_be_visible()
    assert shown.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0


def test_a_refused_picture_does_not_lose_typed_text(stage: Stage, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jpg"
    wrong.write_bytes(b"this is no picture" * 100)
    page = stage.open(stage.alice)
    write(page, "look at this")
    page.locator("input[type=file]").set_input_files(wrong)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    send(page)
    expect(page.get_by_role("alert")).to_contain_text("Not sent")
    page.keyboard.press("Escape")
    page.reload()
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_label("What you say")).to_have_value("look at this")
    send(page)
    expect(card(page, "look at this")).to_be_visible()


@pytest.mark.parametrize("way", ["opened again", "reloaded"])
def test_a_post_sent_again_before_its_answer_came_is_posted_once(stage: Stage, way: str) -> None:
    page, unanswered = stage.open(stage.alice), list[Route]()

    def hold(route: Route) -> None:
        if unanswered:
            route.continue_()
            return
        route.fetch()
        unanswered.append(route)

    page.route("**/api/v1/posts", hold)
    write(page, "only once")
    send(page)
    eventually(lambda: page.evaluate("true") and unanswered, PATIENCE_S)
    if way == "reloaded":
        page.reload()
    else:
        page.keyboard.press("Escape")
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_label("What you say")).to_have_value("only once")
    send(page)
    expect(page.get_by_text("Posted.")).to_be_visible()

    def posts() -> list[str]:
        found = stage.ask("GET", f"/users/{stage.alice}/posts", user=stage.alice)["items"]
        return [one["content"]["text"] for one in found]

    assert posts() == ["only once"]
    write(page, "only once")
    send(page)
    eventually(lambda: page.evaluate("true") and posts() == ["only once"] * 2, PATIENCE_S)


def test_a_post_that_is_written_while_another_one_is_sent_keeps_its_draft_and_key(stage: Stage) -> None:
    page, held = stage.open(stage.alice), list[Route]()
    page.route("**/api/v1/posts", lambda route: held.append(route))  # noqa: PLW0108 - not a builtin

    def sent(number: int) -> Route:
        send(page)
        eventually(lambda: page.evaluate("true") and len(held) == number, PATIENCE_S)
        return held[-1]

    write(page, "one")
    first = sent(1)
    page.keyboard.press("Escape")
    write(page, "two")
    second = sent(2)
    first.continue_()
    expect(page.get_by_text("Posted.")).to_be_visible()
    second.fulfill(status=403, json={"error": {"code": "FORBIDDEN", "message": "not today", "details": {}}})
    expect(page.get_by_text("Not sent. Not today.")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_label("What you say")).to_have_value("two")
    assert sent(3).request.headers["idempotency-key"] == second.request.headers["idempotency-key"]
    held[-1].abort()


def test_a_failure_is_reported_after_its_form_was_closed(stage: Stage) -> None:
    page, held = stage.open(stage.alice), list[Route]()
    page.route("**/api/v1/posts", lambda route: held.append(route))  # noqa: PLW0108 - not a builtin
    write(page, "too hasty")
    send(page)
    eventually(lambda: page.evaluate("true") and held, PATIENCE_S)
    page.keyboard.press("Escape")
    held[0].fulfill(status=403, json={"error": {"code": "FORBIDDEN", "message": "not today", "details": {}}})
    expect(page.get_by_text("Not sent. Not today.")).to_be_visible()


def test_a_post_whose_picture_is_taken_out_while_it_is_sent_says_that_it_is_not_sent(
    stage: Stage, picture: Path
) -> None:
    page, held = stage.open(stage.alice), list[Route]()
    page.route("**/api/v1/media", lambda route: held.append(route))  # noqa: PLW0108 - not a builtin
    write(page, "no picture after all")
    page.locator("input[type=file]").set_input_files(picture)
    eventually(lambda: page.evaluate("true") and held, PATIENCE_S)
    send(page)
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("Not sent. A picture was taken out meanwhile.")).to_be_visible()
    send(page)
    expect(page.get_by_text("Posted.")).to_be_visible()


def test_a_picture_deleted_before_its_post_is_sent_is_reported_and_can_be_removed(stage: Stage, picture: Path) -> None:
    page = stage.open(stage.alice)
    write(page, "a fox, or not")
    with page.expect_response("**/api/v1/media") as stored:
        page.locator("input[type=file]").set_input_files(picture)
    expect(page.get_by_text("Stored")).to_be_visible()
    stage.ask("DELETE", f"/media/{stored.value.json()['id']}", user=stage.alice)
    send(page)
    expect(page.get_by_role("alert")).to_contain_text("Not sent. A picture is no longer there: take it out")
    expect(page.get_by_label("What you say")).to_have_value("a fox, or not")
    page.get_by_role("button", name="Take out").click()
    send(page)
    expect(card(page, "a fox, or not")).to_be_visible()


@pytest.mark.parametrize("way", ["taken out", "form closed"])
def test_a_picture_that_is_not_posted_is_deleted_from_the_server(stage: Stage, picture: Path, way: str) -> None:
    page = stage.open(stage.alice)
    write(page, "rather not")
    with page.expect_response("**/api/v1/media") as stored:
        page.locator("input[type=file]").set_input_files(picture)
    expect(page.get_by_text("Stored")).to_be_visible()
    media = f"/media/{stored.value.json()['id']}"
    with page.expect_response(f"**/api/v1{media}") as deleted:
        if way == "taken out":
            page.get_by_role("button", name="Take out").click()
        else:
            page.keyboard.press("Escape")
    assert (deleted.value.request.method, deleted.value.ok) == ("DELETE", True)


def test_a_picture_of_a_post_stays_when_its_form_closes(stage: Stage, picture: Path) -> None:
    page = stage.open(stage.alice)
    deletions = []
    page.on("request", lambda request: deletions.append(request.url) if request.method == "DELETE" else None)
    write(page, "a fox")
    page.locator("input[type=file]").set_input_files(picture)
    expect(page.get_by_text("Stored")).to_be_visible()
    send(page)
    expect(card(page, "a fox").get_by_role("button", name="Picture")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not deletions


def test_a_post_that_the_reader_may_not_see_any_more_leaves_the_screen_when_it_is_opened(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    post = stage.post(stage.alice, "only for a moment")
    context = stage.context()
    context.route("**/feed/stream*", lambda route: route.abort())  # else the stream says it first
    page = stage.open(stage.bob, context)
    expect(card(page, "only for a moment")).to_be_visible()
    stage.ask("PATCH", f"/posts/{post}", {"visibility": "private"}, user=stage.alice)
    card(page, "only for a moment").get_by_role("link", name="Comments, 0").click()
    expect(page.get_by_text("This post is no longer here.")).to_be_visible()


def test_a_post_is_visible_to_the_audience_that_its_author_names(stage: Stage) -> None:
    for user in (stage.bob, stage.carol):
        stage.follow(user, stage.alice)
    page = stage.open(stage.alice)
    write(page, "between us")
    page.get_by_label("Who sees it").select_option("custom")
    page.get_by_label("Who may see it").fill(f"@bob_{stage.first}")
    send(page)
    expect(card(page, "between us")).to_be_visible()
    expect(card(stage.open(stage.bob), "between us")).to_be_visible()
    carol = stage.open(stage.carol)
    expect(carol.get_by_text("Nothing at home yet")).to_be_visible()
    card(page, "between us").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Edit").click()
    names = page.get_by_label("Who may see it")
    expect(names).to_have_value(f"bob_{stage.first}")
    names.fill(f"bob_{stage.first}, @carol_{stage.first}")
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    carol.reload()
    expect(card(carol, "between us")).to_be_visible()


def test_an_author_edits_and_deletes_a_post(stage: Stage) -> None:
    stage.post(stage.alice, "teh sea")
    page = stage.open(stage.alice)
    card(page, "teh sea").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("What you say").fill("the sea")
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(card(page, "the sea")).to_contain_text("Edited")
    card(page, "the sea").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This post is no longer here.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Nothing at home yet")).to_be_visible()


def test_comments_and_replies_are_shown_and_a_refused_one_is_reported(stage: Stage) -> None:
    post = stage.post(stage.alice, "what do you think?")
    stage.follow(stage.bob, stage.alice)
    page = stage.open(stage.bob)
    card(page, "what do you think?").get_by_role("link", name="Comments, 0").click()
    page.get_by_label("Write a comment").fill("I like it")
    page.get_by_role("button", name="Send").click()
    thread = page.get_by_role("article", name="Comment of Bob")
    expect(thread).to_contain_text("I like it")
    thread.get_by_role("button", name="Reply").click()
    page.get_by_label("Write a reply").fill("very much")
    thread.get_by_role("button", name="Send").click()
    expect(thread).to_contain_text("very much")
    thread.get_by_role("button", name="Like this comment").first.click()
    expect(thread.get_by_role("button", name="Like this comment, 1")).to_be_visible()
    stage.ask("DELETE", f"/posts/{post}", user=stage.alice)
    page.get_by_label("Write a comment").fill("and another")
    page.get_by_role("button", name="Send").first.click()
    expect(page.get_by_role("alert").filter(has_text="no longer there")).to_be_visible()
    expect(page.get_by_label("Write a comment")).to_have_value("and another")


def test_a_comment_and_a_reply_show_at_once_and_are_removed_if_refused(stage: Stage) -> None:
    post = stage.post(stage.alice, "say something")
    stage.ask("POST", f"/posts/{post}/comments", {"text": "I was first"}, stage.carol)
    page, held = stage.open(stage.alice), list[Route]()
    page.route(
        f"**/posts/{post}/comments",
        lambda route: held.append(route) if route.request.method == "POST" else route.continue_(),
    )
    card(page, "say something").get_by_role("link", name="Comments, 1").click()
    thread = page.get_by_role("article", name="Comment of Carol")
    thread.get_by_role("button", name="Reply").click()
    refusal = {"error": {"code": "FORBIDDEN", "message": "one of you has blocked the other", "details": {}}}
    for field, words in (("Write a comment", "a comment"), ("Write a reply", "a reply")):
        form = page.locator("form", has=page.get_by_label(field))
        shown = page.locator(".comment", has_text=words)
        for answers in (False, True):
            form.get_by_label(field).fill(words)
            form.get_by_role("button", name="Send").click()
            expect(shown).to_have_count(1)
            expect(form.get_by_label(field)).to_have_value("")
            eventually(lambda: page.evaluate("true") and held, 60)
            if answers:
                held.pop().continue_()
                expect(shown.get_by_role("button", name="Like this comment")).to_have_count(1)
                break
            held.pop().fulfill(status=403, json=refusal)
            expect(shown).to_have_count(0)
            expect(form.get_by_role("alert")).to_contain_text("Not sent. One of you has blocked the other.")
            expect(form.get_by_label(field)).to_have_value(words)
    expect(page.get_by_role("link", name="Comments, 3")).to_be_visible()
    stage.settled(page)
    said = stage.ask("GET", f"/posts/{post}/comments", user=stage.alice)["items"]
    assert sorted(one["text"] for one in said) == ["I was first", "a comment"]


def test_ones_own_reply_is_shown_once_after_the_others_are_fetched(stage: Stage) -> None:
    post = stage.post(stage.alice, "ask me")
    comment = stage.ask("POST", f"/posts/{post}/comments", {"text": "what is new?"}, stage.bob)["id"]
    for number in range(6):
        stage.ask("POST", f"/posts/{post}/comments", {"text": f"reply {number}", "replyTo": comment}, stage.carol)
    page = stage.open(stage.alice)
    stage.at(page, f"#/post/{post}")
    thread = page.get_by_role("article", name="Comment of Bob")
    thread.get_by_role("button", name="Reply").first.click()
    page.get_by_label("Write a reply").fill("my own words")
    thread.get_by_role("button", name="Send").click()
    stage.settled(page)
    thread.get_by_role("button", name="more replies").click()
    expect(thread.get_by_text("reply 5", exact=True)).to_have_count(1)
    expect(thread.get_by_text("my own words", exact=True)).to_have_count(1)
    expect(thread.get_by_role("button", name="Reply", exact=True)).to_have_count(8)  # of the comment and each reply


def test_a_story_is_posted_and_seen_and_its_author_sees_viewers_and_deletes_it(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    author = stage.open(stage.alice)
    author.get_by_role("button", name="Your story").click()
    author.get_by_label("What you say").fill("at the market now")
    send(author)
    expect(author.get_by_text("Your story is there for a day")).to_be_visible()
    reader = stage.open(stage.bob)
    teller = reader.get_by_role("button", name="Stories of Alice: 1 new of 1")
    teller.click()
    expect(reader.get_by_role("dialog", name="Stories")).to_contain_text("at the market now")
    reader.keyboard.press("Escape")
    expect(reader.get_by_role("button", name="Stories of Alice: 0 new of 1")).to_be_visible()
    eventually(lambda: stage.ask("GET", f"/users/{stage.alice}/stories", user=stage.alice)["items"][0]["viewCount"], 60)
    author.get_by_role("button", name="Stories of Alice").click()
    author.get_by_role("button", name="Seen by 1").click()
    expect(author.get_by_role("dialog", name="Seen by").get_by_role("article", name="Bob")).to_be_visible()
    author.keyboard.press("Escape")
    author.get_by_role("dialog", name="Stories").get_by_role("button", name="Delete").click()
    author.get_by_role("dialog", name="Delete this story").get_by_role("button", name="Delete").click()
    expect(author.get_by_text("The story is deleted")).to_be_visible()
    expect(author.get_by_role("button", name="Stories of Alice")).to_have_count(0)
    assert stage.ask("GET", f"/users/{stage.alice}/stories", user=stage.alice)["items"] == []


def test_stories_that_are_gone_leave_the_strip_with_a_note(stage: Stage) -> None:
    stage.follow(stage.bob, stage.alice)
    story = stage.ask("POST", "/stories", {"content": {"text": "for a moment"}}, stage.alice)["id"]
    page = stage.open(stage.bob)
    teller = page.get_by_role("button", name="Stories of Alice")
    expect(teller).to_be_visible()
    stage.ask("DELETE", f"/stories/{story}", user=stage.alice)
    teller.click()
    expect(page.get_by_text("These stories are no longer there.")).to_be_visible()
    expect(teller).to_have_count(0)
