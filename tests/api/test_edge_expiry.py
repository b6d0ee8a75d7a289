"""Edges that expire, and live edges that are moved, as clients of the API see them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from calls import add_edges, check, code, ids, make, ok
from cast import People
from servers import API, eventually

from kith.client import EdgeWrite, Kith

Acting = Callable[[int], httpx.Client]


def moment(**after: float) -> str:
    """A time as JavaScript writes it."""
    return (datetime.now(UTC) + timedelta(**after)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def follow(http: httpx.Client, user: int, expires_at: str | None) -> Any:
    return ok(http.post(f"{API}/users/{user}/follow", json={"expiresAt": expires_at}))


def end_now(http: httpx.Client, graph: str, source: int, destination: int) -> None:
    """Make an edge expire a moment ago, as if time had passed."""
    stored = ok(http.get(f"{API}/graph/{graph}/{source}/{destination}/edge"))
    fields = {"position": stored["position"], "updatedAt": str(int(stored["updatedAt"]) + 1)}
    assert add_edges(http, graph, (source, destination), **fields, expiresAt=moment(seconds=-1))["applied"] == 1


def count(http: httpx.Client, user: int) -> Any:
    return ok(http.get(f"{API}/graph/follows/{user}/in/count"))["count"]


def test_a_follow_that_expires_is_gone_everywhere_at_that_moment(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, carol, _ = people
    post = make(acting(carol))
    assert follow(acting(alice), carol, moment(days=7))["changed"]
    assert follow(acting(bob), carol, moment(days=7))["changed"]
    edge = ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))
    assert datetime.fromisoformat(edge["expiresAt"]) > datetime.now(UTC) + timedelta(days=6)
    assert ids(ok(http.get(f"{API}/users/{carol}/followers"))) == [bob, alice]
    end_now(http, "follows", alice, carol)
    assert not check(http, "follows", alice, carol)
    assert count(http, carol) == 1
    assert ids(ok(http.get(f"{API}/users/{carol}/followers"))) == [bob]
    assert ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))["state"] == "removed"
    assert [[one["id"] for one in ok(acting(user).get(f"{API}/feed"))["posts"]] for user in (alice, bob)] == [
        [],
        [post],
    ]
    assert ok(acting(alice).post(f"{API}/users/{carol}/follow"))["changed"]
    assert ids(ok(http.get(f"{API}/users/{carol}/followers"))) == [alice, bob]


def test_the_last_expiry_wins_and_the_place_in_lists_stays(http: httpx.Client, acting: Acting, people: People) -> None:
    alice, bob, carol, _ = people
    follow(acting(alice), carol, moment(days=1))
    follow(acting(bob), carol, None)
    for expires_at, changed in ((moment(days=2), True), (None, True), (None, False)):
        assert follow(acting(alice), carol, expires_at)["changed"] is changed
        edge = ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))
        assert ("expiresAt" in edge) == (expires_at is not None)
        assert ids(ok(http.get(f"{API}/users/{carol}/followers"))) == [bob, alice]
    assert count(http, carol) == 2


def test_an_accepted_request_becomes_a_follow_with_its_expiry(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, carol, _ = people
    ok(acting(carol).patch(f"{API}/users/{carol}", json={"private": True}))
    assert follow(acting(alice), carol, moment(days=7))["requested"]
    assert follow(acting(bob), carol, moment(days=7))["requested"]
    ok(acting(carol).post(f"{API}/follow-requests/{alice}/accept"))
    assert "expiresAt" in ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))
    ok(acting(carol).patch(f"{API}/users/{carol}", json={"private": False}))
    edge = eventually(lambda: (found := http.get(f"{API}/graph/follows/{bob}/{carol}/edge")).is_success and found, 60)
    assert "expiresAt" in edge.json()


def test_a_follower_who_requests_a_longer_follow_of_a_private_account_still_follows_it(
    acting: Acting, people: People
) -> None:
    alice, _, carol, _ = people
    follow(acting(alice), carol, moment(days=1))
    ok(acting(carol).patch(f"{API}/users/{carol}", json={"private": True}))
    for changed in (True, False):
        asked = follow(acting(alice), carol, None)
        assert (asked["following"], asked["requested"], asked["changed"]) == (True, True, changed)
    (row,) = ok(acting(alice).post(f"{API}/relationships", json={"targets": [carol]}))["relationships"]
    assert row["following"]
    assert row["requested"]


def test_a_follower_of_a_private_account_may_shorten_the_follow_without_a_request(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, _, carol, _ = people
    follow(acting(alice), carol, None)
    ok(acting(carol).patch(f"{API}/users/{carol}", json={"private": True}))
    ends = []
    for days in (2, 1):
        answer = follow(acting(alice), carol, moment(days=days))
        assert (answer["following"], answer["changed"], "requested" in answer) == (True, True, False)
        ends.append(ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))["expiresAt"])
    assert ends[1] < ends[0]
    assert follow(acting(alice), carol, moment(days=3))["requested"], "a longer follow needs a request"
    assert ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))["expiresAt"] == ends[1]
    assert follow(acting(alice), carol, moment(hours=1))["changed"]
    assert ok(acting(carol).get(f"{API}/follow-requests"))["items"] == [], "the last follow replaces the request"


def test_edges_of_any_graph_may_expire(http: httpx.Client, people: People) -> None:
    alice, bob, carol, _ = people
    add_edges(http, "mutes", (alice, bob), (alice, carol), expiresAt=moment(days=7))
    end_now(http, "mutes", alice, bob)
    assert not check(http, "mutes", alice, bob)
    assert ok(http.get(f"{API}/graph/mutes/{alice}/out/count"))["count"] == 1
    assert ids(ok(http.get(f"{API}/graph/mutes/{alice}/out"))) == [carol]
    program = {"graph": "mutes", "node": str(alice), "direction": "out"}
    assert ids(ok(http.post(f"{API}/graph/select", json={"program": program}))) == [carol]


def test_an_invalid_expiry_is_refused(http: httpx.Client, acting: Acting, people: People) -> None:
    alice, bob, *_ = people
    over = acting(alice).post(f"{API}/users/{bob}/follow", json={"expiresAt": moment(seconds=-1)})
    assert code(over, 400) == "INVALID_CONTENT"
    for wrong in ({"expiresAt": "tomorrow"}, {"expiresAt": 5}, {"until": moment(days=1)}, []):
        assert code(acting(alice).post(f"{API}/users/{bob}/follow", json=wrong), 400) == "INVALID_REQUEST"
    row = {"op": "add", "source": str(alice), "destination": str(bob)}
    for fields, said in (
        ({"expiresAt": moment(seconds=-1)}, "INVALID_CONTENT"),
        ({"expiresAt": "tomorrow"}, "INVALID_CONTENT"),
        ({"expiresAt": "1970-01-01T00:00:00Z"}, "INVALID_CONTENT"),
        ({"expiresAt": moment(days=1), "op": "remove"}, "INVALID_REQUEST"),
        ({"op": "move"}, "INVALID_REQUEST"),
        ({"op": "move", "position": 1, "updatedAt": 1}, "INVALID_REQUEST"),
    ):
        assert code(http.post(f"{API}/graph/follows/edges", json={"edges": [row | fields]}), 400) == said, fields
    assert not check(http, "follows", alice, bob)


@pytest.mark.parametrize("never", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59"])
def test_the_last_moment_of_the_year_9999_is_an_expiry_too(
    http: httpx.Client, acting: Acting, people: People, never: str
) -> None:
    """Apps use it for "never". Rounded up, or in UTC, it would be in the year 10000, which no answer can hold."""
    alice, bob, carol, _ = people
    follow(acting(alice), bob, never)
    add_edges(http, "follows", (alice, carol), expiresAt=never)
    for other in (bob, carol):
        edge = ok(http.get(f"{API}/graph/follows/{alice}/{other}/edge"))
        assert edge["expiresAt"].startswith("9999-12-31T23:59:59.99")


def test_a_live_edge_is_moved_in_both_lists_and_counts_stay(http: httpx.Client, people: People) -> None:
    alice, bob, carol, dana = people
    add_edges(http, "follows", (alice, bob), position=1)
    add_edges(http, "follows", (alice, carol), position=2, expiresAt=moment(days=7))
    add_edges(http, "follows", (dana, bob), position=2)

    def move(position: int, *edge: int) -> Any:
        row = {"op": "move", "source": str(edge[0]), "destination": str(edge[1]), "position": position}
        return ok(http.post(f"{API}/graph/follows/edges", json={"edges": [row]}))["applied"]

    for position, following, followers in ((3, [bob, carol], [alice, dana]), (-1, [carol, bob], [dana, alice])):
        assert move(position, alice, bob) == 1
        items = ok(http.get(f"{API}/graph/follows/{alice}/out"))["items"]
        assert [int(item["id"]) for item in items] == following
        assert str(position) in [item["position"] for item in items]
        assert ids(ok(http.get(f"{API}/graph/follows/{bob}/in"))) == followers
        assert ok(http.get(f"{API}/graph/follows/{alice}/out/count"))["count"] == 2
        assert ok(http.get(f"{API}/graph/follows/{bob}/in/count"))["count"] == 2
    assert move(9, alice, carol) == 1
    assert "expiresAt" in ok(http.get(f"{API}/graph/follows/{alice}/{carol}/edge"))
    assert move(5, carol, dana) == 0
    assert http.get(f"{API}/graph/follows/{carol}/{dana}/edge").status_code == 404
    gone = {"op": "remove", "source": str(alice), "destination": str(bob)}
    ok(http.post(f"{API}/graph/follows/edges", json={"edges": [gone]}))
    assert move(5, alice, bob) == 0
    assert not check(http, "follows", alice, bob)


def test_the_python_client_reads_and_writes_expiries(server: Any, people: People) -> None:
    week = datetime.now(UTC) + timedelta(days=7)
    with Kith(server.url, server.key) as kith:
        kith.as_user(people.alice).follow(people.bob, expires_at=week)
        row = EdgeWrite("add", people.alice, people.carol, expires_at=week)
        assert kith.write_edges("follows", [row]).applied == 1
        for other in (people.bob, people.carol):
            until = kith.edge("follows", people.alice, other).expires_at
            assert until is not None
            assert abs(until - week) < timedelta(milliseconds=1)
