"""Which graphs an app may write edge by edge: graphs between users and its own graphs, none that a route maintains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from calls import add_edges, check, code, ids, make, ok, say
from cast import People
from servers import API, DEFAULT_SETTINGS, serving

from kith.access.policy import WRITE_ROUTES
from kith.graph.graphs import BUILT_IN, Graphs

Acting = Callable[[int], httpx.Client]
GRAPHS = Graphs({name: number for number, name in enumerate(BUILT_IN, 1)})


@pytest.mark.parametrize("op", ["add", "remove", "archive", "negate"])
def test_graphs_maintained_by_routes_refuse_raw_edges(
    http: httpx.Client, acting: Acting, people: People, op: str
) -> None:
    """For example a post in another user's outbox, a comment under another post, or a like that nobody gave."""
    alice, bob = acting(people.alice), acting(people.bob)
    post, other = make(alice), make(alice)
    comment = say(bob, post, "x")
    ok(bob.post(f"{API}/posts/{post}/like"))
    for graph, source, destination in (
        ("authored", people.bob, post),
        ("comments", other, comment),
        ("likes", people.bob if op != "add" else people.carol, post),
    ):
        body = {"edges": [{"op": op, "source": str(source), "destination": str(destination)}]}
        refused = http.post(f"{API}/graph/{graph}/edges", json=body)
        assert code(refused, 403) == "FORBIDDEN"
        assert WRITE_ROUTES[graph] in refused.json()["error"]["message"]
    assert ids(ok(http.get(f"{API}/users/{people.bob}/posts"))) == []
    assert ok(http.get(f"{API}/posts/{post}"))["engagement"]["likeCount"] == 1
    assert ids(ok(http.get(f"{API}/posts/{other}/comments"))) == []


def test_routes_maintain_every_graph_to_objects_and_no_other_graph_of_users() -> None:
    assert {GRAPHS.number(name) for name in WRITE_ROUTES} == GRAPHS.to_objects | {
        GRAPHS.number(name) for name in ("implicit_follows", "names")
    }


def test_graphs_between_users_and_the_apps_own_accept_raw_edges(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, settings={**DEFAULT_SETTINGS, "KITH_GRAPHS": "reads"}) as server, server.client() as http:
        for name in ("reads", *(name for name in BUILT_IN if name not in WRITE_ROUTES)):
            assert add_edges(http, name, (people.alice, people.bob))["applied"] == 1
            assert check(http, name, people.alice, people.bob)
        add_edges(http, "reads", (people.alice, people.alice))
        for direction in ("out", "in"):  # ids in the app's graph may be equal, so no self-edge is refused or hidden
            answer = ok(http.get(f"{API}/graph/reads/{people.alice}/{direction}"))
            assert people.alice in ids(answer)


def test_one_bad_edge_refuses_the_whole_request_and_is_named(http: httpx.Client, people: People) -> None:
    good, ends = {"op": "add", "source": people.alice, "destination": people.bob}, {"source": 8, "destination": 9}
    for bad, refusal in (
        ({"op": "add", "source": people.carol, "destination": people.carol}, "SELF_EDGE"),
        ({"op": "add", **ends, "updatedAt": 1 << 59}, "UPDATED_AT_IN_FUTURE"),
        ({"op": "add", **ends, "expiresAt": "tomorrow"}, "INVALID_CONTENT"),
        ({"op": "remove", **ends, "expiresAt": "2100-01-01T00:00:00Z"}, "INVALID_REQUEST"),
        ({"op": "move", **ends}, "INVALID_REQUEST"),
        ({"op": "lose", **ends}, "INVALID_REQUEST"),
    ):
        answer = http.post(f"{API}/graph/follows/edges", json={"edges": [good, good, bad, good]})
        assert code(answer, 400) == refusal
        assert "$.edges[2]" in answer.json()["error"]["message"], bad
    assert not check(http, "follows", people.alice, people.bob)
