"""Pages of home over HTTP: every post is complete, also one that replaces a hidden one, and is shown once."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from calls import ok
from cast import People
from servers import API

from kith.home.skeleton.pinned import PINS_EACH

Acting = Callable[[int], httpx.Client]


def test_a_post_that_replaces_a_hidden_one_is_as_complete_as_the_others(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(alice.post(f"{API}/users/{people.bob}/follow"))
    ok(bob.patch(f"{API}/users/{people.bob}", json={"displayName": "Bob"}))
    ids = [ok(bob.post(f"{API}/posts", json={"content": {"text": f"news {at}"}}), 201)["id"] for at in range(4)]
    ok(alice.post(f"{API}/posts/{ids[0]}/like"))
    for hidden in ids[2:]:
        ok(alice.post(f"{API}/posts/{hidden}/hide"))
    for kind in ("latest", "ranked"):
        posts = {post["id"]: post for post in ok(alice.get(f"{API}/feed?type={kind}&limit=2"))["posts"]}
        assert set(posts) == set(ids[:2])
        assert {post["author"]["displayName"] for post in posts.values()} == {"Bob"}
        assert posts[ids[0]]["engagement"]["likeCount"] == 1
        assert posts[ids[0]]["engagement"]["isLiked"]


def test_a_pinned_post_is_shown_once_although_newer_pins_displace_it(acting: Acting, people: People) -> None:
    alice, bob, carol = (acting(who) for who in (people.alice, people.bob, people.carol))
    for author in (people.bob, people.carol):
        ok(alice.post(f"{API}/users/{author}/follow"))
    ids = [ok(carol.post(f"{API}/posts", json={"content": {"text": f"news {at}"}}), 201)["id"] for at in range(30)]
    board = ok(bob.post(f"{API}/boards", json={"name": "a board"}), 201)["id"]
    for post in ids[:PINS_EACH]:
        ok(bob.post(f"{API}/boards/{board}/pins", json={"post": post}))
    found, cursor = list[str](), ""
    while len(found) < 100:
        body = ok(alice.get(f"{API}/feed?type=latest&limit=7&cursor={cursor}"))
        found += [post["id"] for post in body["posts"]]
        cursor = body["pagination"]["nextCursor"]
        if not cursor:
            break
        if len(found) == 21:  # the oldest pin has been shown
            ok(bob.post(f"{API}/boards/{board}/pins", json={"post": ids[-1]}))
    assert sorted(found) == sorted(ids)
