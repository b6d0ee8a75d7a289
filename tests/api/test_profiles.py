"""Usernames, verified accounts, and what the author of a post allows, over HTTP (article 001)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import NO_PROFILE, code, finish, ok, upload
from cast import People
from in_process import client_of
from pictures import photo
from servers import API, KEY, serving

from kith.run.api import open_api as in_one_process
from kith.run.config import Settings

Acting = Callable[[int], httpx.Client]
HELLO = {"content": {"text": "hello"}}


def name_of(user: int, prefix: str = "Ann.") -> str:
    """A username that only this test uses."""
    return f"{prefix}{user}"


# --- usernames ---------------------------------------------------------------------------------------------


def test_a_user_is_found_by_name_in_any_spelling(acting: Acting, owner: Acting, people: People) -> None:
    path, name = f"{API}/users/{people.alice}", name_of(people.alice)
    set_ = ok(owner(people.alice).patch(path, json={"username": name, "displayName": "Ann"}))
    assert (set_["username"], set_["displayName"]) == (name, "Ann")
    for spelling in (name, name.lower(), name.upper()):
        assert ok(acting(people.bob).get(f"{API}/users/by-username/{spelling}")) == set_
    for unknown in ("nobody-here", "x" * 31, "5", name + "x", "%F0%9F%A6%8A", "%FF", "a%20b"):
        assert code(acting(people.bob).get(f"{API}/users/by-username/{unknown}"), 404) == "USER_NOT_FOUND"
    ok(owner(people.alice).post(f"{API}/users/{people.bob}/block"))
    assert code(acting(people.bob).get(f"{API}/users/by-username/{name}"), 404) == "USER_NOT_FOUND"


def test_a_taken_name_is_a_conflict_and_changes_nothing(acting: Acting, people: People) -> None:
    name, bob = name_of(people.alice), acting(people.bob)
    ok(acting(people.alice).patch(f"{API}/users/{people.alice}", json={"username": name}))
    body = {"username": name.upper(), "displayName": "Thief", "private": True}
    for method in ("PUT", "PATCH"):
        refused = bob.request(method, f"{API}/users/{people.bob}", json=body)
        assert code(refused, 409) == "USERNAME_TAKEN"
        assert refused.json()["error"]["details"] == {"username": name.upper()}
    seen = ok(bob.get(f"{API}/users/{people.bob}"))
    assert (seen["username"], seen["displayName"], seen["private"]) == (None, "", False)


@pytest.mark.parametrize("name", ["ann b", "x" * 31, "12345", ".ann", "ann.", "änn", "ann\n", "a/b", "\ud800"])
def test_a_name_that_breaks_the_rule_is_refused(acting: Acting, people: People, name: str) -> None:
    body = b'{"username":"\\ud800"}' if name == "\ud800" else None
    alice, path = acting(people.alice), f"{API}/users/{people.alice}"
    headers = {"Content-Type": "application/json"}
    answer = alice.patch(path, content=body, headers=headers) if body else alice.patch(path, json={"username": name})
    assert code(answer, 400)[:7] == "INVALID"
    assert ok(alice.get(path))["username"] is None


def test_a_name_is_free_again_when_it_is_changed_given_up_or_its_account_removed(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    first, second = name_of(people.alice), name_of(people.alice, "Second.")

    def take(user: int, name: str) -> int:
        return acting(user).patch(f"{API}/users/{user}", json={"username": name}).status_code

    assert [take(people.alice, first), take(people.alice, second), take(people.bob, first)] == [200, 200, 200]
    assert [take(people.carol, second), take(people.alice, ""), take(people.carol, second)] == [409, 200, 200]
    assert take(people.alice, first) == 409
    ok(acting(people.bob).put(f"{API}/users/{people.bob}", json={"displayName": "Bob"}))
    assert take(people.alice, first) == 409, "a PUT keeps omitted fields"
    assert ok(acting(people.bob).put(f"{API}/users/{people.bob}", json={"username": None}))["username"] is None
    assert take(people.alice, first) == 200
    finish(http, http.post(f"{API}/users/{people.alice}/deactivate"))
    assert take(people.bob, first) == 409, "a deactivated account keeps its name"
    finish(http, http.delete(f"{API}/users/{people.alice}"))
    assert take(people.bob, first) == 200
    assert ok(http.get(f"{API}/users/by-username/{first}"))["id"] == str(people.bob)


def test_of_many_concurrent_requests_for_a_name_on_two_processes_one_succeeds(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, "--workers", "2") as server, ThreadPoolExecutor(16) as pool:

        def take(user: int, name: str) -> int:
            with server.client(acting=user) as http:
                return http.patch(f"{API}/users/{user}", json={"username": name}).status_code

        users = people.crowd(16)
        for round_ in range(5):
            names = [f"Wanted{round_}" if user % 2 else f"wanted{round_}" for user in users]
            assert sorted(pool.map(take, users, names)) == [200] + [409] * 15
            with server.client() as http:
                holder = ok(http.get(f"{API}/users/by-username/wanted{round_}"))
                assert holder["username"].lower() == f"wanted{round_}"


# --- setting a profile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_omitted_fields_stay_and_null_clears_a_field(
    acting: Acting, http: httpx.Client, people: People, method: str
) -> None:
    """An app that puts a name and a picture at every login must neither make a private account public nor free its
    name.
    """
    alice, path = acting(people.alice), f"{API}/users/{people.alice}"
    image = upload(alice, photo())["id"]
    said = {
        "private": True, "username": name_of(people.alice), "displayName": "Ann", "bio": "I paint", "avatar": image,
        "attributes": {"city": "Paris"}, "isVerified": True,
    }  # fmt: skip
    assert said.items() <= ok(http.put(path, json=said)).items()
    assert said.items() <= ok(http.request(method, path, json={})).items()
    assert (said | {"displayName": "Anna"}).items() <= ok(
        http.request(method, path, json={"displayName": "Anna"})
    ).items()
    assert not ok(http.request(method, path, json={"private": False}))["private"]
    nothing = dict.fromkeys(("username", "displayName", "bio", "avatar", "attributes"))
    cleared = ok(http.request(method, path, json=nothing))
    assert (NO_PROFILE | {"isVerified": True}).items() <= cleared.items()
    for not_clear in ("private", "isVerified"):
        assert code(http.request(method, path, json={not_clear: None}), 400) == "INVALID_REQUEST"


def test_the_token_of_a_profile_write_covers_its_privacy(tmp_path: Path) -> None:
    """A request with this token must not be answered with the state before the account became private."""

    async def play() -> None:
        headers = {"authorization": f"Bearer {KEY}"}
        settings = Settings(data=str(tmp_path), api_keys=(KEY,))
        async with in_one_process(settings) as api, client_of(api.door, **headers) as client:
            for private in (True, False):
                answer = await client.put(f"{API}/users/1", json={"bio": "I paint", "private": private})
                known = api.door._client_tokens.consistency
                mark = await known.catch_up(answer.headers["kith-token"])
                assert mark.at == await known._log.end()

    asyncio.run(play())


# --- verified accounts -------------------------------------------------------------------------------------


def test_only_the_app_verifies_and_a_users_own_writes_keep_the_verification(
    acting: Acting, owner: Acting, http: httpx.Client, people: People
) -> None:
    path, alice = f"{API}/users/{people.alice}", owner(people.alice)
    for method in ("PUT", "PATCH"):
        for said in (True, False):
            assert code(alice.request(method, path, json={"isVerified": said}), 403) == "FORBIDDEN"
    assert ok(http.patch(path, json={"isVerified": True}))["isVerified"]
    assert ok(alice.put(path, json={"displayName": "Alice"}))["isVerified"]
    post = ok(alice.post(f"{API}/posts", json=HELLO), 201)
    assert post["author"]["isVerified"]
    assert ok(acting(people.bob).get(f"{API}/posts/{post['id']}"))["author"]["isVerified"]
    assert not ok(http.put(path, json={"isVerified": False}))["isVerified"]


# --- the author of a post decides --------------------------------------------------------------------------


def test_a_new_post_and_its_comments_name_their_authors(acting: Acting, people: People) -> None:
    alice, name = acting(people.alice), name_of(people.alice)
    ok(alice.put(f"{API}/users/{people.alice}", json={"username": name, "displayName": "Ann"}))
    author = {"id": str(people.alice), "username": name, "displayName": "Ann", "isVerified": False}
    image = upload(alice, photo())
    body = {"content": {"mediaIds": [image["id"]]}, "visibility": "public", "allowComments": True, "allowSharing": True}
    made = ok(alice.post(f"{API}/posts", json=body), 201)
    assert author.items() <= made["author"].items()
    assert made["content"]["media"] == [image]
    comment = ok(alice.post(f"{API}/posts/{made['id']}/comments", json={"text": "x"}), 201)
    assert author.items() <= comment["author"].items()


def test_comments_and_shares_are_refused_if_the_author_disallows_them(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    id_ = ok(alice.post(f"{API}/posts", json={**HELLO, "allowComments": False, "allowSharing": False}), 201)["id"]
    seen = ok(bob.get(f"{API}/posts/{id_}"))
    assert (seen["allowComments"], seen["allowSharing"]) == (False, False)
    for actor in (alice, bob):
        assert code(actor.post(f"{API}/posts/{id_}/comments", json={"text": "x"}), 403) == "FORBIDDEN"
        assert code(actor.post(f"{API}/posts/{id_}/share"), 403) == "FORBIDDEN"
        ok(actor.post(f"{API}/posts/{id_}/like"))
    ok(alice.patch(f"{API}/posts/{id_}", json={"allowComments": True, "allowSharing": True}))
    comment = ok(bob.post(f"{API}/posts/{id_}/comments", json={"text": "x"}), 201)["id"]
    ok(bob.post(f"{API}/posts/{id_}/share"))
    changed = ok(alice.patch(f"{API}/posts/{id_}", json={"allowComments": False, "allowSharing": False}))
    assert (changed["allowComments"], changed["allowSharing"]) == (False, False)
    assert [one["id"] for one in ok(bob.get(f"{API}/posts/{id_}/comments"))["items"]] == [comment]
    refused = bob.post(f"{API}/posts/{id_}/comments", json={"text": "x", "replyTo": comment})
    assert code(refused, 403) == "FORBIDDEN"
    assert not ok(bob.delete(f"{API}/posts/{id_}/share"))["shared"]


def test_a_location_is_shown_changed_and_removed(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    here = {"latitude": 37.7749, "longitude": -122.4194, "name": "San Francisco, CA"}
    id_ = ok(alice.post(f"{API}/posts", json={**HELLO, "location": here}), 201)["id"]
    path = f"{API}/posts/{id_}"
    assert ok(bob.get(path))["location"] == here
    assert ok(alice.patch(path, json={"content": {"text": "new"}}))["location"] == here
    pole = {"latitude": 90, "longitude": 180, "name": ""}
    assert ok(alice.patch(path, json={"location": {"latitude": 90, "longitude": 180}}))["location"] == pole
    assert ok(alice.patch(path, json={"location": None}))["location"] is None
    assert ok(bob.get(path))["location"] is None


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ({"latitude": 90.1, "longitude": 0}, "INVALID_CONTENT"),
        ({"latitude": 0, "longitude": -181}, "INVALID_CONTENT"),
        ({"latitude": 0, "longitude": 0, "name": "x" * 101}, "INVALID_CONTENT"),
        ({"latitude": 0}, "INVALID_REQUEST"),
        ({"latitude": "north", "longitude": 0}, "INVALID_REQUEST"),
        ({"latitude": "nan", "longitude": "inf"}, "INVALID_REQUEST"),
        ({"latitude": 0, "longitude": 0, "altitude": 5}, "INVALID_REQUEST"),
        ("here", "INVALID_REQUEST"),
    ],
    ids=str,
)
def test_a_location_off_the_map_is_refused(acting: Acting, people: People, location: Any, error: str) -> None:
    alice = acting(people.alice)
    assert code(alice.post(f"{API}/posts", json={**HELLO, "location": location}), 400) == error
    id_ = ok(alice.post(f"{API}/posts", json=HELLO), 201)["id"]
    assert code(alice.patch(f"{API}/posts/{id_}", json={"location": location}), 400) == error


@pytest.mark.parametrize("away", ["blocker", "blocked"])
def test_a_block_holds_while_either_user_is_deactivated(acting: Acting, people: People, away: str) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    name = f"away{people.alice}"
    ok(alice.patch(f"{API}/users/{people.alice}", json={"username": name, "bio": "secret"}))
    ok(alice.post(f"{API}/users/{people.bob}/block"))
    gone, one = (alice, people.alice) if away == "blocker" else (bob, people.bob)
    finish(gone, gone.post(f"{API}/users/{one}/deactivate"))
    assert bob.get(f"{API}/users/{people.alice}").status_code in (403, 404)
    assert bob.get(f"{API}/users/by-username/{name}").status_code in (403, 404)
    assert ok(bob.post(f"{API}/users/lookup", json={"ids": [people.alice]}))["users"] == [None]
    (row,) = ok(alice.post(f"{API}/relationships", json={"targets": [people.bob]}))["relationships"]
    assert row["blocking"]
    (row,) = ok(bob.post(f"{API}/relationships", json={"targets": [people.alice]}))["relationships"]
    assert row["blockedBy"] == (away == "blocked"), "an account that is away tells nothing of itself"
    finish(gone, gone.post(f"{API}/users/{one}/reactivate"))
    assert code(bob.get(f"{API}/users/{people.alice}"), 403) == "FORBIDDEN"
