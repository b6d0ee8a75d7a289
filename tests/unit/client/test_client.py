"""Both clients send the contract's requests about graph and users, read its answers, and page through lists."""

from __future__ import annotations

import inspect
import json
from typing import Any

import httpx
import pytest
from fake_service import Connect, ContractRow, Service, ask, check_row, name_of, page

from kith.client import (
    ApiError,
    AsyncKith,
    Block,
    Changed,
    Edge,
    EdgeWrite,
    Follow,
    HiddenSuggestion,
    Job,
    Kith,
    ListedEdge,
    ListedNode,
    Mute,
    Profile,
    Relationship,
    Suggestion,
    Written,
    boards,
    comments,
    devices,
    discovery,
    graphs,
    home,
    in_,
    moderation,
    notifications,
    operations,
    out,
    posts,
    stories,
    uploads,
    users,
    webhooks,
)
from kith.client.routes import Routes
from kith.core.errors import BadId, BadRequest

ALICE, BOB, CAROL, DANA = 1, 2, 3, 2**63 - 1
ROOMS = (
    graphs, users, discovery, posts, comments, home, notifications, devices, uploads, stories, boards, moderation,
    webhooks, operations,
)  # fmt: skip
EDGE = {"source": "1", "destination": "2", "state": "archived", "position": "-5", "updatedAt": str(2**64 - 1)}
RELATIONSHIP = {"id": str(DANA), "following": True, "followedBy": False, "requested": False} | {
    "blocking": False,
    "blockedBy": True,
    "muting": False,
}
CHANGED: dict[str, Any] = {"changed": True, "token": "t"}
PROFILE = {"id": "2", "state": "normal", "private": True, "followingCount": 0, "followersCount": 3, "new": {}}
BOB_PROFILE = Profile(id=BOB, state="normal", private=True, following_count=0, followers_count=3)
COUNT = {"count": 7}
BOTH = out("follows", ALICE) & in_("follows", BOB)
BOTH_WIRE = BOTH.wire()
JOB = {"id": "j-1", "operation": "archive", "user": "2", "edges": 0, "done": False}
BOB_JOB = Job(id="j-1", operation="archive", user=BOB, edges=0, done=False)


def followed(following: bool) -> Follow:
    return Follow(changed=True, token="t", following=following)


# method, arguments, verb, path, body, answer, result
CONTRACT: list[ContractRow] = [
    ("user_by_username", ("Bob",), "GET", "/users/by-username/Bob", None, PROFILE, BOB_PROFILE),
    ("exists", ("follows", 1, "2"), "GET", "/graph/follows/1/2", None, {"exists": True}, True),
    ("exists", ("follows", 1, DANA), "GET", f"/graph/follows/1/{DANA}", None, {"exists": False}, False),
    ("edge", ("follows", 1, 2), "GET", "/graph/follows/1/2/edge", None, EDGE,
     Edge(source=1, destination=2, state="archived", position=-5, updated_at=2**64 - 1)),
    ("exists_many", ("follows", [(1, 2), (2, DANA)]), "POST", "/graph/follows/check",
     {"pairs": [[1, 2], [2, DANA]]}, {"exists": [True, False]}, [True, False]),
    ("write_edges", ("likes", [EdgeWrite("add", 1, 2), EdgeWrite("negate", 1, 3, 9, 10)]), "POST",
     "/graph/likes/edges",
     {"edges": [{"op": "add", "source": 1, "destination": 2},
                {"op": "negate", "source": 1, "destination": 3, "position": 9, "updatedAt": 10}]},
     {"applied": 2, "token": "t"}, Written(applied=2, token="t")),
    ("count_out", ("follows", 1), "GET", "/graph/follows/1/out/count?state=normal", None, COUNT, 7),
    ("count_in", ("follows", 1), "GET", "/graph/follows/1/in/count?state=normal", None, COUNT, 7),
    ("select_count", (BOTH,), "POST", "/graph/select/count", {"program": BOTH_WIRE}, COUNT, 7),
    ("follow", (2,), "POST", "/users/2/follow", None, CHANGED | {"following": True}, followed(True)),
    ("follow", (2,), "POST", "/users/2/follow", None, CHANGED | {"following": False, "requested": True},
     Follow(changed=True, token="t", following=False, requested=True)),
    ("unfollow", (2,), "DELETE", "/users/2/follow", None, CHANGED | {"following": False}, followed(False)),
    ("block", (2,), "POST", "/users/2/block", None, CHANGED | {"blocking": True},
     Block(changed=True, token="t", blocking=True)),
    ("unblock", (2,), "DELETE", "/users/2/block", None, CHANGED | {"blocking": False},
     Block(changed=True, token="t", blocking=False)),
    ("mute", (2,), "POST", "/users/2/mute", None, CHANGED | {"muting": True},
     Mute(changed=True, token="t", muting=True)),
    ("unmute", (2,), "DELETE", "/users/2/mute", None, CHANGED | {"muting": False},
     Mute(changed=True, token="t", muting=False)),
    ("hide_suggestion", (2,), "POST", "/users/2/hide-suggestion", None, CHANGED | {"hidden": True},
     HiddenSuggestion(changed=True, token="t", hidden=True)),
    ("unhide_suggestion", (2,), "DELETE", "/users/2/hide-suggestion", None, CHANGED | {"hidden": False},
     HiddenSuggestion(changed=True, token="t", hidden=False)),
    ("remove_follower", (2,), "POST", "/users/2/remove-follower", None, CHANGED, Changed(changed=True, token="t")),
    ("accept_follow_request", (2,), "POST", "/follow-requests/2/accept", None, CHANGED,
     Changed(changed=True, token="t")),
    ("decline_follow_request", (2,), "POST", "/follow-requests/2/decline", None, CHANGED,
     Changed(changed=True, token="t")),
    ("relationships", ([DANA],), "POST", "/relationships", {"targets": [DANA]}, {"relationships": [RELATIONSHIP]},
     [Relationship(id=DANA, following=True, followed_by=False, requested=False, blocking=False,
                   blocked_by=True, muting=False)]),
    ("user", (2,), "GET", "/users/2", None, PROFILE, BOB_PROFILE),
    ("deactivate_user", (2,), "POST", "/users/2/deactivate", None, {"job": JOB}, BOB_JOB),
    ("delete_user", (2,), "DELETE", "/users/2", None, {"job": JOB}, BOB_JOB),
    ("job", ("j-1",), "GET", "/jobs/j-1", None, JOB, BOB_JOB),
    ("lookup_users", ([2, 5],), "POST", "/users/lookup", {"ids": [2, 5]}, {"users": [PROFILE, None]},
     [BOB_PROFILE, None]),
    ("reactivate_user", (2,), "POST", "/users/2/reactivate", None, {"job": JOB}, BOB_JOB),
]  # fmt: skip


@pytest.mark.parametrize("row", CONTRACT, ids=name_of)
def test_each_method_sends_and_reads_what_the_contract_says(connect: Connect, row: ContractRow) -> None:
    check_row(connect, row)


LISTS: list[tuple[str, tuple[Any, ...], str]] = [
    ("edges_out", ("follows", ALICE), "/graph/follows/1/out"),
    ("edges_in", ("follows", ALICE), "/graph/follows/1/in"),
    ("follow_requests", (), "/follow-requests"),
    ("following", (ALICE,), "/users/1/following"),
    ("followers", (ALICE,), "/users/1/followers"),
    ("friends", (ALICE,), "/users/1/friends"),
    ("mutuals", (ALICE, BOB), "/users/1/mutuals/2"),
    ("followers_you_know", (BOB,), "/users/2/followers-you-know"),
]


@pytest.mark.parametrize(("method", "args", "path"), LISTS)
def test_each_list_is_walked_to_its_end_through_an_empty_page(
    connect: Connect, method: str, args: Any, path: str
) -> None:
    service = Service(page(CAROL, next_cursor="c1"), page(next_cursor="c2"), page(BOB))
    found = ask(connect(service), method, *args, page_size=2)
    assert [(item.id, item.position) for item in found] == [(CAROL, 30), (BOB, 20)]
    assert {request.url.path for request in service.asked} == {f"/api/v1{path}"}
    queries = [request.url.params for request in service.asked]
    assert [(query.get("limit"), query.get("cursor")) for query in queries] == [("2", None), ("2", "c1"), ("2", "c2")]


@pytest.mark.parametrize(("method", "args", "path"), LISTS)
def test_a_page_is_one_request_and_shows_the_cursors_around_it(
    connect: Connect, method: str, args: Any, path: str
) -> None:
    answer = page(BOB, next_cursor="older")
    answer["pagination"]["prevCursor"] = "newer"
    service = Service(answer)
    found = ask(connect(service), f"{method}_page", *args, cursor="here")
    assert [item.id for item in found.items] == [BOB]
    assert (found.next_cursor, found.prev_cursor, found.has_more) == ("older", "newer", True)
    assert service.asked[0].url.params["cursor"] == "here"


def test_suggestions_name_the_mutual_followees(connect: Connect) -> None:
    answer = {
        "items": [{"id": str(DANA), "mutualCount": 2, "mutuals": ["3", "2"]}],
        "pagination": {"nextCursor": None, "prevCursor": None, "hasMore": False},
        "meta": {"source": "network", "computedAt": "2026-01-01T00:00:00Z"},
    }
    service = Service(answer, answer)
    client = connect(service)
    expected = [Suggestion(id=DANA, mutual_count=2, mutuals=[CAROL, BOB])]
    assert ask(client, "suggestions", ALICE) == expected
    assert ask(client, "suggestions_page", ALICE, page_size=5).items == expected
    assert service.asked[1].url.path == "/api/v1/users/1/suggestions"
    assert service.asked[1].url.params["limit"] == "5"


def test_lists_of_edges_have_positions_and_computed_lists_may_have_none(connect: Connect) -> None:
    nodes = {"items": [{"id": "2"}], "pagination": {"nextCursor": None, "prevCursor": None, "hasMore": False}}
    client = connect(Service(page(BOB), nodes))
    assert ask(client, "following", ALICE) == [ListedEdge(id=BOB, position=20)]
    assert ask(client, "friends", ALICE) == [ListedNode(id=BOB)]


def test_edges_in_other_states_are_requested_by_name(connect: Connect) -> None:
    service = Service(page(), COUNT)
    client = connect(service)
    ask(client, "edges_in", "follows", ALICE, state="archived")
    ask(client, "count_in", "follows", ALICE, state="removed")
    assert [request.url.params["state"] for request in service.asked] == ["archived", "removed"]


def test_a_list_of_edges_can_be_limited_to_a_time_range(connect: Connect) -> None:
    service = Service(page(CAROL, next_cursor="c1"), page(), page())
    client = connect(service)
    ask(client, "edges_out", "likes", ALICE, since=5, until=-(2**63))
    ask(client, "edges_in_page", "likes", ALICE, until=9)
    asked = [request.url.params for request in service.asked]
    bounds = [(params.get("since"), params.get("until")) for params in asked]
    assert bounds == [("5", str(-(2**63)))] * 2 + [(None, "9")]


def test_a_set_program_is_paged_with_the_cursor_in_the_body(connect: Connect) -> None:
    service = Service(page(DANA, next_cursor="c1"), page(BOB))
    assert [node.id for node in ask(connect(service), "select", BOTH, page_size=1)] == [DANA, BOB]
    first = {"program": BOTH_WIRE, "limit": 1}
    assert service.bodies() == [first, first | {"cursor": "c1"}]


def test_a_repeated_cursor_is_an_error_and_no_endless_loop(connect: Connect) -> None:
    service = Service(*[page(BOB, next_cursor="same")] * 3)
    with pytest.raises(ApiError, match="same cursor"):
        ask(connect(service), "followers", ALICE)
    assert len(service.asked) == 2


def test_a_list_ends_where_has_more_is_false(connect: Connect) -> None:
    last = page(BOB, next_cursor="for-what-may-come")
    last["pagination"]["hasMore"] = False
    service = Service(last)
    assert [edge.id for edge in ask(connect(service), "followers", ALICE)] == [BOB]


def test_pages_are_fetched_only_when_needed() -> None:
    service = Service(page(CAROL, BOB, next_cursor="c1"), page(ALICE))
    with Kith("http://kith.example", "a-key", transport=httpx.MockTransport(service)) as kith:
        followers = kith.followers(DANA)
        assert (next(followers).id, next(followers).id) == (CAROL, BOB)
        assert len(service.asked) == 1
        assert next(followers).id == ALICE


def test_long_checks_are_split_and_keep_their_order(connect: Connect) -> None:
    service = Service(*({"exists": [n == 0] * size} for n, size in enumerate((1000, 1000, 1))))
    found = ask(connect(service), "exists_many", "follows", ((ALICE, n) for n in range(2001)))
    assert found == [True] * 1000 + [False] * 1001
    pairs = [body["pairs"] for body in service.bodies()]
    assert [len(batch) for batch in pairs] == [1000, 1000, 1]
    assert [pair for batch in pairs for pair in batch] == [[ALICE, n] for n in range(2001)]


def test_long_writes_are_split_drawn_lazily_and_summed(connect: Connect) -> None:
    service = Service({"applied": 900, "token": "t1"}, {"applied": 5, "token": "t2"})
    drawn: list[int] = []

    def edges() -> Any:
        for n in range(1500):
            drawn.append(len(service.asked))
            yield EdgeWrite("add", ALICE, n)

    assert ask(connect(service), "write_edges", "follows", edges()) == Written(applied=905, token="t2")
    assert [len(body["edges"]) for body in service.bodies()] == [1000, 500]
    assert drawn == [0] * 1000 + [1] * 500  # the second batch is drawn after the first was sent


@pytest.mark.parametrize(
    ("method", "args", "result"),
    [("exists_many", ("follows",), []), ("write_edges", ("follows",), Written(applied=0)), ("relationships", (), [])],
)
def test_an_empty_batch_sends_no_request(connect: Connect, method: str, args: Any, result: Any) -> None:
    service = Service()
    assert ask(connect(service), method, *args, []) == result
    assert service.asked == []


def test_only_the_given_fields_of_a_profile_are_put_or_patched(connect: Connect) -> None:
    service = Service(PROFILE, PROFILE)
    client = connect(service)
    assert ask(client, "put_user", BOB) == BOB_PROFILE
    assert ask(client, "patch_user", BOB, private=True) == BOB_PROFILE
    assert [request.method for request in service.asked] == ["PUT", "PATCH"]
    assert service.bodies() == [{}, {"private": True}], "a field that is left out keeps its value, so it is not sent"


def test_a_profile_gets_a_picture_and_none_removes_it(connect: Connect) -> None:
    shown = PROFILE | {"avatar": "7", "avatarUrl": "/media/y"}
    service = Service(shown, shown, PROFILE)
    client = connect(service)
    assert ask(client, "put_user", BOB, avatar=7).avatar == 7
    assert ask(client, "patch_user", BOB, avatar="7").avatar_url == "/media/y"
    assert ask(client, "patch_user", BOB, avatar=None).avatar is None
    assert [body["avatar"] for body in service.bodies()] == ["7", "7", None]
    assert service.bodies()[2] == {"avatar": None}


def test_profile_fields_may_have_their_names_of_the_api(connect: Connect) -> None:
    service = Service(PROFILE, PROFILE, PROFILE)
    client = connect(service)
    ask(client, "patch_user", BOB, username="Bob", display_name="Bob B.", is_verified=True)
    ask(client, "put_user", BOB, is_verified=False)
    assert ask(client, "user_by_username", "B/b?") == BOB_PROFILE
    assert service.asked[-1].url.raw_path == b"/api/v1/users/by-username/B%2Fb%3F"
    patched, put = (json.loads(request.content) for request in service.asked[:2])
    assert patched == {"username": "Bob", "displayName": "Bob B.", "isVerified": True}
    assert put["isVerified"] is False


@pytest.mark.parametrize(("method", "path"), [("is_alive", "/healthz"), ("is_ready", "/readyz")])
def test_probes_are_outside_the_base_path_and_not_ready_is_an_answer(connect: Connect, method: str, path: str) -> None:
    service = Service(httpx.Response(200, text="ok"), httpx.Response(503, text="starting"))
    client = connect(service)
    assert [ask(client, method), ask(client, method)] == [True, False]
    assert [request.url.path for request in service.asked] == [path, path]


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        ("user", (-1,), BadId),
        ("user", (2**63,), BadId),
        ("follow", ("../1",), BadId),
        ("followers", (True,), BadId),
        ("exists", ("..", 1, 2), BadRequest),
        ("job", ("..",), BadRequest),
        ("write_edges", ("follows/1", [EdgeWrite("add", 1, 2)]), BadRequest),
    ],
)
def test_a_value_that_cannot_be_part_of_a_path_is_refused_unsent(
    connect: Connect, method: str, args: Any, error: type[Exception]
) -> None:
    service = Service()
    with pytest.raises(error):
        ask(connect(service), method, *args)
    assert service.asked == []


def test_a_url_may_have_a_prefix(connect: Connect) -> None:
    service = Service({"exists": True})
    ask(connect(service, "http://kith.example/social/"), "exists", "follows", ALICE, BOB)
    assert str(service.asked[0].url) == "http://kith.example/social/api/v1/graph/follows/1/2"


def test_both_clients_document_every_method_and_keep_its_signature() -> None:
    kith = Kith("http://kith.example", "a-key")
    names = [name for name in vars(Routes) if not name.startswith("_")]
    assert len(names) > 90
    for name in names:
        for method in (getattr(Kith, name), getattr(AsyncKith, name), getattr(kith, name)):
            builds = next(build for room in ROOMS if (build := getattr(room, name.removesuffix("_page"), None)))
            assert inspect.getdoc(method) == inspect.getdoc(builds), name
    assert list(inspect.signature(kith.mutuals).parameters) == ["user", "other", "page_size", "cursor"]


def test_a_server_on_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    here, there = Kith("http://127.0.0.1:1", key="k"), Kith("http://kith.example", key="k")
    assert (here._http.trust_env, there._http.trust_env) == (False, True)
    here.close()
    there.close()
