"""A process caches users, posts and lists of people: after any change, cached answers equal freshly read ones.

Batch requests are not cached, so their answers show what single requests must answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
from calls import finish, ids, ok, upload
from cast import People
from pictures import photo
from servers import API, Server

Acting = Callable[[int], httpx.Client]


def one(http: httpx.Client, path: str) -> Any:
    """The answer, or None if it is refused."""
    found = http.get(f"{API}/{path}")
    assert found.status_code in (200, 400, 403, 404), found.text
    return found.json() if found.status_code == 200 else None


def compare(http: httpx.Client, people: People, post: str) -> tuple[Any, ...]:
    """Check that cached answers about Alice, her post and the lists that she is in equal freshly read ones. Returns
    them.
    """
    alice, carol = people.alice, people.carol
    user, shown = one(http, f"users/{alice}"), one(http, f"posts/{post}")
    assert [user] == ok(http.post(f"{API}/users/lookup", json={"ids": [alice]}))["users"]
    assert [shown] == ok(http.post(f"{API}/posts/lookup", json={"ids": [post]}))["posts"]
    lists = []
    for path in (f"users/{carol}/followers", f"users/{alice}/followers", f"users/{alice}/following"):
        kept, anew = one(http, path), one(http, f"{path}?sort=name")
        assert (kept is None) == (anew is None), path
        assert kept is None or sorted(ids(kept)) == sorted(ids(anew)), path
        lists.append(kept)
    home = one(http, "feed?type=latest")
    if home is not None:
        there = [each["id"] for each in home["posts"]]
        assert home["posts"] == ok(http.post(f"{API}/posts/lookup", json={"ids": there}))["posts"]
        assert post not in there or shown in home["posts"]
    return user, shown, home and home["posts"], *lists


def test_cached_answers_equal_freshly_read_ones(
    server: Server, acting: Acting, system: httpx.Client, people: People
) -> None:
    alice, bob, carol = people.alice, people.bob, people.carol
    as_alice, as_bob, as_carol = acting(alice), acting(bob), acting(carol)
    post = ok(as_alice.post(f"{API}/posts", json={"content": {"text": "a red boat"}}), 201)["id"]
    image = upload(as_alice, photo())["id"]

    def changes() -> Iterator[tuple[str, httpx.Response]]:
        yield "a follow", as_alice.post(f"{API}/users/{carol}/follow")
        yield "another", as_bob.post(f"{API}/users/{alice}/follow")
        yield "a name", as_alice.patch(f"{API}/users/{alice}", json={"displayName": "Alice", "bio": "tea"})
        yield "a picture", as_alice.patch(f"{API}/users/{alice}", json={"avatar": image})
        yield "a like", as_bob.post(f"{API}/posts/{post}/like")
        yield "a save", as_carol.post(f"{API}/posts/{post}/save")
        yield "a comment", as_carol.post(f"{API}/posts/{post}/comments", json={"text": "mine"})
        yield "a view", as_bob.post(f"{API}/posts/{post}/view")
        yield "a like taken back", as_bob.delete(f"{API}/posts/{post}/like")
        yield "an edit", as_alice.patch(f"{API}/posts/{post}", json={"content": {"text": "a blue boat"}})
        yield "for friends", as_alice.patch(f"{API}/posts/{post}", json={"visibility": "friends"})
        yield "a friend", as_alice.post(f"{API}/users/{bob}/follow")
        yield "for some", as_alice.patch(f"{API}/posts/{post}", json={"visibility": "custom", "audience": [str(carol)]})
        yield "for all", as_alice.patch(f"{API}/posts/{post}", json={"visibility": "public"})
        yield "no picture", as_alice.delete(f"{API}/media/{image}")
        yield "a block", as_alice.post(f"{API}/users/{bob}/block")
        yield "no block", as_alice.delete(f"{API}/users/{bob}/block")
        yield "the other's block", as_bob.post(f"{API}/users/{alice}/block")
        yield "no block any more", as_bob.delete(f"{API}/users/{alice}/block")
        yield "private", as_alice.patch(f"{API}/users/{alice}", json={"private": True})
        yield "public", as_alice.patch(f"{API}/users/{alice}", json={"private": False})
        yield "followed again", as_bob.post(f"{API}/users/{alice}/follow")
        yield "a mute", as_bob.post(f"{API}/users/{alice}/mute")
        yield "no mute", as_bob.delete(f"{API}/users/{alice}/mute")
        yield "hidden", as_bob.post(f"{API}/posts/{post}/hide")
        yield "not hidden", as_bob.delete(f"{API}/posts/{post}/hide")
        for labels in (["hide"], ["limit"], ["sensitive"], []):
            yield f"{labels} on her", system.put(f"{API}/labels/user/{alice}", json={"labels": labels})
            yield f"{labels} on it", system.put(f"{API}/labels/post/{post}", json={"labels": labels})
        yield "away", as_alice.post(f"{API}/users/{alice}/deactivate")
        yield "back", as_alice.post(f"{API}/users/{alice}/reactivate")
        yield "another post", as_alice.post(f"{API}/posts", json={"content": {"text": "tea"}})
        yield "deleted", as_alice.delete(f"{API}/posts/{post}")

    with server.client() as visitor:
        viewers = [as_alice, as_bob, as_carol, visitor]
        before = [compare(viewer, people, post) for viewer in viewers]
        for what, answer in changes():
            assert answer.is_success, (what, answer.text)
            if answer.status_code == 202:
                finish(system, answer)
            after = [compare(viewer, people, post) for viewer in viewers]
            assert after != before or "on it" in what or "on her" in what, what
            before = after
