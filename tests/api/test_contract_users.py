"""The contract over real HTTP of relations between users, of users, and of operations."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from calls import NO_PROFILE, add_edges, check, code, finish, ids, make, ok, wait_next_ms, walk
from cast import People
from servers import API, FOLLOWS_MAX, ON_CLUSTER, Server, eventually

Acting = Callable[[int], httpx.Client]


# --- following, blocking, muting -------------------------------------------------------------------------


def test_a_follow_answers_following_changed_and_token_and_is_visible_at_once(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    answer = acting(people.alice).post(f"{API}/users/{people.bob}/follow")
    body = ok(answer)
    assert set(body) == {"following", "changed", "token"}
    assert (body["following"], body["changed"]) == (True, True)
    assert answer.headers["Kith-Token"] == body["token"]
    assert check(http, "follows", people.alice, people.bob)
    assert ids(ok(http.get(f"{API}/users/{people.bob}/followers"))) == [people.alice]
    assert ids(ok(http.get(f"{API}/users/{people.alice}/following"))) == [people.bob]
    again = acting(people.alice).post(f"{API}/users/{people.bob}/follow")
    assert ok(again) == {"following": True, "changed": False, "token": None}
    assert "Kith-Token" not in again.headers


def test_unfollow_and_refollow_moves_to_the_top(http: httpx.Client, acting: Acting, people: People) -> None:
    for target in (people.bob, people.carol):
        ok(acting(people.alice).post(f"{API}/users/{target}/follow"))
    gone = ok(acting(people.alice).delete(f"{API}/users/{people.bob}/follow"))
    assert (gone["following"], gone["changed"]) == (False, True)
    assert not ok(acting(people.alice).delete(f"{API}/users/{people.bob}/follow"))["changed"]
    assert ids(ok(http.get(f"{API}/users/{people.alice}/following"))) == [people.carol]
    wait_next_ms()
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))
    assert ids(ok(http.get(f"{API}/users/{people.alice}/following"))) == [people.bob, people.carol]


def test_a_user_token_follows_like_a_server_key_that_acts_for_the_user(
    owner: Acting, http: httpx.Client, people: People
) -> None:
    assert ok(owner(people.alice).post(f"{API}/users/{people.bob}/follow"))["changed"]
    assert check(http, "follows", people.alice, people.bob)


def test_a_follower_can_be_removed_and_may_follow_again(http: httpx.Client, acting: Acting, people: People) -> None:
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))
    removed = ok(acting(people.bob).post(f"{API}/users/{people.alice}/remove-follower"))
    assert (removed["following"], removed["changed"]) == (False, True)
    assert not check(http, "follows", people.alice, people.bob)
    assert ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))["changed"]


def test_a_block_drops_follows_both_ways_and_forbids_new_ones(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))
    ok(acting(people.bob).post(f"{API}/users/{people.alice}/follow"))
    answer = acting(people.alice).post(f"{API}/users/{people.bob}/block")
    assert set(ok(answer)) == {"blocking", "changed", "token"}
    assert (answer.json()["blocking"], answer.json()["changed"]) == (True, True)
    assert answer.headers["Kith-Token"] == answer.json()["token"]
    for source, destination in ((people.alice, people.bob), (people.bob, people.alice)):
        assert not check(http, "follows", source, destination)
        assert code(acting(source).post(f"{API}/users/{destination}/follow"), 403) == "FORBIDDEN"
    assert not ok(acting(people.alice).post(f"{API}/users/{people.bob}/block"))["changed"]
    assert ok(acting(people.alice).delete(f"{API}/users/{people.bob}/block"))["changed"]
    assert not check(http, "follows", people.alice, people.bob)
    assert ok(acting(people.bob).post(f"{API}/users/{people.alice}/follow"))["changed"]


@pytest.mark.parametrize("verb", ["follow", "block", "mute", "see-fewer", "hide-suggestion"])
def test_no_relation_can_be_made_to_a_removed_account(
    http: httpx.Client, acting: Acting, people: People, verb: str
) -> None:
    finish(http, http.delete(f"{API}/users/{people.bob}"))
    refused = acting(people.alice).post(f"{API}/users/{people.bob}/{verb}")
    assert code(refused, 404) == "USER_NOT_FOUND"
    assert "removed" in refused.json()["error"]["message"]


def test_a_blocked_user_sees_neither_the_account_nor_its_lists_nor_it_in_other_lists(
    acting: Acting, people: People
) -> None:
    for fan in (people.alice, people.dana):
        ok(acting(fan).post(f"{API}/users/{people.carol}/follow"))
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/block"))
    bob = acting(people.bob)
    for path in ("", "/followers", "/following", "/friends", f"/mutuals/{people.carol}", "/followers-you-know"):
        assert code(bob.get(f"{API}/users/{people.alice}{path}"), 403) == "FORBIDDEN"
    assert code(bob.get(f"{API}/users/{people.carol}/mutuals/{people.alice}"), 403) == "FORBIDDEN"
    assert ids(ok(bob.get(f"{API}/users/{people.carol}/followers"))) == [people.dana]
    assert ids(ok(acting(people.alice).get(f"{API}/users/{people.carol}/followers"))) == [people.dana, people.alice]


def test_a_mute_is_invisible_to_others(acting: Acting, people: People) -> None:
    answer = ok(acting(people.alice).post(f"{API}/users/{people.bob}/mute"))
    assert (answer["muting"], answer["changed"]) == (True, True)
    assert ok(acting(people.bob).post(f"{API}/users/{people.alice}/follow"))["following"]
    row = ok(acting(people.bob).post(f"{API}/relationships", json={"targets": [people.alice]}))["relationships"][0]
    assert not any(row[name] for name in ("blocking", "blockedBy", "muting"))
    assert not ok(acting(people.alice).delete(f"{API}/users/{people.bob}/mute"))["muting"]


def test_relationships_answer_one_row_per_target_in_order(acting: Acting, people: People) -> None:
    alice, bob, carol, dana = people
    ok(acting(alice).post(f"{API}/users/{bob}/follow"))
    ok(acting(bob).post(f"{API}/users/{alice}/follow"))
    ok(acting(alice).post(f"{API}/users/{carol}/block"))
    ok(acting(dana).post(f"{API}/users/{alice}/block"))
    ok(acting(alice).post(f"{API}/users/{bob}/mute"))
    rows = ok(acting(alice).post(f"{API}/relationships", json={"targets": [str(dana), bob, carol]}))["relationships"]
    nothing = dict.fromkeys(("following", "followedBy", "requested", "blocking", "blockedBy", "muting"), False)
    assert rows == [
        {"id": str(dana), **nothing, "blockedBy": True},
        {"id": str(bob), **nothing, "following": True, "followedBy": True, "muting": True},
        {"id": str(carol), **nothing, "blocking": True},
    ]


def test_lists_of_friends_mutuals_and_followers_you_know(http: httpx.Client, acting: Acting, people: People) -> None:
    alice, bob, carol, dana = people
    edges = [(alice, bob), (bob, alice), (alice, carol), (bob, carol), (alice, dana), (bob, dana), (carol, dana)]
    for position, edge in enumerate(edges):
        add_edges(http, "follows", edge, position=position)
    assert ids(ok(http.get(f"{API}/users/{alice}/friends"))) == [bob]
    assert ids(ok(http.get(f"{API}/users/{alice}/mutuals/{bob}"))) == [dana, carol]
    assert ids(ok(acting(alice).get(f"{API}/users/{dana}/followers-you-know"))) == [carol, bob]


@pytest.mark.parametrize("others", [6, 60])
def test_pages_of_friends_and_mutuals_show_each_user_once_in_both_directions(
    http: httpx.Client, people: People, others: int
) -> None:
    crowd = people.crowd(60)
    both = crowd[:: 60 // others]
    add_edges(http, "follows", *((people.alice, other) for other in crowd), position=1)
    add_edges(http, "follows", *((people.bob, other) for other in both), *((other, people.alice) for other in both))
    for path in (f"{API}/users/{people.alice}/friends", f"{API}/users/{people.alice}/mutuals/{people.bob}"):
        pages, bodies = walk(http, path, 4)
        assert [one for page in pages for one in page] == both[::-1]
        back, cursor = [pages[-1]], bodies[-1]["pagination"]["prevCursor"]
        while cursor:
            body = ok(http.get(path, params={"limit": 4, "cursor": cursor}))
            back.append(ids(body))
            cursor = body["pagination"]["prevCursor"]
        assert [one for page in back[::-1] for one in page] == both[::-1]


def test_a_follow_beyond_the_limit_is_a_409_that_names_the_limit(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    crowd = people.crowd(FOLLOWS_MAX)
    for target in crowd:
        ok(acting(people.alice).post(f"{API}/users/{target}/follow"))
    answer = acting(people.alice).post(f"{API}/users/{people.bob}/follow")
    assert code(answer, 409) == "FOLLOW_LIMIT_REACHED"
    assert answer.json()["error"]["details"] == {"max": FOLLOWS_MAX}
    assert ok(http.get(f"{API}/graph/follows/{people.alice}/out/count")) == {"count": FOLLOWS_MAX}
    assert ok(acting(people.alice).post(f"{API}/users/{crowd[0]}/follow"))["following"]
    ok(acting(people.alice).delete(f"{API}/users/{crowd[0]}/follow"))
    assert ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))["changed"]


# --- users -----------------------------------------------------------------------------------------------


def test_a_user_has_state_privacy_and_exact_counts(http: httpx.Client, acting: Acting, people: People) -> None:
    path = f"{API}/users/{people.alice}"
    empty = {
        "id": str(people.alice), "state": "normal", "private": False, "followingCount": 0, "followersCount": 0,
        "postCount": 0, **NO_PROFILE,
    }  # fmt: skip
    assert ok(http.get(path)) == empty
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/follow"))
    ok(acting(people.carol).post(f"{API}/users/{people.alice}/follow"))
    ok(acting(people.dana).post(f"{API}/users/{people.alice}/follow"))
    met = {**empty, "followingCount": 1, "followersCount": 2}
    assert ok(http.get(path)) == met
    assert ok(http.put(path, json={"private": True})) == {**met, "private": True}
    assert ok(http.patch(path, json={})) == {**met, "private": True}
    assert ok(http.patch(path, json={"private": False})) == met


def test_a_private_account_gets_requests_and_accepts_or_declines_them(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, carol, _ = people
    ok(http.put(f"{API}/users/{alice}", json={"private": True}))
    asked = ok(acting(bob).post(f"{API}/users/{alice}/follow"))
    assert (asked["following"], asked["changed"], asked["requested"]) == (False, True, True)
    assert not check(http, "follows", bob, alice)
    assert not ok(acting(bob).post(f"{API}/users/{alice}/follow"))["changed"]
    ok(acting(carol).post(f"{API}/users/{alice}/follow"))
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == [carol, bob]
    row = ok(acting(bob).post(f"{API}/relationships", json={"targets": [alice]}))["relationships"][0]
    assert row["requested"]
    assert code(acting(bob).get(f"{API}/users/{alice}/followers"), 403) == "FORBIDDEN"

    accepted = acting(alice).post(f"{API}/follow-requests/{bob}/accept")
    assert ok(accepted)["following"]
    assert accepted.headers["Kith-Token"] == accepted.json()["token"]
    again = ok(acting(alice).post(f"{API}/follow-requests/{bob}/accept"))
    assert (again["following"], again["changed"]) == (True, False)
    assert check(http, "follows", bob, alice)
    assert ids(ok(acting(bob).get(f"{API}/users/{alice}/followers"))) == [bob]
    declined = ok(acting(alice).post(f"{API}/follow-requests/{carol}/decline"))
    assert (declined["following"], declined["changed"]) == (False, True)
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == []
    assert code(acting(alice).post(f"{API}/follow-requests/{carol}/accept"), 404) == "USER_NOT_FOUND"
    assert ok(acting(carol).post(f"{API}/users/{alice}/follow"))["requested"]
    assert ok(acting(carol).delete(f"{API}/users/{alice}/follow"))["changed"]
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == []


def test_an_account_that_becomes_public_accepts_all_requests(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, carol, _ = people
    crowd = people.crowd(3 + FOLLOWS_MAX)
    path, fans = f"{API}/users/{alice}", [*crowd[:3], bob]
    ok(http.put(path, json={"private": True}))
    for asking in (*fans, carol):
        assert ok(acting(asking).post(f"{path}/follow"))["requested"]
    add_edges(http, "follows", *((carol, other) for other in crowd[3:]))
    ok(acting(alice).patch(path, json={"bio": "still private"}))
    assert not check(http, "follows", bob, alice)
    ok(acting(alice).put(path, json={"private": False}))
    eventually(lambda: set(ids(ok(http.get(f"{path}/followers")))) == set(fans))
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == [carol], "carol follows as many accounts as allowed"


def test_a_request_of_a_hidden_account_waits_until_it_is_visible_again(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, carol, _ = people
    ok(http.put(f"{API}/users/{alice}", json={"private": True}))
    for asking in (bob, carol):
        ok(acting(asking).post(f"{API}/users/{alice}/follow"))
    ok(http.put(f"{API}/labels/user/{bob}", json={"labels": ["hide"]}))
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == [carol]
    assert code(acting(alice).post(f"{API}/follow-requests/{bob}/accept"), 404) == "USER_NOT_FOUND"
    assert not check(http, "follows", bob, alice)
    ok(http.delete(f"{API}/labels/user/{bob}"))
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == [carol, bob]
    assert ok(acting(alice).post(f"{API}/follow-requests/{bob}/accept"))["following"]


def test_accepting_a_requester_at_the_follow_limit_is_refused_with_the_reason(
    http: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, *_ = people
    ok(http.put(f"{API}/users/{alice}", json={"private": True}))
    ok(acting(bob).post(f"{API}/users/{alice}/follow"))
    crowd = people.crowd(FOLLOWS_MAX)
    add_edges(http, "follows", *((bob, other) for other in crowd))
    refused = acting(alice).post(f"{API}/follow-requests/{bob}/accept")
    assert code(refused, 409) == "REQUESTER_LIMIT_REACHED"
    assert refused.json()["error"]["details"] == {"id": str(bob), "max": FOLLOWS_MAX}
    assert ids(ok(acting(alice).get(f"{API}/follow-requests"))) == [bob]
    ok(acting(bob).delete(f"{API}/users/{crowd[0]}/follow"))
    assert ok(acting(alice).post(f"{API}/follow-requests/{bob}/accept"))["following"]


def test_a_profile_counts_existing_posts(http: httpx.Client, acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    first, _ = make(alice), make(alice, visibility="private")
    path = f"{API}/users/{people.alice}"
    assert [ok(one.get(path))["postCount"] for one in (alice, bob, http)] == [2, 2, 2]
    assert alice.delete(f"{API}/posts/{first}").status_code == 204
    (looked_up,) = ok(bob.post(f"{API}/users/lookup", json={"ids": [people.alice]}))["users"]
    assert looked_up["postCount"] == 1


def test_a_block_removes_requests(http: httpx.Client, acting: Acting, people: People) -> None:
    ok(http.put(f"{API}/users/{people.alice}", json={"private": True}))
    ok(acting(people.bob).post(f"{API}/users/{people.alice}/follow"))
    ok(acting(people.alice).post(f"{API}/users/{people.bob}/block"))
    assert ids(ok(acting(people.alice).get(f"{API}/follow-requests"))) == []
    assert code(acting(people.alice).post(f"{API}/follow-requests/{people.bob}/accept"), 404) == "USER_NOT_FOUND"
    assert not check(http, "follows", people.bob, people.alice)


def test_deactivate_empties_the_lists_and_reactivate_restores_each_edge_at_its_place(
    system: httpx.Client, acting: Acting, people: People
) -> None:
    alice, bob, carol, dana = people
    for position, edge in enumerate([(alice, bob), (carol, bob), (dana, bob), (bob, alice)]):
        add_edges(system, "follows", edge, position=position)
    job = finish(system, system.post(f"{API}/users/{carol}/deactivate"))
    assert (job["operation"], job["user"], job["edges"]) == ("archive", str(carol), 1)
    assert ids(ok(system.get(f"{API}/users/{bob}/followers"))) == [dana, alice]
    assert ok(system.get(f"{API}/users/{carol}"))["state"] == "archived"
    assert code(acting(alice).post(f"{API}/users/{carol}/follow"), 404) == "USER_NOT_FOUND"
    assert code(acting(carol).post(f"{API}/users/{alice}/follow"), 403) == "FORBIDDEN"
    job = finish(system, system.post(f"{API}/users/{carol}/reactivate"))
    assert (job["operation"], job["edges"]) == ("restore", 1)
    assert ids(ok(system.get(f"{API}/users/{bob}/followers"))) == [dana, carol, alice]
    assert ok(system.get(f"{API}/users/{carol}"))["state"] == "normal"


def test_an_edge_comes_back_when_both_ends_are_active_again(http: httpx.Client, people: People) -> None:
    add_edges(http, "follows", (people.alice, people.bob))
    for user in (people.alice, people.bob):
        finish(http, http.post(f"{API}/users/{user}/deactivate"))
    finish(http, http.post(f"{API}/users/{people.alice}/reactivate"))
    assert not check(http, "follows", people.alice, people.bob)
    finish(http, http.post(f"{API}/users/{people.bob}/reactivate"))
    assert check(http, "follows", people.alice, people.bob)


def test_a_deleted_user_is_gone_for_good(http: httpx.Client, people: People) -> None:
    add_edges(http, "follows", (people.alice, people.bob), (people.bob, people.alice))
    job = finish(http, http.delete(f"{API}/users/{people.alice}"))
    assert (job["operation"], job["edges"]) == ("remove", 2)
    assert code(http.get(f"{API}/users/{people.alice}"), 404) == "USER_NOT_FOUND"
    assert ids(ok(http.get(f"{API}/users/{people.bob}/followers"))) == []
    assert code(http.post(f"{API}/users/{people.alice}/reactivate"), 404) == "USER_NOT_FOUND"


# --- operations ------------------------------------------------------------------------------------------


def test_health_readiness_and_metrics_need_no_key(server: Server, people: People) -> None:
    with server.client("") as nobody, server.client(acting=people.alice) as alice:
        health = ok(nobody.get("/healthz"))
        assert health["status"] == "ok"
        assert health["version"]
        assert ok(nobody.get("/readyz")) == {"ready": True, "problems": {}}
        ok(alice.post(f"{API}/users/{people.bob}/follow"))
        answer = nobody.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        for family in (
            'kith_request_seconds_bucket{le="0.0001",operation="follow"}',
            'kith_responses_total{operation="follow",status="200"}',
            'kith_store_call_seconds_bucket{le="5.0",method="apply",port="edges"}',
            "kith_commit_seconds_count",
            "kith_commit_writes_sum",
            "kith_commit_queue_depth",
            *(() if ON_CLUSTER else ("kith_log_events", "kith_store_bytes")),
        ):
            assert family in answer.text


def test_metrics_count_each_answer_once(http: httpx.Client, people: People) -> None:
    def count() -> float:
        lines = http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    name = 'kith_responses_total{operation="check",status="200"}'
    before = count()
    for _ in range(7):
        check(http, "follows", people.alice, people.bob)
    assert count() == before + 7


def test_the_docs_page_and_the_openapi_document_name_every_route(server: Server) -> None:
    with server.client("") as nobody:
        document = ok(nobody.get("/openapi.json"))
        page = nobody.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert document["openapi"].startswith("3.")
    operations = [(path, operation) for path, item in document["paths"].items() for operation in item.values()]
    for path, operation in operations:
        assert path in page.text, path
        assert f"<h2>{operation['tags'][0]}</h2>" in page.text, path
    assert "prefixItems" not in str(document), "client generators support only lists of one type"
    for path in ("graph/select", "relationships", "users/{user_id}/follow", "graph/{graph}/{node}/out/count"):
        assert f"{API}/{path}" in document["paths"]
    assert "http://" not in page.text.replace("http://127.0.0.1", "")
    assert "https://" not in page.text
