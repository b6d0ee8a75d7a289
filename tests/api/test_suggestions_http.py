"""/users/{id}/suggestions and /users/{id}/hide-suggestion over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from calls import add_edges, code, finish, ids, ok
from cast import People
from servers import API, Server, eventually, serving, sign

Acting = Callable[[int], httpx.Client]


def suggested(http: httpx.Client, user: int, **query: Any) -> Any:
    return ok(http.get(f"{API}/users/{user}/suggestions", params=query))


def meet(http: httpx.Client, people: People) -> list[int]:
    """Let Alice follow Bob and Carol, and let both follow Dana and some of a crowd.

    Returns the crowd, the best suggestion first.
    """
    alice, bob, carol, dana = people
    crowd = people.crowd(6)
    add_edges(http, "follows", (alice, bob))
    add_edges(http, "follows", (alice, carol), (bob, dana), (carol, dana))
    add_edges(http, "follows", *((bob, one) for one in crowd), *((carol, one) for one in crowd[:3]))
    return [dana, *crowd[2::-1], *crowd[:2:-1]]


def test_suggestions_name_the_followees_they_come_from_and_their_number(system: httpx.Client, people: People) -> None:
    crowd = meet(system, people)
    body = suggested(system, people.alice)
    assert set(body) == {"items", "pagination", "meta"}
    assert ids(body) == crowd
    assert body["items"][0] == {
        "id": str(people.dana), "mutualCount": 2, "mutuals": [str(people.carol), str(people.bob)],
    }  # fmt: skip
    assert body["items"][-1]["mutuals"] == [str(people.bob)]
    assert body["meta"]["source"] == "network"
    assert body["meta"]["computedAt"].endswith("Z")


def test_pages_show_all_suggestions_in_both_directions(system: httpx.Client, people: People) -> None:
    crowd = meet(system, people)
    first = suggested(system, people.alice, limit=3)
    second = suggested(system, people.alice, limit=3, cursor=first["pagination"]["nextCursor"])
    third = suggested(system, people.alice, limit=3, cursor=second["pagination"]["nextCursor"])
    assert ids(first) + ids(second) + ids(third) == crowd
    assert [page["pagination"]["hasMore"] for page in (first, second, third)] == [True, True, False]
    back = suggested(system, people.alice, limit=3, cursor=third["pagination"]["prevCursor"])
    assert ids(back) == ids(second)
    assert first["pagination"]["prevCursor"] is None


def test_a_cursor_is_valid_for_one_users_suggestions_only(system: httpx.Client, people: People, owner: Acting) -> None:
    meet(system, people)
    cursor = suggested(system, people.alice, limit=1)["pagination"]["nextCursor"]
    path = f"{API}/users/{people.bob}/suggestions"
    assert code(system.get(path, params={"cursor": cursor}), 400) == "CURSOR_INVALID"
    own = f"{API}/users/{people.alice}/suggestions"
    assert code(owner(people.alice).get(own, params={"cursor": cursor}), 400) == "CURSOR_INVALID"
    for query in ({"limit": 0}, {"limit": 1_001}, {"limit": "x"}, {"what": 1}, {"cursor": "x"}):
        assert system.get(own, params=query).status_code == 400, query
    assert code(system.get(f"{API}/users/nobody/suggestions"), 400) == "INVALID_ID"


def test_hiding_and_its_undo_apply_at_once_and_to_the_acting_user_only(
    system: httpx.Client, people: People, owner: Acting
) -> None:
    crowd, (alice, bob, _, dana) = meet(system, people), people
    add_edges(system, "follows", (crowd[3], bob))
    own = owner(alice)
    assert ids(suggested(own, alice)) == crowd
    hidden = own.post(f"{API}/users/{dana}/hide-suggestion")
    assert ok(hidden) == {"hidden": True, "changed": True, "token": hidden.headers["Kith-Token"]}
    assert ids(suggested(own, alice)) == crowd[1:]
    assert dana in ids(suggested(system, crowd[3]))
    assert ok(own.post(f"{API}/users/{dana}/hide-suggestion")) == {"hidden": True, "changed": False, "token": None}
    assert ok(own.delete(f"{API}/users/{dana}/hide-suggestion"))["hidden"] is False
    assert ids(suggested(own, alice)) == crowd
    assert code(own.post(f"{API}/users/{alice}/hide-suggestion"), 400) == "SELF_EDGE"


def test_an_account_that_must_not_be_suggested_disappears_at_once(
    system: httpx.Client, people: People, acting: Acting
) -> None:
    left, alice = meet(system, people), people.alice
    me = acting(alice)
    for verb in ("follow", "block", "mute", "hide-suggestion"):
        assert ids(suggested(system, alice)) == left
        ok(me.post(f"{API}/users/{left.pop(0)}/{verb}"))
        assert ids(suggested(system, alice)) == left
    ok(acting(left.pop(0)).post(f"{API}/users/{alice}/block"))
    assert ids(suggested(system, alice)) == left
    gone = left.pop(0)
    started = system.post(f"{API}/users/{gone}/deactivate")
    assert ids(suggested(system, alice)) == left
    finish(system, started)
    ok(system.put(f"{API}/users/{left[0]}", json={"private": True}))
    assert ok(me.post(f"{API}/users/{left[0]}/follow"))["requested"]
    assert ids(suggested(system, alice)) == []


def test_a_new_user_gets_an_empty_list_with_source_none(system: httpx.Client, people: People) -> None:
    body = suggested(system, people.alice)
    assert body["items"] == []
    assert body["pagination"] == {"nextCursor": None, "prevCursor": None, "hasMore": False}
    assert body["meta"] == {"source": "none", "computedAt": None}


def test_two_processes_answer_the_same_and_see_the_users_own_follow_at_once(tmp_path: Path, people: People) -> None:
    """Each request uses its own connection, so that either process may get it."""
    once = httpx.Limits(max_keepalive_connections=0)
    with serving(tmp_path, "--workers", "2") as server, server.client(sign(people.alice), limits=once) as own:
        with server.client() as http:
            crowd = meet(http, people)
        bodies = [suggested(own, people.alice) for _ in range(20)]
        assert all(body == bodies[0] for body in bodies)
        for one in list(crowd):
            token = ok(own.post(f"{API}/users/{one}/follow"))["token"]
            crowd.remove(one)
            found = own.get(f"{API}/users/{people.alice}/suggestions", headers={"Kith-Token": token})
            assert ids(ok(found)) == crowd


def test_suggestions_are_counted_in_the_metrics(server: Server, system: httpx.Client, people: People) -> None:
    suggested(system, people.alice)
    metrics = lambda: server.get("/metrics").text  # noqa: E731
    eventually(lambda: 'kith_responses_total{operation="suggestions",status="200"}' in metrics())
