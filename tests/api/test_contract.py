"""The contract of the graph's routes over real HTTP: shapes, names, statuses, effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import PAGINATION, add_edges, check, code, ids, ok, walk
from cast import People
from servers import API

from kith.core.ids import ID_MAX

Acting = Callable[[int], httpx.Client]


# --- edges -----------------------------------------------------------------------------------------------


def test_a_check_answers_exists_and_nothing_else(http: httpx.Client, people: People) -> None:
    path = f"{API}/graph/follows/{people.alice}/{people.bob}"
    assert ok(http.get(path)) == {"exists": False}
    add_edges(http, "follows", (people.alice, people.bob))
    answer = http.get(path)
    assert ok(answer) == {"exists": True}
    assert answer.headers["content-type"] == "application/json"
    assert not check(http, "follows", people.bob, people.alice)
    assert not check(http, "likes", people.alice, people.bob)


def test_the_greatest_and_the_least_id_work_everywhere(http: httpx.Client, acting: Acting) -> None:
    path = f"{API}/graph/suggestion_hides/0/{ID_MAX}"
    add_edges(http, "suggestion_hides", (0, ID_MAX))
    assert ok(http.get(path)) == {"exists": True}
    edge = ok(http.get(path + "/edge"))
    assert (edge["source"], edge["destination"]) == ("0", str(ID_MAX))
    assert ids(ok(http.get(f"{API}/graph/suggestion_hides/{ID_MAX}/in"))) == [0]
    assert ok(acting(0).post(f"{API}/users/{ID_MAX}/mute"))["muting"]


def test_a_batch_check_answers_in_order_and_takes_strings_and_numbers(http: httpx.Client, people: People) -> None:
    add_edges(http, "follows", (people.alice, people.bob), (people.bob, people.carol))
    pairs = [[str(people.alice), str(people.bob)], [people.alice, people.carol], [people.bob, str(people.carol)]]
    answer = ok(http.post(f"{API}/graph/follows/check", json={"pairs": pairs * 333}))
    assert answer == {"exists": [True, False, True] * 333}
    assert ok(http.post(f"{API}/graph/follows/check", json={"pairs": []})) == {"exists": []}


def test_a_bulk_write_answers_applied_and_its_token_in_body_and_header(http: httpx.Client, people: People) -> None:
    rows = [{"op": "add", "source": str(people.alice), "destination": people.bob}]
    answer = http.post(f"{API}/graph/follows/edges", json={"edges": rows})
    body = ok(answer)
    assert set(body) == {"applied", "token"}
    assert body["applied"] == 1
    assert answer.headers["Kith-Token"] == body["token"]
    read = http.get(f"{API}/graph/follows/{people.alice}/{people.bob}", headers={"Kith-Token": body["token"]})
    assert ok(read) == {"exists": True}


def test_a_repeated_bulk_write_changes_nothing(http: httpx.Client, people: People) -> None:
    assert add_edges(http, "mutes", (people.alice, people.bob), updatedAt="100000")["applied"] == 1
    again = add_edges(http, "mutes", (people.alice, people.bob), updatedAt="100000")
    assert again == {"applied": 0, "token": None}
    older = [{"op": "remove", "source": people.alice, "destination": people.bob, "updatedAt": 99_999}]
    assert ok(http.post(f"{API}/graph/mutes/edges", json={"edges": older}))["applied"] == 0
    assert check(http, "mutes", people.alice, people.bob)


@pytest.mark.parametrize(
    ("op", "state"), [("add", "normal"), ("remove", "removed"), ("archive", "archived"), ("negate", "negative")]
)
def test_each_op_stores_its_state(http: httpx.Client, people: People, op: str, state: str) -> None:
    add_edges(http, "follows", (people.alice, people.bob))
    row = {"op": op, "source": str(people.alice), "destination": str(people.bob)}
    ok(http.post(f"{API}/graph/follows/edges", json={"edges": [row]}))
    edge = ok(http.get(f"{API}/graph/follows/{people.alice}/{people.bob}/edge"))
    assert edge["state"] == state
    assert check(http, "follows", people.alice, people.bob) == (state == "normal")
    for node, direction in ((people.alice, "out"), (people.bob, "in")):
        path = f"{API}/graph/follows/{node}/{direction}"
        for asked in ("normal", "negative", "archived") + (("removed",) if state != "removed" else ()):
            expected = 1 if asked == state else 0
            assert ok(http.get(path + "/count", params={"state": asked})) == {"count": expected}
            assert len(ok(http.get(path, params={"state": asked}))["items"]) == expected


def test_a_stored_edge_has_its_five_fields_as_strings(http: httpx.Client, people: People) -> None:
    version = 1_700_000_000_123 << 16
    add_edges(http, "follows", (people.alice, people.bob), position=str(-(2**63)), updatedAt=str(version))
    assert ok(http.get(f"{API}/graph/follows/{people.alice}/{people.bob}/edge")) == {
        "source": str(people.alice),
        "destination": str(people.bob),
        "state": "normal",
        "position": str(-(2**63)),
        "updatedAt": str(version),
    }
    assert code(http.get(f"{API}/graph/follows/{people.bob}/{people.alice}/edge"), 404) == "NOT_FOUND"


# --- lists -----------------------------------------------------------------------------------------------


def test_items_have_id_and_position_as_strings_newest_first(http: httpx.Client, people: People) -> None:
    for position, friend in enumerate((people.bob, people.carol, people.dana)):
        add_edges(http, "follows", (people.alice, friend), position=position)
    body = ok(http.get(f"{API}/graph/follows/{people.alice}/out"))
    assert body["items"] == [
        {"id": str(people.dana), "position": "2"},
        {"id": str(people.carol), "position": "1"},
        {"id": str(people.bob), "position": "0"},
    ]
    assert body["pagination"] == {"nextCursor": None, "prevCursor": None, "hasMore": False}


@pytest.mark.parametrize("route", ["/graph/follows/{}/in", "/users/{}/followers"])
@pytest.mark.parametrize("limit", [1, 7, 20, 1000])
def test_paging_forward_shows_each_item_once_and_paging_back_the_same(
    http: httpx.Client, people: People, route: str, limit: int
) -> None:
    crowd = people.crowd(45)
    add_edges(http, "follows", *((fan, people.dana) for fan in crowd), position=5)
    path = API + route.format(people.dana)
    pages, bodies = walk(http, path, limit)
    assert [fan for page in pages for fan in page] == crowd[::-1]
    assert all(len(page) == limit for page in pages[:-1])
    assert bodies[0]["pagination"]["prevCursor"] is None
    back, cursor = [pages[-1]], bodies[-1]["pagination"]["prevCursor"]
    while cursor:
        body = ok(http.get(path, params={"limit": limit, "cursor": cursor}))
        back.append(ids(body))
        assert body["pagination"]["hasMore"]
        cursor = body["pagination"]["prevCursor"]
    assert [fan for page in back[::-1] for fan in page] == crowd[::-1]


def test_paging_continues_while_the_list_changes(http: httpx.Client, people: People) -> None:
    crowd = people.crowd(30)
    for position, fan in enumerate(crowd):
        add_edges(http, "follows", (fan, people.bob), position=position)
    path = f"{API}/graph/follows/{people.bob}/in"
    first = ok(http.get(path, params={"limit": 10}))
    add_edges(http, "follows", (people.carol, people.bob), position=1_000)
    gone = [{"op": "remove", "source": str(fan), "destination": str(people.bob)} for fan in ids(first)[-1:]]
    ok(http.post(f"{API}/graph/follows/edges", json={"edges": gone}))
    second = ok(http.get(path, params={"limit": 10, "cursor": first["pagination"]["nextCursor"]}))
    assert ids(second) == crowd[19:9:-1]


# --- set programs ----------------------------------------------------------------------------------------


def leaf(node: int, direction: str = "out", **more: Any) -> dict[str, Any]:
    """A list of `follows`."""
    return {"graph": "follows", "node": str(node), "direction": direction, **more}


def test_set_programs_answer_like_sets(http: httpx.Client, people: People) -> None:
    crowd = people.crowd(60)
    mine, theirs = set(crowd[:40]), set(crowd[20:])
    add_edges(http, "follows", *((people.alice, other) for other in mine), *((people.bob, other) for other in theirs))
    a, b = leaf(people.alice), leaf(people.bob)
    for program, expected in (
        (a, mine),
        ({"union": [a, b]}, mine | theirs),
        ({"intersect": [a, b]}, mine & theirs),
        ({"difference": [a, b]}, mine - theirs),
        ({"difference": [{"union": [a, b]}, {"intersect": [a, b]}]}, mine ^ theirs),
        ({"union": [leaf(people.alice, states=["archived", "removed"])]}, set()),
    ):
        assert ok(http.post(f"{API}/graph/select/count", json={"program": program})) == {"count": len(expected)}
        found, cursor = [], None
        for _ in range(20):
            request = {"program": program, "limit": 7, **({"cursor": cursor} if cursor else {})}
            body = ok(http.post(f"{API}/graph/select", json=request))
            assert set(body["pagination"]) == PAGINATION
            assert all(set(item) == {"id"} and isinstance(item["id"], str) for item in body["items"])
            found += ids(body)
            cursor = body["pagination"]["nextCursor"]
            if cursor is None:
                break
        assert found == sorted(expected, reverse=True)
