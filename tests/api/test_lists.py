"""Lists that an app shows: who likes a post; and a user's own lists: saved posts, mentions, blocked, muted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import code, finish, ids, make, ok, texts, wait_next_ms, walk
from cast import People
from servers import API, Server

from kith.client import Kith

Acting = Callable[[int], httpx.Client]


def label(http: httpx.Client, user: int, *labels: str) -> None:
    ok(http.put(f"{API}/labels/user/{user}", json={"labels": list(labels)}))


def test_users_who_like_a_post_are_listed_with_names_newest_first(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(bob.patch(f"{API}/users/{people.bob}", json={"displayName": "Bob"}))
    post, crowd = make(alice), people.crowd(4)
    for user in (people.bob, *crowd):
        ok(acting(user).post(f"{API}/posts/{post}/like"))
    path = f"{API}/posts/{post}/likes"
    for reader in (alice, bob):
        pages, bodies = walk(reader, path, 2)
        assert [id_ for page in pages for id_ in page] == [*reversed(crowd), people.bob]
    (last,) = bodies[-1]["items"]
    assert set(last) == {"id", "position", "user"}
    assert (last["user"]["id"], last["user"]["displayName"]) == (str(people.bob), "Bob")
    ok(bob.delete(f"{API}/posts/{post}/like"))
    assert ids(ok(alice.get(path))) == [*reversed(crowd)]
    assert code(alice.get(path, params={"limit": 101}), 400) == "INVALID_REQUEST"
    ok(alice.patch(f"{API}/posts/{post}", json={"visibility": "private"}))
    assert code(bob.get(path), 404) == "POST_NOT_FOUND"
    assert len(ok(alice.get(path))["items"]) == 4


def test_lists_of_likes_leave_out_hidden_inactive_and_blocked_users(
    acting: Acting, http: httpx.Client, system: httpx.Client, people: People
) -> None:
    post = make(acting(people.alice))
    hidden, away, blocked, blocking, there = crowd = people.crowd(5)
    for user in crowd:
        ok(acting(user).post(f"{API}/posts/{post}/like"))
    label(http, hidden, "hide")
    finish(http, http.post(f"{API}/users/{away}/deactivate"))
    ok(acting(people.bob).post(f"{API}/users/{blocked}/block"))
    ok(acting(blocking).post(f"{API}/users/{people.bob}/block"))
    path = f"{API}/posts/{post}/likes"
    assert ids(ok(acting(people.bob).get(path))) == [there]
    assert ids(ok(acting(people.carol).get(path))) == [there, blocking, blocked]
    assert ids(ok(http.get(path))) == [there, blocking, blocked]
    assert ids(ok(system.get(path))) == [there, blocking, blocked, hidden]
    label(http, hidden)
    assert ids(ok(acting(people.bob).get(path))) == [there, hidden]


def test_saved_posts_are_those_the_user_may_still_see_newest_save_first(
    acting: Acting, owner: Acting, people: People
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    posts = [make(alice, text) for text in "abcde"]
    for post in (posts[2], posts[0], posts[4], posts[1], posts[3]):
        ok(bob.post(f"{API}/posts/{post}/save"))
        wait_next_ms()
    path = f"/users/{people.bob}/saved"
    for reader in (bob, owner(people.bob)):
        assert texts(reader, path, limit=2) == list("dbeac")
    ok(bob.delete(f"{API}/posts/{posts[4]}/save"))
    ok(alice.patch(f"{API}/posts/{posts[1]}", json={"visibility": "private"}))
    assert alice.delete(f"{API}/posts/{posts[3]}").status_code == 204
    assert texts(bob, path, limit=1) == list("ac")
    (first, *_) = ok(bob.get(API + path))["items"]
    assert first["engagement"]["isSaved"]
    ok(alice.post(f"{API}/users/{people.bob}/block"))
    assert texts(bob, path) == []


def test_mentions_list_the_posts_that_the_user_may_see(
    acting: Acting, owner: Acting, http: httpx.Client, system: httpx.Client, people: People
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    me: dict[str, Any] = {"mentions": [people.bob]}
    first = make(alice, "first", mentions=[people.carol, people.bob])
    make(alice, "private", **me, visibility="private")
    later = make(alice, "later")
    make(carol, "carol's", **me)
    path = f"/users/{people.bob}/mentions"
    assert texts(bob, path, limit=1) == ["carol's", "first"]
    ok(alice.patch(f"{API}/posts/{later}", json=me))
    assert texts(owner(people.bob), path, limit=2) == ["carol's", "later", "first"], (
        "a mention is listed at the time of its post"
    )
    ok(alice.patch(f"{API}/posts/{first}", json={"mentions": [people.carol]}))
    assert texts(bob, path) == ["carol's", "later"]
    assert texts(carol, f"/users/{people.carol}/mentions") == ["first"]
    assert alice.delete(f"{API}/posts/{later}").status_code == 204
    assert texts(bob, path) == ["carol's"]
    finish(http, http.post(f"{API}/users/{people.carol}/deactivate"))
    assert texts(bob, path) == []
    finish(http, http.post(f"{API}/users/{people.carol}/reactivate"))
    assert texts(bob, path) == ["carol's"]
    finish(http, carol.delete(f"{API}/users/{people.carol}"))
    assert texts(system, path) == ["private"], "the back office sees every existing post"
    assert ok(http.get(f"{API}/graph/mentioned/{people.bob}/out/count")) == {"count": 1}


@pytest.mark.parametrize(("verb", "path"), [("block", "blocked"), ("mute", "muted")])
def test_blocked_and_muted_users_are_listed_for_the_user_only(
    acting: Acting, http: httpx.Client, system: httpx.Client, people: People, verb: str, path: str
) -> None:
    alice, (one, two, three) = acting(people.alice), people.crowd(3)
    for user in (one, two, three):
        ok(alice.post(f"{API}/users/{user}/{verb}"))
    ok(acting(two).post(f"{API}/users/{people.alice}/block"))
    mine = f"{API}/users/{people.alice}/{path}"
    assert walk(alice, mine, 2)[0] == [[three, two], [one]], (
        "includes accounts that block me, or I could not undo my own"
    )
    assert {item["user"]["id"] for item in ok(alice.get(mine))["items"]} == {str(one), str(two), str(three)}
    label(http, three, "hide")
    assert ids(ok(alice.get(mine))) == [two, one]
    ok(alice.delete(f"{API}/users/{one}/{verb}"))
    assert ids(ok(alice.get(mine))) == [two]
    assert ids(ok(system.get(mine))) == [three, two]
    assert code(http.get(mine), 403) == "FORBIDDEN", "without X-Kith-User no list is shown"
    assert code(acting(people.bob).get(mine), 403) == "FORBIDDEN"


def test_lists_of_people_are_sorted_and_searched_by_name(
    http: httpx.Client, acting: Acting, people: People, server: Server
) -> None:
    """The lists keep their own rules, and a cursor is valid for one list, one prefix and one reader."""
    alice, bob, carol, dana = people
    for user, name in ((bob, "Óscar Bell"), (carol, "anna bell"), (dana, "Bella")):
        ok(acting(user).patch(f"{API}/users/{user}", json={"displayName": name}))
        ok(acting(user).post(f"{API}/users/{alice}/follow"))
        ok(acting(alice).post(f"{API}/users/{user}/follow"))
    for listed in ("followers", "following", "friends"):
        path = f"{API}/users/{alice}/{listed}"
        first = ok(http.get(path, params={"sort": "name", "limit": 1}))
        cursor = first["pagination"]["nextCursor"]
        rest = ok(http.get(path, params={"sort": "name", "cursor": cursor}))
        assert [ids(body) for body in (first, rest)] == [[carol], [dana, bob]]
        assert "partial" not in rest
        assert rest["pagination"] == {"nextCursor": None, "prevCursor": None, "hasMore": False}
        assert ids(ok(http.get(path, params={"q": "BELL", "limit": 2}))) == [carol, dana]
        assert ids(ok(http.get(path, params={"q": "ó"}))) == [bob]
        assert ids(ok(http.get(path, params={"q": "nobody"}))) == []
        assert code(http.get(path, params={"q": "bell", "cursor": cursor}), 400) == "CURSOR_INVALID"
        assert code(acting(bob).get(path, params={"sort": "name", "cursor": cursor}), 400) == "CURSOR_INVALID"
        assert code(http.get(path, params={"sort": "name", "limit": 0}), 400) == "INVALID_REQUEST"
        assert code(http.get(path, params={"sort": "newest"}), 400) == "INVALID_REQUEST"
        assert code(http.get(path, params={"q": ""}), 400) == "INVALID_REQUEST"
    with Kith(server.url, server.key) as kith:
        assert [one.id for one in kith.followers(alice, sort="name", page_size=1)] == [carol, dana, bob]
        assert [one.id for one in kith.friends(alice, q="anna")] == [carol]
    ok(acting(carol).post(f"{API}/users/{dana}/block"))
    assert ids(ok(acting(dana).get(f"{API}/users/{alice}/followers", params={"sort": "name"}))) == [dana, bob]
    alone = ok(acting(dana).get(f"{API}/users/{alice}/followers", params={"q": "BELL", "limit": 2}))
    assert (ids(alone), alone["pagination"]["hasMore"]) == ([dana, bob], False), "nothing hints at Carol's name"
    ok(acting(alice).patch(f"{API}/users/{alice}", json={"private": True}))
    ok(acting(alice).post(f"{API}/users/{dana}/remove-follower"))
    assert code(acting(dana).get(f"{API}/users/{alice}/followers", params={"q": "b"}), 403) == "FORBIDDEN"


def test_people_are_found_by_the_beginning_of_their_names(
    http: httpx.Client, acting: Acting, owner: Acting, people: People, server: Server
) -> None:
    alice, bob, carol, dana = people
    own = f"qz{alice // 100_000:04x}"
    for user, name in ((alice, f"{own} Zoe"), (bob, f"Bob {own.upper()}ab"), (carol, f"{own}\u00c9ric")):
        ok(acting(user).patch(f"{API}/users/{user}", json={"displayName": name}))
    ok(acting(dana).patch(f"{API}/users/{dana}", json={"username": f"{own}.d"}))
    first = ok(http.get(f"{API}/search/users", params={"q": own, "limit": 3}))
    assert ids(first) == [alice, dana, bob]
    assert first["items"][0]["user"]["displayName"] == f"{own} Zoe"
    cursor = first["pagination"]["nextCursor"]
    assert ids(ok(http.get(f"{API}/search/users", params={"q": own, "cursor": cursor}))) == [carol]
    assert ids(ok(http.get(f"{API}/search/users", params={"q": f"{own}e\u0301"}))) == [carol]
    ok(acting(alice).post(f"{API}/users/{bob}/block"))
    assert ids(ok(owner(bob).get(f"{API}/search/users", params={"q": own}))) == [dana, bob, carol]
    finish(http, acting(dana).post(f"{API}/users/{dana}/deactivate"))
    ok(acting(carol).patch(f"{API}/users/{carol}", json={"displayName": None}))
    with Kith(server.url, server.key) as kith:
        assert [one.id for one in kith.search_users(own.upper())] == [alice, bob]
    for params in ({}, {"q": " "}, {"q": "x" * 101}, {"q": "ann", "cursor": cursor}):
        code(http.get(f"{API}/search/users", params=params), 400)
