"""Bad input of any kind gets an error of the contract that says what to do, and changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import add_edges, check, code, ids, ok
from cast import People
from servers import API, FOLLOWS_MAX, Server

from kith.core.ids import ID_MAX

Acting = Callable[[int], httpx.Client]
pytestmark = pytest.mark.usefixtures("nothing_changes")
JSON = {"Content-Type": "application/json"}
BODY_MAX = 1 << 20
PARSED_BODIES = [
    "/graph/follows/edges",
    "/graph/follows/check",
    "/graph/select",
    "/graph/select/count",
    "/relationships",
    "/posts",
    "/posts/1/comments",
    "/posts/lookup",
    "/posts/view",
    "/users/lookup",
    "/stories",
]
BAD_IDS = [
    "-1", str(ID_MAX + 1), "1" * 20, "x", "1.5", "1e3", "+1", " 1", "1_0", "٣", "²", "0x1", "", "null", "%00", "007",
    "00", "-0",
]  # fmt: skip


def edge(source: Any, destination: Any, **fields: Any) -> dict[str, Any]:
    """One row of a bulk write."""
    return {"op": "add", "source": source, "destination": destination, **fields}


def write(http: httpx.Client, *rows: Any, graph: str = "follows") -> httpx.Response:
    """Send a bulk write."""
    return http.post(f"{API}/graph/{graph}/edges", json={"edges": list(rows)})


# --- ids, graphs, operations -----------------------------------------------------------------------------


def test_a_self_edge_refuses_the_whole_request(http: httpx.Client, people: People) -> None:
    answer = write(http, edge(people.alice, people.bob), edge(people.carol, str(people.carol)))
    assert code(answer, 400) == "SELF_EDGE"
    assert str(people.carol) in answer.json()["error"]["message"]
    assert not check(http, "follows", people.alice, people.bob)


@pytest.mark.parametrize("verb", ["follow", "block", "mute", "remove-follower"])
def test_users_cannot_follow_block_mute_or_remove_themselves(acting: Acting, people: People, verb: str) -> None:
    assert code(acting(people.alice).post(f"{API}/users/{people.alice}/{verb}"), 400) == "SELF_EDGE"


@pytest.mark.parametrize("bad", [bad for bad in BAD_IDS if bad])
def test_a_bad_id_in_a_path_is_refused(acting: Acting, bad: str) -> None:
    http = acting(1)
    for path in (
        f"/graph/follows/{bad}/2",
        f"/graph/follows/1/{bad}",
        f"/graph/follows/{bad}/2/edge",
        f"/graph/follows/{bad}/out",
        f"/graph/follows/{bad}/in/count",
        f"/users/{bad}",
        f"/users/{bad}/followers",
        f"/users/1/mutuals/{bad}",
        f"/users/{bad}/posts",
        f"/posts/{bad}",
        f"/posts/{bad}/comments",
        f"/comments/{bad}/replies",
    ):
        assert code(http.get(API + path), 400) == "INVALID_ID", path
    for verb in ("follow", "block", "mute", "remove-follower"):
        assert code(http.post(f"{API}/users/{bad}/{verb}"), 400) == "INVALID_ID"
    for verb in ("accept", "decline"):
        assert code(http.post(f"{API}/follow-requests/{bad}/{verb}"), 400) == "INVALID_ID"


@pytest.mark.parametrize(
    "bad",
    [*BAD_IDS, "7e1", "71.0", -1, ID_MAX + 1, 10**30, 1.5, True, None, [], {}, ["1"]],
    ids=repr,
)
def test_a_bad_id_in_a_body_is_refused(acting: Acting, people: People, bad: Any) -> None:
    http = acting(people.alice)
    for path, body in (
        ("/graph/follows/edges", {"edges": [edge(bad, str(people.bob))]}),
        ("/graph/follows/edges", {"edges": [edge(str(people.bob), bad)]}),
        ("/graph/follows/check", {"pairs": [["1", bad]]}),
        ("/relationships", {"targets": [bad]}),
        ("/graph/select", {"program": {"graph": "follows", "node": bad, "direction": "out"}}),
        ("/posts", {"content": {"text": "x"}, "mentions": [bad]}),
        ("/posts", {"content": {"mediaIds": [bad]}}),
        ("/posts", {"content": {"text": "x"}, "visibility": "custom", "audience": [bad]}),
    ):
        assert code(http.post(API + path, json=body), 400) in ("INVALID_ID", "INVALID_REQUEST"), path


@pytest.mark.parametrize("graph", ["nope", "Follows", "follows%20", "%2e%2e", "é", pytest.param("x" * 300, id="long")])
def test_an_unknown_graph_is_a_404_that_lists_the_graphs(http: httpx.Client, graph: str) -> None:
    for answer in (
        http.get(f"{API}/graph/{graph}/1/2"),
        http.get(f"{API}/graph/{graph}/1/out"),
        http.get(f"{API}/graph/{graph}/1/in/count"),
        http.get(f"{API}/graph/{graph}/1/2/edge"),
        http.post(f"{API}/graph/{graph}/check", json={"pairs": []}),
        http.post(f"{API}/graph/{graph}/edges", json={"edges": []}),
    ):
        assert code(answer, 404) == "GRAPH_NOT_FOUND"
        assert "follows" in answer.json()["error"]["details"]["graphs"]
    program = {"graph": "nope", "node": "1", "direction": "out"}
    assert code(http.post(f"{API}/graph/select", json={"program": program}), 404) == "GRAPH_NOT_FOUND"


@pytest.mark.parametrize("op", ["nope", "ADD", "", None, 1, pytest.param(["add"], id="list")])
def test_an_unknown_op_is_refused_and_the_ops_are_named(http: httpx.Client, people: People, op: Any) -> None:
    answer = write(http, edge(people.alice, people.bob), edge(people.alice, people.carol, op=op))
    assert code(answer, 400) == "INVALID_REQUEST"
    if op == "nope":
        assert "remove" in answer.json()["error"]["message"]


def test_versions_and_positions_beyond_their_bounds_are_refused(http: httpx.Client, people: People) -> None:
    pair = (people.alice, people.bob)
    for bad in (-(2**63) - 1, 2**63, "x", 1.5, True):
        assert code(write(http, edge(*pair, position=bad)), 400) == "INVALID_REQUEST"
    for bad in (-1, 2**62, 2**64, "x", "-5"):
        assert code(write(http, edge(*pair, updatedAt=bad)), 400) == "INVALID_REQUEST"
    future = (int(time.time() * 1000) + 120_000) << 16
    answer = write(http, edge(*pair), edge(people.alice, people.carol, updatedAt=str(future)))
    assert code(answer, 400) == "UPDATED_AT_IN_FUTURE"
    assert answer.json()["error"]["details"]["aheadMs"] > 100_000
    assert not check(http, "follows", *pair)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/graph/follows/check", {"pairs": [["1", "2"]] * 1_001}),
        ("/graph/follows/edges", {"edges": [edge("1", "2")] * 1_001}),
        ("/relationships", {"targets": ["2"] * 1_001}),
    ],
    ids=["check", "edges", "relationships"],
)
def test_a_batch_beyond_the_bound_is_a_413_that_names_it(acting: Acting, path: str, body: Any) -> None:
    answer = acting(1).post(API + path, json=body)
    assert code(answer, 413) == "BATCH_TOO_LARGE"
    assert answer.json()["error"]["details"]["max"] == 1_000


# --- paging and queries ----------------------------------------------------------------------------------


def test_a_cursor_is_valid_for_its_list_and_reader_only(
    server: Server, acting: Acting, owner: Acting, people: People, prepares: None
) -> None:
    with server.client() as http:
        add_edges(http, "follows", *((people.alice, other) for other in people.crowd(5)))
        add_edges(http, "follows", *((other, people.alice) for other in people.crowd(5)))
        path = f"{API}/users/{people.alice}/following"
        page = ok(owner(people.alice).get(path, params={"limit": 2}))
        cursor = page["pagination"]["nextCursor"]
        mine = {"limit": 2, "cursor": cursor}
        assert len(ids(ok(owner(people.alice).get(path, params=mine)))) == 2
        assert len(ids(ok(acting(people.alice).get(path, params=mine)))) == 2  # the same reader, with other credentials
        for other in (
            http.get(path, params=mine),
            owner(people.bob).get(path, params=mine),
            owner(people.alice).get(f"{API}/users/{people.alice}/followers", params=mine),
            owner(people.alice).get(f"{API}/users/{people.bob}/following", params=mine),
            owner(people.alice).get(f"{API}/graph/follows/{people.alice}/out", params=mine),
            owner(people.alice).get(f"{API}/follow-requests", params=mine),
        ):
            assert code(other, 400) == "CURSOR_INVALID"
        program = {"graph": "follows", "node": str(people.alice), "direction": "out"}
        answer = owner(people.alice).post(f"{API}/graph/select", json={"program": program, "cursor": cursor})
        assert code(answer, 400) == "CURSOR_INVALID"


def test_a_cursor_altered_by_one_byte_is_refused(http: httpx.Client, people: People, prepares: None) -> None:
    add_edges(http, "follows", *((people.alice, other) for other in people.crowd(5)))
    path = f"{API}/users/{people.alice}/following"
    cursor = ok(http.get(path, params={"limit": 2}))["pagination"]["nextCursor"]
    altered = [cursor[:at] + ("B" if char == "A" else "A") + cursor[at + 1 :] for at, char in enumerate(cursor)]
    for bad in [*altered, cursor + "A", cursor[:-1], cursor + "=", " " + cursor, "é", "%00", "x" * 5_000]:
        assert code(http.get(path, params={"cursor": bad}), 400) == "CURSOR_INVALID", bad


@pytest.mark.parametrize(
    "limit",
    ["0", "-1", "1001", "10000", "x", "", "1.5", "9" * 30, pytest.param("9" * 5_000, id="long"), "true", "٣"],
)
def test_a_limit_beyond_its_bounds_is_refused(acting: Acting, limit: str) -> None:
    for path in ("/users/1/followers", "/graph/follows/1/out", "/follow-requests", "/users/1/friends"):
        assert code(acting(1).get(API + path, params={"limit": limit}), 400) == "INVALID_REQUEST"


def test_an_unknown_query_parameter_is_refused_on_every_route(server: Server, acting: Acting, people: People) -> None:
    document = server.get("/openapi.json").json()
    for path, item in document["paths"].items():
        if not path.startswith(API):
            continue
        for method in item:
            filled = path.replace("{graph}", "follows").replace("{user_id}", str(people.bob))
            for name in ("source", "node", "other_id", "job_id"):
                filled = filled.replace(f"{{{name}}}", str(people.alice))
            filled = filled.replace("{destination}", str(people.bob))
            body = _body_of(path)
            answer = acting(people.alice).request(method.upper(), filled + "?limits=5", json=body)
            assert code(answer, 400) == "INVALID_REQUEST", f"{method} {path}"
            assert "limits" in answer.json()["error"]["message"]


def _body_of(path: str) -> Any:
    program = {"program": {"graph": "follows", "node": "1", "direction": "out"}}
    bodies = {"edges": {"edges": []}, "check": {"pairs": []}, "relationships": {"targets": []}, "select": program}
    return bodies.get(path.rsplit("/", 1)[1], program if path.endswith("select/count") else {})


@pytest.mark.parametrize("state", ["x", "NORMAL", "", "0"])
def test_an_unknown_state_is_refused(http: httpx.Client, state: str) -> None:
    answer = http.get(f"{API}/graph/follows/1/out", params={"state": state})
    assert code(answer, 400) == "INVALID_REQUEST"
    assert "edge_state" not in answer.text


# --- bodies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/graph/follows/edges", {"edges": [], "extra": 1}),
        ("POST", "/graph/follows/edges", {"edges": [edge("1", "2", extra=1)]}),
        ("POST", "/graph/follows/edges", {"edges": [edge("1", "2", updated_at=1)]}),
        ("POST", "/graph/follows/check", {"pairs": [], "extra": 1}),
        ("POST", "/graph/select", {"program": {"graph": "follows", "node": "1", "direction": "out"}, "extra": 1}),
        ("POST", "/graph/select", {"program": {"graph": "follows", "node": "1", "direction": "out", "extra": 1}}),
        ("POST", "/graph/select/count", {"program": {"union": [], "intersect": []}}),
        ("POST", "/relationships", {"targets": [], "extra": 1}),
        ("PUT", "/users/1", {"private": False, "nickname": "Alice"}),
        ("PATCH", "/users/1", {"extra": None}),
        ("POST", "/posts", {"content": {"text": "x"}, "extra": 1}),
        ("POST", "/posts", {"content": {"text": "x", "extra": 1}}),
        ("PATCH", "/posts/1", {"content": {"extra": 1}}),
        ("POST", "/posts/1/comments", {"text": "x", "extra": 1}),
    ],
    ids=[
        "edges",
        "of-an-edge",
        "updated_at-of-an-edge",
        "check",
        "select",
        "of-a-program",
        "two-operators",
        "relationships",
        "put-user",
        "patch-user",
        "post",
        "content-of-a-post",
        "content-of-an-edit",
        "comment",
    ],
)
def test_an_unknown_field_is_refused(acting: Acting, method: str, path: str, body: Any) -> None:
    assert code(acting(1).request(method, API + path, json=body), 400) == "INVALID_REQUEST"


def test_a_repeated_query_parameter_is_refused(http: httpx.Client) -> None:
    answer = http.get(f"{API}/users/1/followers?limit=1&limit=2")
    assert code(answer, 400) == "INVALID_REQUEST"
    assert "limit is given twice" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", PARSED_BODIES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"null",
        b"[]",
        b"1",
        b'"x"',
        b"{",
        b"{}",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"edges": NaN}',
        b'{"program": {"graph": "\xff"}, "targets": ["\xff"]}',
        b'{"program": {"graph": "\\ud800"}, "targets": ["\\ud800"]}',
        b"[" * 200_000,
        b'{"program": ' + b'{"union": [' * 50_000,
        b'{"targets": ' * 50_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_of_the_wrong_shape_is_refused(acting: Acting, path: str, body: bytes) -> None:
    answer = acting(1).post(API + path, content=body, headers=JSON)
    assert code(answer, 400) in ("INVALID_REQUEST", "INVALID_ID", "PROGRAM_TOO_COMPLEX")
    message = answer.json()["error"]["message"]
    assert not message.endswith("'data'"), "the message must not name a variable"


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
@pytest.mark.parametrize("path", ["/graph/follows/check", "/relationships"])
def test_a_body_is_read_as_json_whatever_its_content_type(acting: Acting, path: str, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    body = b'{"pairs": []}' if path.endswith("check") else b'{"targets": []}'
    assert acting(1).post(API + path, content=body, headers=headers).status_code == 200
    assert code(acting(1).post(API + path, content=b"a=b&c=d", headers=headers), 400) == "INVALID_REQUEST"


@pytest.mark.parametrize("path", PARSED_BODIES)
@pytest.mark.parametrize("size", [BODY_MAX + 1, 10_000_000])
def test_a_body_beyond_the_bound_is_a_413_and_the_client_can_continue(acting: Acting, path: str, size: int) -> None:
    http = acting(1)
    for _ in range(3):
        answer = http.post(API + path, content=b" " * size, headers=JSON)
        assert code(answer, 413) == "BODY_TOO_LARGE"
        assert answer.json()["error"]["details"] == {"max": BODY_MAX}
        assert check(http, "follows", 8, 9) is False


@pytest.mark.parametrize("path", ["/graph/follows/edges", "/relationships"])
def test_a_chunked_body_is_bounded_like_any_other(acting: Acting, path: str) -> None:
    small = acting(1).post(API + path, content=iter([b'{"edges"', b": []}"]), headers=JSON)
    assert small.status_code == (200 if path.endswith("edges") else 400)
    large = acting(1).post(API + path, content=iter([b" " * 65_536] * 40), headers=JSON)
    assert code(large, 413) == "BODY_TOO_LARGE"


def test_a_body_at_the_bound_is_read(http: httpx.Client) -> None:
    body = b'{"edges": []}'
    answer = http.post(f"{API}/graph/follows/edges", content=body + b" " * (BODY_MAX - len(body)), headers=JSON)
    assert ok(answer) == {"applied": 0, "token": None}


# --- programs --------------------------------------------------------------------------------------------


def test_a_program_too_deep_or_too_wide_is_refused_and_the_bound_is_named(http: httpx.Client) -> None:
    leaf: Any = {"graph": "follows", "node": "1", "direction": "out"}
    deep = leaf
    for _ in range(100):
        deep = {"union": [deep]}
    for program, detail in ((deep, {"maxDepth": 16}), ({"union": [leaf] * 65}, {"maxLists": 64})):
        for path in ("/graph/select", "/graph/select/count"):
            answer = http.post(API + path, json={"program": program})
            assert code(answer, 400) == "PROGRAM_TOO_COMPLEX"
            assert answer.json()["error"]["details"] == detail


@pytest.mark.parametrize(
    "program",
    [
        {},
        {"union": []},
        {"union": {}},
        {"xor": [{"graph": "follows", "node": "1", "direction": "out"}]},
        {"graph": "follows", "node": "1"},
        {"graph": "follows", "node": "1", "direction": "up"},
        {"graph": "follows", "node": "1", "direction": ["out"]},
        {"graph": "follows", "node": "1", "direction": "out", "states": []},
        {"graph": "follows", "node": "1", "direction": "out", "states": "normal"},
        {"graph": "follows", "node": "1", "direction": "out", "states": ["NORMAL"]},
        {"graph": "follows", "node": "1", "direction": "out", "states": [[]]},
        {"union": [{"graph": "follows", "node": "1", "direction": "out"}], "intersect": []},
    ],
    ids=json.dumps,
)
def test_an_invalid_program_is_refused(http: httpx.Client, program: Any) -> None:
    assert code(http.post(f"{API}/graph/select", json={"program": program}), 400) == "INVALID_REQUEST"
    assert code(http.post(f"{API}/graph/select/count", json={"program": program}), 400) == "INVALID_REQUEST"


# --- rules -----------------------------------------------------------------------------------------------


def test_a_refused_follow_stores_no_edge(http: httpx.Client, acting: Acting, people: People, prepares: None) -> None:
    ok(acting(people.bob).post(f"{API}/users/{people.alice}/block"))
    add_edges(http, "follows", *((people.carol, other) for other in people.crowd(FOLLOWS_MAX)))
    assert code(acting(people.alice).post(f"{API}/users/{people.bob}/follow"), 403) == "FORBIDDEN"
    assert code(acting(people.carol).post(f"{API}/users/{people.bob}/follow"), 409) == "FOLLOW_LIMIT_REACHED"
    for source in (people.alice, people.carol):
        path = f"{API}/graph/follows/{source}/{people.bob}/edge"
        assert code(http.get(path), 404) == "NOT_FOUND"
