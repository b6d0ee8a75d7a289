"""Comments and profiles over real HTTP: the contract, bad input, and who sees what (article 001)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import NO_PROFILE, code, finish, make, ok, say, tell, texts, upload
from cast import People
from pictures import photo
from servers import API

Acting = Callable[[int], httpx.Client]
NO_AUTHOR = {"username": None, "displayName": "", "avatarUrl": None, "isVerified": False}


# --- comments ----------------------------------------------------------------------------------------------


def test_comments_are_answered_in_the_shape_of_the_article(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    id_ = make(alice)
    made = ok(bob.post(f"{API}/posts/{id_}/comments", json={"text": "Great post!"}), 201)
    ok(alice.post(f"{API}/comments/{made['id']}/like"))
    for text in ("thanks", "again", "and again"):
        say(alice, id_, text, replyTo=made["id"])
    body = ok(alice.get(f"{API}/posts/{id_}/comments"))
    assert set(body) == {"items", "pagination", "totalCount", "partial"}
    (item,) = body["items"]
    assert item == {
        **made, "author": {"id": str(people.bob), **NO_AUTHOR},
        "likeCount": 1, "replyCount": 3, "isLiked": True, "replies": item["replies"],
    }  # fmt: skip
    assert [reply["text"] for reply in item["replies"]] == ["thanks", "again"]
    assert made["replies"] == item["replies"][0]["replies"] == []
    assert (body["totalCount"], item["post"], item["replyTo"]) == (1, id_, None)
    (reply, *_) = ok(bob.get(f"{API}/comments/{made['id']}/replies"))["items"]
    assert (reply["text"], reply["replyTo"]) == ("thanks", made["id"])


def test_a_post_counts_replies_and_a_deleted_comment_stays_as_a_stub_for_them(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    post = make(alice)
    first, alone = say(bob, post, "first"), say(bob, post, "alone")
    reply = say(carol, post, "reply", replyTo=first)

    def count() -> int:
        return int(ok(alice.get(f"{API}/posts/{post}"))["engagement"]["commentCount"])

    assert count() == 3
    for one in (first, alone):
        assert bob.delete(f"{API}/comments/{one}").status_code == 204
    body = ok(alice.get(f"{API}/posts/{post}/comments"))
    (stub,) = body["items"]
    assert (stub["id"], stub["deleted"], stub["text"], stub["author"], stub["replyCount"]) == (first, True, "", None, 1)
    assert [(one["id"], one["deleted"]) for one in stub["replies"]] == [(reply, False)]
    assert (body["totalCount"], count()) == (0, 1)
    assert texts(alice, f"/comments/{first}/replies") == ["reply"]
    ok(alice.post(f"{API}/comments/{reply}/like"))
    assert code(alice.post(f"{API}/posts/{post}/comments", json={"text": "x", "replyTo": first}), 404)
    finish(http, carol.post(f"{API}/users/{people.carol}/deactivate"))
    assert (count(), texts(alice, f"/posts/{post}/comments")) == (0, []), "without visible replies the stub is gone"
    finish(http, http.post(f"{API}/users/{people.carol}/reactivate"))
    assert (count(), texts(alice, f"/comments/{first}/replies")) == (1, ["reply"])


def test_replies_of_a_returning_user_are_listed_below_a_comment_deleted_meanwhile(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    post = make(carol)
    first = say(alice, post, "first")
    reply = say(bob, post, "reply", replyTo=first)
    finish(http, bob.post(f"{API}/users/{people.bob}/deactivate"))
    assert alice.delete(f"{API}/comments/{first}").status_code == 204
    finish(http, http.post(f"{API}/users/{people.bob}/reactivate"))
    (stub,) = ok(carol.get(f"{API}/posts/{post}/comments"))["items"]
    assert (stub["id"], stub["deleted"], [one["id"] for one in stub["replies"]]) == (first, True, [reply])
    assert texts(carol, f"/comments/{first}/replies") == ["reply"]
    assert bob.delete(f"{API}/comments/{reply}").status_code == 204
    assert texts(carol, f"/posts/{post}/comments") == [], "a stub without replies is gone"


def test_a_reply_is_found_below_two_comments_of_a_deactivated_user(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    post = make(carol)
    first = say(bob, post, "first")
    second = say(bob, post, "second", replyTo=first)
    say(alice, post, "third", replyTo=second)
    finish(http, bob.post(f"{API}/users/{people.bob}/deactivate"))
    assert ok(carol.get(f"{API}/posts/{post}"))["engagement"]["commentCount"] == 1
    lists = (f"/posts/{post}/comments", f"/comments/{first}/replies", f"/comments/{second}/replies")
    assert [texts(carol, path) for path in lists] == [[""], [""], ["third"]]


def test_a_block_also_hides_replies_to_replies(acting: Acting, people: People) -> None:
    alice, bob, carol, dana = (acting(user) for user in people)
    post = make(carol)
    first = say(bob, post, "first")
    second = say(carol, post, "second", replyTo=first)
    third = say(dana, post, "third", replyTo=second)
    ok(bob.post(f"{API}/users/{people.alice}/block"))
    for asked in (
        alice.get(f"{API}/comments/{third}/replies"),
        alice.post(f"{API}/comments/{third}/like"),
        alice.post(f"{API}/posts/{post}/comments", json={"text": "x", "replyTo": third}),
    ):
        assert code(asked, 404) == "COMMENT_NOT_FOUND"
    ok(carol.post(f"{API}/comments/{third}/like"))


def test_comments_sort_by_likes_newest_or_oldest_and_page(acting: Acting, people: People) -> None:
    id_ = make(acting(people.alice))
    made = [say(acting(people.bob), id_, text) for text in "abcde"]
    for liker, at in ((people.alice, 1), (people.carol, 1), (people.alice, 3)):
        ok(acting(liker).post(f"{API}/comments/{made[at]}/like"))
    path, reader = f"/posts/{id_}/comments", acting(people.carol)
    assert texts(reader, path, limit=2) == texts(reader, path, limit=2, sort="newest") == list("edcba")
    assert texts(reader, path, limit=2, sort="oldest") == list("abcde")
    assert texts(reader, path, limit=2, sort="top") == list("bdeca")
    cursor = ok(reader.get(API + path, params={"limit": 2}))["pagination"]["nextCursor"]
    crossed = reader.get(API + path, params={"cursor": cursor, "sort": "top"})
    assert code(crossed, 400) == "CURSOR_INVALID"
    assert code(reader.get(API + path, params={"sort": "best"}), 400) == "INVALID_REQUEST"


def test_pages_of_whole_objects_have_at_most_a_hundred_items(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    post = make(alice)
    comment = say(alice, post, "first")
    tell(alice)
    lists = (f"posts/{post}/comments", f"comments/{comment}/replies", f"users/{people.alice}/posts")
    for path in (*lists, f"users/{people.alice}/stories"):
        assert ok(alice.get(f"{API}/{path}", params={"limit": 100}))
        refused = alice.get(f"{API}/{path}", params={"limit": 101})
        assert code(refused, 400) == "INVALID_REQUEST"
        assert "1 to 100" in refused.text


def test_a_comment_with_a_bad_text_or_a_missing_parent_is_refused(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    post, other = make(alice), make(alice)
    comment = say(bob, post, "first")
    path = f"{API}/posts/{post}/comments"
    elsewhere = bob.post(f"{API}/posts/{other}/comments", json={"text": "x", "replyTo": comment})
    assert code(elsewhere, 404) == "COMMENT_NOT_FOUND"
    assert code(acting(people.carol).delete(f"{API}/comments/{comment}"), 403) == "FORBIDDEN"
    assert alice.delete(f"{API}/comments/{comment}").status_code == 204
    assert code(bob.post(path, json={"text": "x", "replyTo": comment}), 404) == "COMMENT_NOT_FOUND"
    assert code(bob.delete(f"{API}/comments/{comment}"), 404) == "COMMENT_NOT_FOUND"
    assert code(bob.post(f"{API}/comments/{comment}/like"), 404) == "COMMENT_NOT_FOUND"
    assert ok(alice.get(path))["totalCount"] == 0
    for body in ({"text": ""}, {"text": "x" * 2_001}):
        assert code(bob.post(path, json=body), 400) == "INVALID_CONTENT"
    for body in ({}, {"text": "x", "by": "me"}, {"text": 5}):
        assert code(bob.post(path, json=body), 400) == "INVALID_REQUEST"
    assert code(bob.post(path, json={"text": "x", "replyTo": "x"}), 400) == "INVALID_ID"


def test_a_comment_sent_twice_with_one_key_is_created_once(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    path, headers = f"{API}/posts/{make(alice)}/comments", {"Idempotency-Key": "a-key_1"}
    first, again = (bob.post(path, json={"text": "once"}, headers=headers) for _ in range(2))
    assert ok(first, 201) == ok(again, 201)
    assert again.headers["Kith-Token"]
    assert ok(alice.get(path))["totalCount"] == 1
    for body in ({"text": "other"}, {"text": "once", "replyTo": first.json()["id"]}):
        assert code(bob.post(path, json=body, headers=headers), 409) == "IDEMPOTENCY_KEY_REUSED"
    assert code(bob.post(path, json={"text": "x"}, headers={"Idempotency-Key": "x" * 201}), 400) == "INVALID_REQUEST"
    ok(acting(people.carol).post(path, json={"text": "once"}, headers=headers), 201)
    assert ok(alice.get(path))["totalCount"] == 2


def test_authors_can_delete_their_comments_after_a_block_or_when_the_post_is_hidden(
    acting: Acting, people: People
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    post = make(alice)
    mine, after, theirs = say(bob, post, "mine"), say(bob, post, "mine too"), say(carol, post, "carol's")
    ok(bob.post(f"{API}/users/{people.alice}/block"))
    assert bob.delete(f"{API}/comments/{mine}").status_code == 204
    assert code(bob.delete(f"{API}/comments/{theirs}"), 404) == "COMMENT_NOT_FOUND", "the comment is hidden from them"
    ok(alice.patch(f"{API}/posts/{post}", json={"visibility": "private"}))
    assert bob.delete(f"{API}/comments/{after}").status_code == 204
    assert code(bob.delete(f"{API}/comments/{after}"), 404) == "COMMENT_NOT_FOUND"
    assert texts(alice, f"/posts/{post}/comments") == ["carol's"]


def test_the_author_of_a_post_can_delete_comments_of_users_they_blocked(acting: Acting, people: People) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    post = make(alice)
    comment = say(bob, post, "alice lives at 1 Street")
    ok(alice.post(f"{API}/users/{people.bob}/block"))
    assert texts(carol, f"/posts/{post}/comments") == ["alice lives at 1 Street"]
    assert alice.delete(f"{API}/comments/{comment}").status_code == 204
    assert texts(carol, f"/posts/{post}/comments") == []


# --- profiles ----------------------------------------------------------------------------------------------


def test_a_profile_is_set_whole_and_changed_in_part(acting: Acting, people: People) -> None:
    alice, path = acting(people.alice), f"{API}/users/{people.alice}"
    image = upload(alice, photo())
    said = {
        "displayName": "Alice 🦊", "username": f"Alice.{people.alice}", "bio": "Fox.",
        "avatar": image["id"], "attributes": {"pronouns": "she"},
    }  # fmt: skip
    put = alice.put(path, json={**said, "private": True})
    seen = ok(acting(people.bob).get(path))
    assert ok(put) == seen
    assert {key: seen[key] for key in NO_PROFILE} == {**NO_PROFILE, **said, "avatarUrl": image["thumbnailUrl"]}
    assert seen["private"]
    assert ok(alice.patch(path, json={"bio": "Hare."})) == {**seen, "bio": "Hare."}
    assert ok(alice.patch(path, json={"avatar": None})) == {**seen, "bio": "Hare.", "avatar": None, "avatarUrl": None}
    nothing = dict.fromkeys(("displayName", "username", "bio", "attributes"))
    assert ok(alice.put(path, json={**nothing, "private": False}))["displayName"] == ""
    assert {key: ok(alice.get(path))[key] for key in NO_PROFILE} == NO_PROFILE
    assert not ok(alice.get(path))["private"]


@pytest.mark.parametrize(
    "body",
    [
        {"displayName": "x" * 101},
        {"bio": "x" * 1_001},
        {"attributes": {"x": "y" * 4_096}},
        {"avatar": "x"},
        {"avatar": -1},
        {"avatar": 5},
        {"displayName": 5},
        {"name": "alice"},
    ],
    ids=lambda body: str(body)[:40],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_profile_that_breaks_a_rule_changes_nothing(
    acting: Acting, people: People, method: str, body: dict[str, Any]
) -> None:
    path = f"{API}/users/{people.alice}"
    answer = acting(people.alice).request(method, path, json={**body, "private": True})
    assert code(answer, 400)[:7] == "INVALID"
    seen = ok(acting(people.alice).get(path))
    assert ({key: seen[key] for key in NO_PROFILE}, seen["private"]) == (NO_PROFILE, False)


def test_removing_an_account_removes_its_profile_and_posts(acting: Acting, http: httpx.Client, people: People) -> None:
    alice = acting(people.alice)
    ok(alice.put(f"{API}/users/{people.alice}", json={"displayName": "Alice"}))
    id_ = make(alice)
    comment = say(alice, make(acting(people.bob)), "hi")
    finish(http, alice.delete(f"{API}/users/{people.alice}"))
    assert code(http.get(f"{API}/posts/{id_}"), 404) == "POST_NOT_FOUND"
    assert code(http.get(f"{API}/users/{people.alice}"), 404) == "USER_NOT_FOUND"
    assert code(acting(people.bob).post(f"{API}/comments/{comment}/like"), 404) == "COMMENT_NOT_FOUND"
    for verb in ("follow", "block", "mute", "see-fewer"):
        refused = alice.post(f"{API}/users/{people.bob}/{verb}")
        assert code(refused, 403) == "FORBIDDEN", verb
        assert "removed for good" in refused.json()["error"]["message"], verb


def test_the_order_of_fields_does_not_matter_for_an_idempotency_key(acting: Acting, people: People) -> None:
    alice, headers = acting(people.alice), {"Idempotency-Key": "k", "Content-Type": "application/json"}
    one = {"content": {"text": "x"}, "visibility": "public"}
    other = dict(reversed(one.items()))
    answers = [ok(alice.post(f"{API}/posts", content=json.dumps(body), headers=headers), 201) for body in (one, other)]
    assert answers[0] == answers[1]
