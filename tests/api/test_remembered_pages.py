"""A page of home, mostly cached in a process, shows each post exactly as a single read shows it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest
from calls import ok, upload
from cast import People
from pictures import drawing, encoded
from servers import API

Acting = Callable[[int], httpx.Client]
RANKED_ONLY = {"ranking", "seen", "copies"}


def page(http: httpx.Client, kind: str) -> list[dict[str, Any]]:
    """The posts of a page, each compared with its own answer."""
    posts = ok(http.get(f"{API}/feed", params={"type": kind}))["posts"]
    shown = [{name: value for name, value in post.items() if name not in RANKED_ONLY} for post in posts]
    assert shown == [ok(http.get(f"{API}/posts/{post['id']}")) for post in posts]
    return shown


@pytest.mark.parametrize("kind", ["latest", "ranked"])
def test_every_change_of_a_post_is_on_the_next_page(
    acting: Acting, system: httpx.Client, people: People, kind: str
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    for author in (people.bob, people.carol):
        ok(alice.post(f"{API}/users/{author}/follow"))
    picture = upload(bob, encoded(drawing(), "PNG"), altText="a fox")["id"]
    said = {"text": 'he said ,"engagement":{"likeCount":0} and left', "mediaIds": [picture]}
    attributes = {"engagement": {"likeCount": 0, "commentCount": 0}}
    post = ok(bob.post(f"{API}/posts", json={"content": said, "attributes": attributes}), 201)["id"]
    ok(carol.post(f"{API}/posts", json={"content": {"text": "of Carol"}}), 201)
    own = ok(alice.post(f"{API}/posts", json={"content": {"text": "my own"}}), 201)["id"]
    ok(system.put(f"{API}/labels/post/{own}", json={"labels": ["limit"], "reason": "spam"}))
    pages = [page(alice, kind)]
    assert len(pages[0]) == 3

    def then(answer: httpx.Response, status: int = 200) -> Any:
        body = ok(answer, status)
        pages.append(page(alice, kind))
        return body

    then(alice.post(f"{API}/posts/{post}/like"))
    then(carol.post(f"{API}/posts/{post}/like"))
    then(alice.post(f"{API}/posts/{post}/save"))
    then(carol.post(f"{API}/posts/{post}/share"))
    then(carol.post(f"{API}/posts/{post}/view"))
    comment = then(carol.post(f"{API}/posts/{post}/comments", json={"text": "well"}), 201)["id"]
    then(bob.post(f"{API}/posts/{post}/comments", json={"text": "yes?", "replyTo": comment}), 201)
    then(alice.delete(f"{API}/posts/{post}/like"))
    then(bob.patch(f"{API}/posts/{post}", json={"content": {"text": "she said"}}))
    then(bob.patch(f"{API}/media/{picture}", json={"altText": "a vixen"}))
    then(bob.patch(f"{API}/users/{people.bob}", json={"displayName": "Bobby"}))
    then(bob.patch(f"{API}/users/{people.bob}", json={"avatar": picture}))
    then(system.put(f"{API}/labels/post/{post}", json={"labels": ["sensitive"], "reason": "skin"}))
    then(system.put(f"{API}/labels/user/{people.carol}", json={"labels": ["sensitive"], "reason": "skin"}))
    assert bob.delete(f"{API}/media/{picture}").status_code == 204
    pages.append(page(alice, kind))
    assert all(before != after for before, after in pairwise(pages)), "each change is visible"


@pytest.mark.parametrize("kind", ["latest", "ranked"])
def test_a_hidden_or_unwanted_post_is_not_on_the_next_page(
    acting: Acting, system: httpx.Client, people: People, kind: str
) -> None:
    alice, bob, carol = acting(people.alice), acting(people.bob), acting(people.carol)
    for author in (people.bob, people.carol):
        ok(alice.post(f"{API}/users/{author}/follow"))
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    of_bob = ok(bob.post(f"{API}/posts", json={"content": {"text": "b"}, "visibility": "friends"}), 201)["id"]
    of_carol = ok(carol.post(f"{API}/posts", json={"content": {"text": "c"}}), 201)["id"]

    def ids() -> set[str]:
        return {post["id"] for post in page(alice, kind)}

    both = {of_bob, of_carol}
    assert ids() == both
    mute, hide = f"{API}/users/{people.carol}/mute", f"{API}/posts/{of_carol}/hide"
    back_follow, follow = f"{API}/users/{people.alice}/follow", f"{API}/users/{people.carol}/follow"
    label, post = f"{API}/labels/user/{people.carol}", f"{API}/posts/{of_bob}"
    hidden, private, public = (
        {"labels": ["hide"], "reason": "spam"},
        {"visibility": "private"},
        {"visibility": "public"},
    )
    for away, back, left in (
        (lambda: alice.post(mute), lambda: alice.delete(mute), of_bob),
        (lambda: bob.delete(back_follow), lambda: bob.post(back_follow), of_carol),
        (lambda: system.put(label, json=hidden), lambda: system.delete(label), of_bob),
        (lambda: bob.patch(post, json=private), lambda: bob.patch(post, json=public), of_carol),
        (lambda: alice.post(hide), lambda: alice.delete(hide), of_bob),
        (lambda: alice.delete(follow), lambda: alice.post(follow), of_bob),
    ):
        assert away().status_code < 300
        assert ids() == {left}
        assert back().status_code < 300
        assert ids() == both
    ok(carol.post(f"{API}/users/{people.alice}/block"))
    assert ids() == {of_bob}
    assert bob.delete(f"{API}/posts/{of_bob}").status_code == 204
    assert ids() == set()
