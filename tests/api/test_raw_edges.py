"""Which graphs an app may write edge by edge: those of users and its own, none that a route keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from calls import add_edges, check, code, ids, make, ok, say
from cast import People
from servers import AGREED, API, serving

from kith.access.policy import KEPT_BY_ROUTES
from kith.graph.graphs import BUILT_IN, Graphs

Acting = Callable[[int], httpx.Client]
GRAPHS = Graphs({name: number for number, name in enumerate(BUILT_IN, 1)})


@pytest.mark.parametrize("op", ["add", "remove", "archive", "negate"])
def test_nothing_that_a_route_keeps_is_written_as_a_raw_edge(
    http: httpx.Client, acting: Acting, people: People, op: str
) -> None:
    """A post in another's outbox, a comment under another post, a like that nobody gave."""
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
        assert KEPT_BY_ROUTES[graph] in refused.json()["error"]["message"]
    assert ids(ok(http.get(f"{API}/users/{people.bob}/posts"))) == []
    assert ok(http.get(f"{API}/posts/{post}"))["engagement"]["likeCount"] == 1
    assert ids(ok(http.get(f"{API}/posts/{other}/comments"))) == []


def test_every_graph_of_what_people_make_is_kept_by_a_route_and_no_graph_of_people() -> None:
    assert {GRAPHS.number(name) for name in KEPT_BY_ROUTES} == GRAPHS.to_objects | {
        GRAPHS.number(name) for name in ("implicit_follows", "names")
    }


def test_graphs_of_people_and_the_apps_own_are_written_as_ever(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, settings={**AGREED, "KITH_GRAPHS": "reads"}) as server, server.client() as http:
        for name in ("reads", *(name for name in BUILT_IN if name not in KEPT_BY_ROUTES)):
            assert add_edges(http, name, (people.alice, people.bob))["applied"] == 1
            assert check(http, name, people.alice, people.bob)
        add_edges(http, "reads", (people.alice, people.alice))
        for direction in ("out", "in"):  # ids of what the app relates may be equal, and nobody does it to themselves
            answer = ok(http.get(f"{API}/graph/reads/{people.alice}/{direction}"))
            assert people.alice in ids(answer)


def test_one_bad_edge_refuses_all_that_came_with_it_and_says_which_it_is(http: httpx.Client, people: People) -> None:
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
