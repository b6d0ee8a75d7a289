"""Lookups of many posts or users at once, and ranges of time in lists, over real HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import pytest
from calls import add_edges, code, finish, ids, ok, tell
from cast import People
from servers import API, Server

Acting = Callable[[int], httpx.Client]


# --- lookups ---------------------------------------------------------------------------------------------


def test_a_lookup_of_posts_equals_single_reads(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    visibilities = ("public", "private", "friends", "public")
    posts = [
        ok(alice.post(f"{API}/posts", json={"content": {"text": "x"}, "visibility": visibility}), 201)["id"]
        for visibility in visibilities
    ]
    assert alice.delete(f"{API}/posts/{posts[3]}").status_code == 204
    ok(bob.post(f"{API}/posts/{posts[0]}/like"))
    asked = [posts[3], posts[1], int(posts[0]), posts[2], "5", posts[0], tell(alice)]
    for reader in (alice, bob):
        body = ok(reader.post(f"{API}/posts/lookup", json={"ids": asked}))
        assert set(body) == {"posts"}
        single = [reader.get(f"{API}/posts/{id_}") for id_ in asked]
        assert body["posts"] == [one.json() if one.status_code == 200 else None for one in single]
    assert [post is not None for post in body["posts"]] == [False, False, True, False, False, True, False]
    assert body["posts"][2]["engagement"]["isLiked"] is True


def test_a_lookup_of_users_equals_single_reads(acting: Acting, people: People, http: httpx.Client) -> None:
    alice, bob, carol, dana = people
    ok(http.put(f"{API}/users/{alice}", json={"displayName": "Alice", "private": True, "attributes": {"a": 1}}))
    add_edges(http, "follows", (alice, carol), (dana, alice))
    ok(acting(carol).post(f"{API}/users/{bob}/block"))
    finish(http, http.delete(f"{API}/users/{dana}"))
    asked = [dana, str(alice), carol, bob, alice + 50, alice]
    for reader in (http, acting(bob), acting(alice)):
        body = ok(reader.post(f"{API}/users/lookup", json={"ids": asked}))
        assert set(body) == {"users"}
        single = [reader.get(f"{API}/users/{id_}") for id_ in asked]
        assert body["users"] == [one.json() if one.status_code == 200 else None for one in single]
    hidden = ok(acting(bob).post(f"{API}/users/lookup", json={"ids": asked}))["users"]
    assert [user is not None for user in hidden] == [False, True, False, True, True, True]


@pytest.mark.parametrize("kind", ["posts", "users"])
def test_a_lookup_is_bounded_and_accepts_ids_only(acting: Acting, people: People, kind: str) -> None:
    http, path = acting(people.alice), f"{API}/{kind}/lookup"
    assert ok(http.post(path, json={"ids": []})) == {kind: []}
    assert len(ok(http.post(path, json={"ids": list(range(100))}))[kind]) == 100
    assert code(http.post(path, json={"ids": list(range(101))}), 413) == "BATCH_TOO_LARGE"
    for id_ in ("x", -1, 2**63, "1.5"):
        assert code(http.post(path, json={"ids": [id_]}), 400) == "INVALID_ID"
    for body in ({}, {"ids": [None]}, {"ids": [1.5]}, {"ids": "1"}, {"ids": [1], "limit": 5}, [1]):
        assert code(http.post(path, json=body), 400) == "INVALID_REQUEST"


# --- time ranges -----------------------------------------------------------------------------------------


def walked(http: httpx.Client, path: str, **params: Any) -> list[int]:
    """The ids of all pages of a list."""
    found: list[int] = []
    cursor = None
    for _ in range(100):
        body = ok(http.get(API + path, params={**params, **({"cursor": cursor} if cursor else {})}))
        found += ids(body)
        cursor = body["pagination"]["nextCursor"]
        if cursor is None:
            return found
    raise AssertionError("this list does not end")


def test_a_list_is_read_by_range_of_time_both_ways_of_an_edge(http: httpx.Client, people: People) -> None:
    crowd = people.crowd(30)
    for at, other in enumerate(crowd):
        add_edges(http, "mutes", (people.alice, other), (other, people.dana), position=1_000 + at)
    for path in (f"/graph/mutes/{people.alice}/out", f"/graph/mutes/{people.dana}/in"):
        for bounds, expected in (
            ({"since": 1_010, "until": 1_020}, crowd[10:20]),
            ({"since": 1_025}, crowd[25:]),
            ({"until": 1_003}, crowd[:3]),
            ({"since": 1_007, "until": 1_007}, []),
            ({"since": -(2**63), "until": 2**63 - 1}, crowd),
        ):
            assert walked(http, path, limit=4, **bounds) == expected[::-1]
        page = ok(http.get(API + path, params={"limit": 4, "since": 1_010, "until": 1_020}))["pagination"]
        assert page["prevCursor"] is None
        assert page["hasMore"] is True
        for other in ({}, {"since": 1_010}, {"since": 1_010, "until": 1_021}):
            asked = {"limit": 4, "cursor": page["nextCursor"], **other}
            assert code(http.get(API + path, params=asked), 400) == "CURSOR_INVALID"


def test_a_range_shows_every_edge_that_stays_while_the_list_is_written_to(http: httpx.Client, people: People) -> None:
    crowd = people.crowd(40)
    for at, other in enumerate(crowd):
        add_edges(http, "mutes", (people.alice, other), position=at)
    path, params = f"{API}/graph/mutes/{people.alice}/out", {"since": 10, "until": 30, "limit": 5}
    found, cursor = [], None
    for turn in range(4):
        body = ok(http.get(path, params={**params, **({"cursor": cursor} if cursor else {})}))
        found += ids(body)
        cursor = body["pagination"]["nextCursor"]
        add_edges(http, "mutes", (people.alice, people.bob + turn), position=29)  # newer than the edges to be read
        add_edges(http, "mutes", (people.alice, crowd[turn]), position=9)  # outside the range
        gone = [{"op": "remove", "source": people.alice, "destination": found[-1]}]
        ok(http.post(f"{API}/graph/mutes/edges", json={"edges": gone}))
    assert found == crowd[29:9:-1]
    assert cursor is None


@pytest.mark.parametrize("route", ["/graph/follows/{}/out", "/graph/follows/{}/in", "/users/{}/posts"])
@pytest.mark.parametrize(
    "bounds",
    [{"since": 2, "until": 1}, {"since": "x"}, {"until": 2**63}, {"since": "1.5"}, {"since": ""}, {"from": 1}],
    ids=str,
)
def test_invalid_bounds_are_refused(http: httpx.Client, people: People, route: str, bounds: Any) -> None:
    assert code(http.get(API + route.format(people.alice), params=bounds), 400) == "INVALID_REQUEST"


def test_posts_of_a_user_by_range_of_time(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    posts = [ok(alice.post(f"{API}/posts", json={"content": {"text": str(at)}}), 201) for at in range(5)]
    times = [int(datetime.fromisoformat(post["createdAt"]).timestamp() * 1000 + 0.5) for post in posts]
    path = f"/users/{people.alice}/posts"
    for since, until in ((times[1], times[3]), (times[2], None), (None, times[2]), (times[4] + 1, None)):
        expected = [
            int(post["id"])
            for post, at in zip(posts, times, strict=True)
            if (since is None or at >= since) and (until is None or at < until)
        ]
        bounds = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        assert walked(acting(people.bob), path, limit=2, **bounds) == expected[::-1]


def test_stories_and_lookups_answer_from_the_document(server: Server) -> None:
    paths = server.get("/openapi.json").json()["paths"]
    for path, methods in (
        ("/stories", {"get", "post"}), ("/stories/{story_id}", {"get", "delete"}),
        ("/stories/{story_id}/view", {"post"}), ("/stories/{story_id}/viewers", {"get"}),
        ("/users/{user_id}/stories", {"get"}), ("/posts/lookup", {"post"}),
        ("/users/lookup", {"post"}), ("/posts/view", {"post"}),
    ):  # fmt: skip
        assert set(paths[API + path]) == methods
        assert all(operation["description"] for operation in paths[API + path].values())
    out = {parameter["name"] for parameter in paths[API + "/graph/{graph}/{node}/out"]["get"]["parameters"]}
    assert {"since", "until"} <= out
