"""Concurrent requests: limits hold exactly, no follow coexists with a block, and a change counts once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from calls import NO_PROFILE, add_edges, check, code, finish, ids, ok
from cast import People
from servers import API, FOLLOWS_MAX, ON_CLUSTER, Server, eventually, serving

THREADS = 24
ROUNDS = 8 if ON_CLUSTER else 40
COUPLES = 60


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two processes, so that races are between processes too."""
    with serving(tmp_path_factory.mktemp("pair"), "--workers", "2", KITH_FOLLOWS_MAX="10") as running:
        yield running


def concurrently(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls at the same time; returns their answers."""
    with ThreadPoolExecutor(THREADS) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def post(server: Server, path: str, acting: int | None = None, **options: Any) -> Callable[[], httpx.Response]:
    """A POST on its own connection, so that any process may get it."""

    def call() -> httpx.Response:
        with server.client(acting=acting) as http:
            return http.request(options.pop("method", "POST"), API + path, **options)

    return call


@pytest.mark.parametrize("which", ["server", "pair"])
def test_200_concurrent_follows_never_exceed_the_limit(request: Any, people: People, which: str) -> None:
    server: Server = request.getfixturevalue(which)
    limit = FOLLOWS_MAX if which == "server" else 10
    answers = concurrently([post(server, f"/users/{target}/follow", people.alice) for target in people.crowd(200)])
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {code(answer, 409) for answer in refused} == {"FOLLOW_LIMIT_REACHED"}
    assert len(answers) - len(refused) == limit
    with server.client() as http:
        assert ok(http.get(f"{API}/graph/follows/{people.alice}/out/count")) == {"count": limit}
        assert len(ids(ok(http.get(f"{API}/users/{people.alice}/following", params={"limit": 1000})))) == limit


def test_a_follow_sent_concurrently_many_times_changes_once(pair: Server, people: People) -> None:
    answers = [ok(answer) for answer in concurrently([post(pair, f"/users/{people.bob}/follow", people.alice)] * 50)]
    assert all(answer["following"] for answer in answers)
    assert sum(answer["changed"] for answer in answers) == 1
    with pair.client() as http:
        assert ids(ok(http.get(f"{API}/users/{people.bob}/followers"))) == [people.alice]
        assert ok(http.get(f"{API}/graph/follows/{people.bob}/in/count")) == {"count": 1}


def test_no_follow_coexists_with_a_block_whichever_was_first(pair: Server, people: People) -> None:
    crowd = people.crowd(2 * COUPLES)
    couples = list(zip(crowd[::2], crowd[1::2], strict=True))
    calls = []
    for one, other in couples:
        calls += [post(pair, f"/users/{other}/follow", one), post(pair, f"/users/{one}/block", other)]
        calls += [post(pair, f"/users/{one}/follow", other)]
    random.Random(7).shuffle(calls)
    answers = concurrently(calls)
    assert {answer.status_code for answer in answers} <= {200, 403}
    with pair.client() as http:
        for one, other in couples:
            assert check(http, "blocks", other, one)
            assert not check(http, "follows", one, other)
            assert not check(http, "follows", other, one)


def test_concurrent_follows_and_unfollows_leave_lists_and_counts_that_agree(pair: Server, people: People) -> None:
    crowd = people.crowd(9)
    calls = []
    for _ in range(8):
        for target in crowd:
            calls.append(post(pair, f"/users/{target}/follow", people.alice))
            calls.append(post(pair, f"/users/{target}/follow", people.alice, method="DELETE"))
    random.Random(8).shuffle(calls)
    changes = sum(ok(answer)["changed"] for answer in concurrently(calls))
    with pair.client() as http:
        following = set(ids(ok(http.get(f"{API}/users/{people.alice}/following"))))
        assert ok(http.get(f"{API}/graph/follows/{people.alice}/out/count")) == {"count": len(following)}
        for target in crowd:
            there = target in following
            assert check(http, "follows", people.alice, target) == there
            assert ids(ok(http.get(f"{API}/users/{target}/followers"))) == [people.alice] * there
    assert changes % 2 == len(following) % 2


def test_a_change_of_privacy_is_not_lost_in_a_concurrent_deactivation(pair: Server, people: People) -> None:
    with pair.client(acting="system") as http:
        for user in people.crowd(ROUNDS):
            change = post(pair, f"/users/{user}", method="PATCH", json={"private": True})
            changed, started = concurrently([change, post(pair, f"/users/{user}/deactivate")])
            ok(changed)
            finish(http, started)
            assert ok(http.get(f"{API}/users/{user}")) == {
                "id": str(user), "state": "archived", "private": True, "followingCount": 0, "followersCount": 0,
                "postCount": 0, **NO_PROFILE,
            }  # fmt: skip


def test_no_request_waits_at_a_public_account_whichever_change_was_last(pair: Server, people: People) -> None:
    crowd = people.crowd(2 * ROUNDS)
    with pair.client(acting="system") as http:
        for user, fan in zip(crowd[::2], crowd[1::2], strict=True):
            changes = [post(pair, f"/users/{user}", user, method="PATCH", json={"private": at}) for at in (True, False)]
            for answer in concurrently([*changes, post(pair, f"/users/{user}/follow", fan)]):
                ok(answer)
            if not ok(http.get(f"{API}/users/{user}"))["private"]:
                eventually(lambda user=user, fan=fan: check(http, "follows", fan, user))


def test_a_block_holds_while_the_blocked_user_is_being_reactivated(server: Server, people: People) -> None:
    alice, bob, _, _ = people
    with server.client() as http, server.client(acting=bob) as bobs:
        add_edges(http, "blocks", (alice, bob), position=0)
        for first in range(0, 4_000, 1_000):
            crowd = people.crowd(4_000)[first : first + 1_000]
            add_edges(http, "blocks", *((other, bob) for other in crowd), position=1)
        finish(http, http.post(f"{API}/users/{bob}/deactivate"))
        started = http.post(f"{API}/users/{bob}/reactivate")
        tried = bobs.post(f"{API}/users/{alice}/follow")
        finish(http, started)
        assert check(http, "blocks", alice, bob)
        assert not check(http, "follows", bob, alice), f"the follow was answered {tried.status_code}"


@pytest.mark.parametrize("way_back", ["reactivate", "put"])
def test_a_block_survives_the_deletion_and_return_attempts_of_the_blocked_user(
    server: Server, people: People, way_back: str
) -> None:
    alice, bob, _, _ = people
    with server.client() as http, server.client(acting=bob) as bobs, server.client(acting=alice) as alices:
        ok(alices.post(f"{API}/users/{bob}/block"))
        finish(http, bobs.delete(f"{API}/users/{bob}"))
        if way_back == "reactivate":
            bobs.post(f"{API}/users/{bob}/reactivate")
        else:
            bobs.put(f"{API}/users/{bob}", json={})
        tried = bobs.post(f"{API}/users/{alice}/follow")
        assert tried.status_code in (403, 404)
        assert not check(http, "follows", bob, alice)


def test_a_deletion_completes_although_the_profile_is_set_meanwhile(server: Server, people: People) -> None:
    alice = people.alice
    with server.client() as http, server.client(acting=alice) as alices:
        for first in range(0, 4_000, 1_000):
            crowd = people.crowd(4_000)[first : first + 1_000]
            add_edges(http, "follows", *((other, alice) for other in crowd))
        started = alices.delete(f"{API}/users/{alice}")
        alices.put(f"{API}/users/{alice}", json={})
        finish(http, started)
        assert ok(http.get(f"{API}/graph/follows/{alice}/in/count")) == {"count": 0}


def test_a_name_set_while_its_user_is_deleted_is_free_again(pair: Server, people: People) -> None:
    with pair.client() as http:
        for round_, user in enumerate(people.crowd(ROUNDS)):
            name = f"racer{user}x{round_}"
            sets = [
                post(pair, f"/users/{user}", user, method="PATCH", json={"username": name, "bio": f"mine {at}"})
                for at in range(4)
            ]
            *_, gone = concurrently([*sets, post(pair, f"/users/{user}", user, method="DELETE")])
            finish(http, gone)
            taken = http.patch(f"{API}/users/{people.alice}", json={"username": name})
            assert ok(taken)["username"] == name, "the name is free"


def test_a_post_sent_concurrently_with_one_key_is_created_once(pair: Server, people: People) -> None:
    body, key = {"content": {"text": "once"}}, {"Idempotency-Key": "key"}
    answers = concurrently([post(pair, "/posts", people.alice, json=body, headers=key) for _ in range(THREADS)])
    assert len({ok(answer, 201)["id"] for answer in answers}) == 1
    with pair.client() as http:
        assert len(ok(http.get(f"{API}/users/{people.alice}/posts"))["items"]) == 1


def test_concurrent_likes_are_counted_exactly(pair: Server, people: People) -> None:
    with pair.client(acting=people.alice) as alice:
        id_ = ok(alice.post(f"{API}/posts", json={"content": {"text": "x"}}), 201)["id"]
        likers = people.crowd(50) * 3
        for answer in concurrently([post(pair, f"/posts/{id_}/like", liker) for liker in likers]):
            assert ok(answer)["liked"]
        assert ok(alice.get(f"{API}/posts/{id_}"))["engagement"]["likeCount"] == 50


def test_a_concurrent_edit_and_delete_leave_the_post_deleted(pair: Server, people: People) -> None:
    with pair.client(acting=people.alice) as alice:
        for _ in range(ROUNDS):
            id_ = ok(alice.post(f"{API}/posts", json={"content": {"text": "x"}}), 201)["id"]
            change = {"content": {"text": "y"}}
            edit = post(pair, f"/posts/{id_}", people.alice, method="PATCH", json=change)
            edited, gone = concurrently([edit, post(pair, f"/posts/{id_}", people.alice, method="DELETE")])
            assert (edited.status_code in (200, 404), gone.status_code) == (True, 204)
            assert alice.get(f"{API}/posts/{id_}").status_code == 404
        assert ok(alice.get(f"{API}/users/{people.alice}/posts"))["items"] == []
