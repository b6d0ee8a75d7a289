"""Pages of home over HTTP: every post is whole, also one that stands in for another."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from calls import ok
from cast import People
from servers import API

Acting = Callable[[int], httpx.Client]


def test_a_post_in_place_of_a_hidden_one_is_as_whole_as_the_others(acting: Acting, people: People) -> None:
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
