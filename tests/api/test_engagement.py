"""Likes, saves, shares, views and hides over real HTTP: exact counts, and who may (article 001)."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from calls import code, finish, ids, make, ok, say
from cast import People
from servers import API

Acting = Callable[[int], httpx.Client]
VERBS = {"like": ("liked", "likeCount"), "save": ("saved", "saveCount"), "share": ("shared", "shareCount")}


@pytest.mark.parametrize("verb", VERBS)
def test_engagement_answers_state_and_exact_count_however_often(acting: Acting, people: People, verb: str) -> None:
    id_ = make(acting(people.alice))
    state, count = VERBS[verb]
    path = f"{API}/posts/{id_}/{verb}"
    first = acting(people.bob).post(path)
    body = ok(first)
    assert (set(body), body[state], body[count]) == ({state, count, "timestamp"}, True, 1)
    assert first.headers["Kith-Token"]
    assert ok(acting(people.bob).post(path)) == body
    assert ok(acting(people.carol).post(path))[count] == 2
    assert ok(acting(people.bob).delete(path))[count] == 1
    gone = ok(acting(people.bob).delete(path))
    assert (gone[state], gone[count]) == (False, 1)


def test_views_count_users_and_hides_are_visible_to_nobody_else(
    acting: Acting, owner: Acting, http: httpx.Client, people: People
) -> None:
    id_ = make(acting(people.alice))
    for viewer in (people.bob, people.bob, people.carol):
        seen = ok(acting(viewer).post(f"{API}/posts/{id_}/view"))
        assert seen["viewed"]
    assert seen["viewCount"] == 2
    for method, hidden in (("POST", True), ("POST", True), ("DELETE", False), ("POST", True)):
        body = ok(acting(people.bob).request(method, f"{API}/posts/{id_}/hide"))
        assert (set(body), body["hidden"]) == ({"hidden", "timestamp"}, hidden)
    for graph in ("hides", "views", "likes", "saves"):
        assert code(owner(people.alice).get(f"{API}/graph/{graph}/{id_}/in"), 403) == "FORBIDDEN"
        assert code(owner(people.alice).get(f"{API}/graph/{graph}/{people.bob}/{id_}"), 403) == "FORBIDDEN"
        assert code(owner(people.alice).get(f"{API}/graph/{graph}/{people.bob}/out"), 403) == "FORBIDDEN"
    assert ids(ok(owner(people.bob).get(f"{API}/graph/hides/{people.bob}/out"))) == [int(id_)]


def test_a_batch_of_views_is_one_write_and_counts_like_single_views(acting: Acting, people: People) -> None:
    alice, bob, carol = (acting(user) for user in people[:3])
    shown, private = [make(alice) for _ in range(3)], make(alice, visibility="private")
    ok(carol.post(f"{API}/posts/{shown[0]}/view"))
    first = ok(bob.post(f"{API}/posts/{shown[1]}/view"))
    asked = [shown[2], private, shown[0], "5", shown[1], int(shown[0])]
    answer = bob.post(f"{API}/posts/view", json={"ids": asked})
    seen = ok(answer)["posts"]
    assert [one and (one["viewed"], one["viewCount"]) for one in seen] == [
        (True, 1), None, (True, 2), None, (True, 1), (True, 2)
    ]  # fmt: skip
    assert seen[4] == first, "the time of the first view stays"
    again = ok(bob.post(f"{API}/posts/view", json={"ids": asked}))["posts"]
    assert again == seen
    page = ok(bob.get(f"{API}/feed", headers={"Kith-Token": answer.headers["Kith-Token"]}))
    assert not {post["id"] for post in page["posts"]} & set(shown)
    counts = [ok(alice.get(f"{API}/posts/{id_}"))["engagement"]["viewCount"] for id_ in (*shown, private)]
    assert counts == [2, 1, 1, 0]


def test_a_batch_of_views_is_bounded_and_for_active_users_only(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    bob, path = acting(people.bob), f"{API}/posts/view"
    assert ok(bob.post(path, json={"ids": []})) == {"posts": []}
    assert ok(bob.post(path, json={"ids": list(range(100))})) == {"posts": [None] * 100}
    assert code(bob.post(path, json={"ids": list(range(101))}), 413) == "BATCH_TOO_LARGE"
    assert code(bob.post(path, json={"ids": ["x"]}), 400) == "INVALID_ID"
    post = make(acting(people.alice))
    finish(http, http.post(f"{API}/users/{people.bob}/deactivate"))
    assert code(bob.post(path, json={"ids": [post]}), 403) == "FORBIDDEN"
    assert ok(http.get(f"{API}/posts/{post}"))["engagement"]["viewCount"] == 0


def test_a_user_cannot_read_raw_comment_edges_of_a_post_with_their_id(owner: Acting, people: People) -> None:
    for graph in ("comments", "replies"):
        for path in (f"{people.alice}/out", f"{people.alice}/out/count", f"{people.alice}/5", f"{people.alice}/5/edge"):
            assert code(owner(people.alice).get(f"{API}/graph/{graph}/{path}"), 403) == "FORBIDDEN"


def test_engagement_shows_on_the_post_for_each_reader(acting: Acting, people: People) -> None:
    id_ = make(acting(people.alice))
    bob = acting(people.bob)
    for verb in ("like", "save", "share", "view"):
        ok(bob.post(f"{API}/posts/{id_}/{verb}"))
    say(bob, id_, "nice")
    counts = {"likeCount": 1, "commentCount": 1, "shareCount": 1, "viewCount": 1}
    own = {"isLiked": True, "isSaved": True, "isShared": True}
    assert ok(bob.get(f"{API}/posts/{id_}"))["engagement"] == {**counts, **own}
    other = ok(acting(people.carol).get(f"{API}/users/{people.alice}/posts"))["items"][0]
    assert other["engagement"] == {**counts, **dict.fromkeys(own, False)}
    for undone, name in (("share", "isShared"), ("save", "isSaved"), ("like", "isLiked")):
        ok(bob.delete(f"{API}/posts/{id_}/{undone}"))
        own[name] = False
        for path in (f"posts/{id_}", f"users/{people.alice}/posts"):
            answer = ok(bob.get(f"{API}/{path}"))
            shown = (answer.get("items") or [answer])[0]["engagement"]
            assert {key: shown[key] for key in own} == own


@pytest.mark.parametrize("verb", ["like", "save", "share", "view", "hide"])
def test_an_invisible_post_gets_no_engagement(acting: Acting, people: People, verb: str) -> None:
    private = make(acting(people.alice), visibility="private")
    for post in (private, "5"):
        for method in ("POST",) if verb == "view" else ("POST", "DELETE"):
            answer = acting(people.bob).request(method, f"{API}/posts/{post}/{verb}")
            assert code(answer, 404) == "POST_NOT_FOUND"
