"""For whom a server key acts: a user, the back office (`X-Kith-User: system`), or nobody, which makes it a visitor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import add_edges, code, finish, ids, make, ok, say, tell, texts, upload
from cast import People
from pictures import photo
from servers import API, Server, sign

Acting = Callable[[int], httpx.Client]


def hide_account(http: httpx.Client, acting: Acting, user: int, how: str) -> None:
    """Make an account invisible to visitors, in this way."""
    match how:
        case "private":
            ok(http.put(f"{API}/users/{user}", json={"private": True}))
        case "hidden":
            ok(http.put(f"{API}/labels/user/{user}", json={"labels": ["hide"]}))
        case "deactivated":
            finish(http, http.post(f"{API}/users/{user}/deactivate"))


def test_a_visitor_sees_what_is_public(http: httpx.Client, acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    name = f"public{people.alice}"
    ok(alice.put(f"{API}/users/{people.alice}", json={"username": name, "bio": "I paint"}))
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    post, story = make(alice, "the sea"), tell(alice, "look")
    comment = say(bob, post, "where is this?")
    assert ok(http.get(f"{API}/users/{people.alice}"))["bio"] == "I paint"
    assert ok(http.get(f"{API}/users/by-username/{name}"))["id"] == str(people.alice)
    assert ids(ok(http.get(f"{API}/users/{people.alice}/followers"))) == [people.bob]
    assert ok(http.get(f"{API}/posts/{post}"))["content"]["text"] == "the sea"
    assert ids(ok(http.get(f"{API}/users/{people.alice}/posts"))) == [int(post)]
    assert ids(ok(http.get(f"{API}/posts/{post}/comments"))) == [int(comment)]
    assert ok(http.get(f"{API}/stories/{story}"))["viewCount"] is None
    assert ids(ok(http.get(f"{API}/users/{people.alice}/stories"))) == [int(story)]


@pytest.mark.parametrize("how", ["private", "hidden", "deactivated"])
def test_a_forgotten_header_reveals_nothing_of_an_invisible_account(
    http: httpx.Client, system: httpx.Client, acting: Acting, people: People, how: str
) -> None:
    """This holds on every route. The back office sees everything."""
    alice, bob, name = acting(people.alice), acting(people.bob), f"away{people.alice}"
    ok(alice.put(f"{API}/users/{people.alice}", json={"username": name, "bio": "secret"}))
    add_edges(http, "follows", (people.alice, people.bob), (people.bob, people.alice), (people.carol, people.alice))
    post, story, other = make(alice, "secret"), tell(alice, "secret"), make(bob, "for all")
    say(alice, other, "secret")
    reply = say(alice, other, "secret too", replyTo=say(bob, other, "fine"))
    say(bob, post, "beside a secret")
    hide_account(http, acting, people.alice, how)
    doors = [
        f"/users/{people.alice}", f"/users/by-username/{name}", f"/posts/{post}", f"/stories/{story}",
        f"/posts/{post}/comments", f"/comments/{reply}/replies",
        *(f"/users/{people.alice}/{part}" for part in (
            "following", "followers", "friends", f"mutuals/{people.bob}", "posts", "stories"
        )),
        f"/users/{people.bob}/mutuals/{people.alice}",
    ]  # fmt: skip
    for door in doors:
        assert code(http.get(API + door), 404).endswith("_NOT_FOUND"), door
        ok(system.get(API + door))
    for kind, id_ in (("users", people.alice), ("posts", post)):
        assert ok(http.post(f"{API}/{kind}/lookup", json={"ids": [id_]}))[kind] == [None]
        assert ok(system.post(f"{API}/{kind}/lookup", json={"ids": [id_]}))[kind] != [None]
    for part in ("following", "followers", "friends"):
        assert people.alice not in ids(ok(http.get(f"{API}/users/{people.bob}/{part}")))
    assert texts(http, f"/posts/{other}/comments") == ["fine"]
    assert "secret" not in http.get(f"{API}/posts/{other}/comments").text
    if how != "deactivated":  # a deactivated user's comments are archived, so they are in no list
        assert "secret too" in system.get(f"{API}/posts/{other}/comments").text


def test_a_visitor_sees_no_post_that_is_not_public(
    http: httpx.Client, system: httpx.Client, acting: Acting, people: People
) -> None:
    alice = acting(people.alice)
    kept = [make(alice, visibility=kind) for kind in ("friends", "private")]
    kept.append(make(alice, visibility="custom", audience=[people.bob]))
    labelled = [make(alice, "hide"), make(alice, "limit")]
    for post, label in zip(labelled, ("hide", "limit"), strict=True):
        ok(http.put(f"{API}/labels/post/{post}", json={"labels": [label]}))
    for post in kept + labelled:
        assert code(http.get(f"{API}/posts/{post}"), 404) == "POST_NOT_FOUND"
    assert ok(http.get(f"{API}/users/{people.alice}/posts"))["items"] == []
    shown = ok(system.get(f"{API}/users/{people.alice}/posts"))["items"]
    assert [one["id"] for one in shown] == [*reversed(kept + labelled)]
    assert [one["audience"] for one in shown if one["visibility"] == "custom"] == [[str(people.bob)]]
    assert [one["labels"] for one in shown[:2]] == [["limit"], ["hide"]]
    ok(http.put(f"{API}/labels/user/{people.alice}", json={"labels": ["limit"]}))
    assert code(http.get(f"{API}/posts/{make(alice)}"), 404) == "POST_NOT_FOUND"


def test_a_users_own_data_is_not_for_visitors(
    http: httpx.Client, system: httpx.Client, acting: Acting, people: People
) -> None:
    alice = acting(people.alice)
    story, image = tell(alice), upload(alice, photo())["id"]
    ok(acting(people.bob).post(f"{API}/stories/{story}/view"))
    for path, status, why in (
        (f"/users/{people.alice}/suggestions", 403, "FORBIDDEN"),
        (f"/stories/{story}/viewers", 403, "FORBIDDEN"),
        (f"/media/{image}", 404, "MEDIA_NOT_FOUND"),
    ):
        assert code(http.get(API + path), status) == why
        ok(alice.get(API + path))
        ok(system.get(API + path))
    assert ok(system.get(f"{API}/stories/{story}"))["viewCount"] == 1
    for who in (http, system):
        for path in ("/feed", "/stories", "/follow-requests", "/feed/stream"):
            assert code(who.get(API + path), 400) == "INVALID_REQUEST"


def test_operations_of_the_app_need_no_header(
    http: httpx.Client, system: httpx.Client, acting: Acting, people: People
) -> None:
    post = make(acting(people.alice))
    for app in (http, system):
        path = f"{API}/users/{people.alice}"
        assert ok(app.put(path, json={"private": True, "isVerified": True}))["private"]
        for object_ in (f"user/{people.alice}", f"post/{post}"):
            ok(app.put(f"{API}/labels/{object_}", json={"labels": ["hide"]}))
            assert ok(app.get(f"{API}/labels/{object_}"))["labels"] == ["hide"]
            ok(app.delete(f"{API}/labels/{object_}"))
        assert finish(app, app.post(f"{path}/deactivate"))["done"]
        assert finish(app, app.post(f"{path}/reactivate"))["done"]


def test_only_a_server_key_acts_for_the_back_office(server: Server, people: People) -> None:
    with server.client(sign(people.alice), acting="system") as thief, server.client(acting="System") as unknown:
        assert code(thief.get(f"{API}/users/{people.bob}"), 403) == "FORBIDDEN"
        assert code(unknown.get(f"{API}/users/{people.bob}"), 400) == "INVALID_ID"


def test_cursors_of_the_back_office_and_of_visitors_are_separate(
    http: httpx.Client, system: httpx.Client, people: People
) -> None:
    add_edges(http, "follows", (people.bob, people.alice), (people.carol, people.alice))
    path = f"{API}/users/{people.alice}/followers?limit=1"
    for one, other in ((http, system), (system, http)):
        cursor = ok(one.get(path))["pagination"]["nextCursor"]
        assert code(other.get(path, params={"limit": 1, "cursor": cursor}), 400) == "CURSOR_INVALID"
        assert len(ids(ok(one.get(path, params={"limit": 1, "cursor": cursor})))) == 1


def test_a_deactivated_account_is_visible_to_itself_and_the_back_office_only(
    http: httpx.Client, system: httpx.Client, acting: Acting, owner: Acting, people: People
) -> None:
    alice, name = owner(people.alice), f"left{people.alice}"
    ok(alice.put(f"{API}/users/{people.alice}", json={"username": name, "bio": "secret"}))
    ok(acting(people.bob).post(f"{API}/users/{people.alice}/follow"))

    def doors(who: httpx.Client) -> list[Any]:
        found = [who.get(f"{API}/users/{people.alice}"), who.get(f"{API}/users/by-username/{name}")]
        (looked_up,) = ok(who.post(f"{API}/users/lookup", json={"ids": [people.alice]}))["users"]
        return [*(one.json().get("bio") if one.status_code == 200 else code(one, 404) for one in found), looked_up]

    finish(alice, alice.post(f"{API}/users/{people.alice}/deactivate"))
    for stranger in (http, acting(people.bob), owner(people.carol)):
        assert doors(stranger) == ["USER_NOT_FOUND", "USER_NOT_FOUND", None]
        assert code(stranger.get(f"{API}/users/{people.alice}/followers"), 404) == "USER_NOT_FOUND"
    for insider in (system, alice, acting(people.alice)):
        bio, of_name, looked_up = doors(insider)
        assert (bio, of_name, looked_up["state"]) == ("secret", "secret", "archived")
    finish(alice, alice.post(f"{API}/users/{people.alice}/reactivate"))
    assert doors(acting(people.bob))[:2] == ["secret", "secret"]
