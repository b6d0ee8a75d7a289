"""Posts over real HTTP: the contract, bad input, and who sees what (article 001)."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import add_edges, code, finish, ids, make, ok, texts, upload
from cast import People
from pictures import mp4, photo
from servers import API, DEFAULT_SETTINGS, Server, serving

from kith.core.ids import NODES_MAX

Acting = Callable[[int], httpx.Client]
_SECOND_PROCESS_S = 30
NO_AUTHOR = {"username": None, "displayName": "", "avatarUrl": None, "isVerified": False}
POST = {
    "id", "author", "content", "engagement", "visibility", "audience", "mentions", "attributes", "createdAt",
    "editedAt", "allowComments", "allowSharing", "location", "labels",
}  # fmt: skip


# --- posts -------------------------------------------------------------------------------------------------


def test_a_new_post_is_answered_in_the_shape_of_the_article(acting: Acting, people: People) -> None:
    answer = acting(people.alice).post(f"{API}/posts", json={"content": {"text": "Hello world!"}})
    body = ok(answer, 201)
    assert set(body) == {"id", "author", "content", "createdAt", "visibility", "fanoutStatus"}
    assert body["author"] == {"id": str(people.alice), **NO_AUTHOR}
    assert body["content"] == {"type": "text", "text": "Hello world!", "link": None, "media": []}
    assert (body["visibility"], body["fanoutStatus"]) == ("public", "pending")
    assert isinstance(body["id"], str)
    made = datetime.fromisoformat(body["createdAt"])
    assert abs(datetime.now(UTC) - made) < timedelta(minutes=1)
    token = answer.headers["Kith-Token"]
    ok(acting(people.bob).get(f"{API}/posts/{body['id']}", headers={"Kith-Token": token}))


def test_a_post_reads_as_it_was_created(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    film, image = upload(alice, mp4(), altText="a fox"), upload(alice, photo())
    asked = {
        "content": {
            "text": "look 🦊",
            "link": "https://example.com/?a=b",
            "mediaIds": [film["id"], int(image["id"]), film["id"]],
            "type": "video",
        },
        "visibility": "custom",
        "audience": [people.bob, str(people.dana)],
        "mentions": [str(people.carol)],
        "attributes": {"mood": ["warm", 1, None, {"deep": 2**60}]},
    }
    ok(alice.patch(f"{API}/users/{people.alice}", json={"displayName": "Alice", "avatar": image["id"]}))
    id_ = ok(alice.post(f"{API}/posts", json=asked), 201)["id"]
    body = ok(alice.get(f"{API}/posts/{id_}"))
    assert set(body) == POST
    author = {"displayName": "Alice", "avatarUrl": image["thumbnailUrl"]}
    assert body["author"] == {"id": str(people.alice), **NO_AUTHOR, **author}
    assert body["content"] == {
        "type": "video", "text": "look 🦊", "link": "https://example.com/?a=b", "media": [film, image]
    }  # fmt: skip
    assert body["audience"] == [str(people.bob), str(people.dana)]
    assert (body["mentions"], body["attributes"]) == ([str(people.carol)], asked["attributes"])
    assert body["engagement"] == {
        "likeCount": 0, "commentCount": 0, "shareCount": 0, "viewCount": 0,
        "isLiked": False, "isSaved": False, "isShared": False
    }  # fmt: skip
    assert body["editedAt"] is None
    assert ok(acting(people.dana).get(f"{API}/posts/{id_}"))["audience"] is None, "only the author sees the audience"
    assert code(acting(people.carol).get(f"{API}/posts/{id_}"), 404) == "POST_NOT_FOUND"


@pytest.mark.parametrize(
    ("content", "status_code"),
    [
        ({"text": ""}, "INVALID_CONTENT"),
        ({"text": " \n "}, "INVALID_CONTENT"),
        ({}, "INVALID_CONTENT"),
        ({"text": "x" * 10_001}, "INVALID_CONTENT"),
        ({"text": "x" * 100 * 1024}, "INVALID_CONTENT"),
        ({"link": "javascript:alert(1)"}, "INVALID_CONTENT"),
        ({"text": "x", "type": "image"}, "INVALID_CONTENT"),
        ({"mediaIds": [1] * 2 + list(range(30))}, "INVALID_CONTENT"),
        ({"mediaIds": ["x"]}, "INVALID_ID"),
        ({"mediaIds": [-1]}, "INVALID_ID"),
        ({"mediaIds": [7]}, "INVALID_CONTENT"),
        ({"text": "x", "type": "poll"}, "INVALID_REQUEST"),
        ({"text": 5}, "INVALID_REQUEST"),
        ({"text": None}, "INVALID_REQUEST"),
        ({"text": "x", "html": "<b>"}, "INVALID_REQUEST"),
        ("x", "INVALID_REQUEST"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_content_that_breaks_a_rule_is_refused(acting: Acting, people: People, content: Any, status_code: str) -> None:
    alice = acting(people.alice)
    assert code(alice.post(f"{API}/posts", json={"content": content}), 400) == status_code
    assert texts(alice, f"/users/{people.alice}/posts") == []


@pytest.mark.parametrize(
    "fields",
    [
        {"visibility": "everyone"},
        {"visibility": "custom"},
        {"audience": [1]},
        {"attributes": {"x": "y" * 5_000}},
        {"attributes": []},
        {"mentions": list(range(51))},
        {"mentions": [True]},
        {"author": "5"},
    ],
    ids=str,
)
def test_a_post_with_invalid_or_unknown_fields_is_refused(acting: Acting, people: People, fields: Any) -> None:
    body = {"content": {"text": "x"}, **fields}
    assert code(acting(people.alice).post(f"{API}/posts", json=body), 400)[:7] == "INVALID"


@pytest.mark.parametrize(
    "body",
    [
        b'{"content":{"text":"\xff\xfe"}}',
        b'{"content":{"text":"\xed\xa0\x80"}}',
        b'{"content":{"text":"\\ud800"}}',
        b'{"content":{"text":"x"}',
        b"",
        b'{"content":{"text":"x"},"attributes":{"x":1e999}}',
        b'{"content":{"text":"x"},"attributes":' + b'{"x":' * 50_000 + b"1" + b"}" * 50_001,
    ],
    ids=lambda body: str(body)[:40],
)
def test_a_body_that_is_not_text_or_not_json_is_a_400(acting: Acting, people: People, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    post = acting(people.alice).post(f"{API}/posts", content=body, headers=headers)
    assert code(post, 400) == "INVALID_REQUEST"
    assert texts(acting(people.alice), f"/users/{people.alice}/posts") == []


def test_numbers_beyond_64_bits_are_returned_unchanged(acting: Acting, people: People) -> None:
    big = {"big": 2**70, "small": -(2**70), "float": 1.5}
    id_ = make(acting(people.alice), attributes=big)
    assert ok(acting(people.alice).get(f"{API}/posts/{id_}"))["attributes"] == big


def test_nobody_posts_as_another(owner: Acting, server: Server, people: People) -> None:
    answer = owner(people.bob).post(
        f"{API}/posts", json={"content": {"text": "x"}}, headers={"X-Kith-User": str(people.alice)}
    )
    assert code(answer, 403) == "FORBIDDEN"
    with server.client() as http:
        assert code(http.post(f"{API}/posts", json={"content": {"text": "x"}}), 400) == "INVALID_REQUEST"
        assert texts(http, f"/users/{people.alice}/posts") == []
    for graph in ("authored", "comments"):
        edges = {"edges": [{"op": "add", "source": people.bob, "destination": "5"}]}
        assert code(owner(people.bob).post(f"{API}/graph/{graph}/edges", json=edges), 403) == "FORBIDDEN"


def test_an_edit_changes_what_it_names_for_all_readers(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    id_ = make(alice, "old", attributes={"a": 1})
    for nothing in ({}, {"content": {}}):
        assert ok(alice.patch(f"{API}/posts/{id_}", json=nothing))["editedAt"] is None
    answer = alice.patch(f"{API}/posts/{id_}", json={"content": {"text": "new"}})
    assert answer.headers["Kith-Token"]
    seen = ok(bob.get(f"{API}/posts/{id_}"))
    assert (seen["content"]["text"], seen["attributes"]) == ("new", {"a": 1})
    assert seen["editedAt"] is not None
    ok(alice.patch(f"{API}/posts/{id_}", json={"visibility": "private"}))
    assert code(bob.get(f"{API}/posts/{id_}"), 404) == "POST_NOT_FOUND"
    for body in ({"content": {"text": ""}}, {"visibility": "custom"}, {"attributes": {"x": "y" * 5_000}}):
        assert code(alice.patch(f"{API}/posts/{id_}", json=body), 400) == "INVALID_CONTENT"
    assert code(alice.patch(f"{API}/posts/{id_}", json={"author": "5"}), 400) == "INVALID_REQUEST"


def test_only_its_author_changes_or_deletes_a_post(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    public, private = make(alice), make(alice, visibility="private")
    for method, body in (("DELETE", None), ("PATCH", {"content": {"text": "mine"}})):
        assert code(bob.request(method, f"{API}/posts/{public}", json=body), 403) == "FORBIDDEN"
        assert code(bob.request(method, f"{API}/posts/{private}", json=body), 404) == "POST_NOT_FOUND"
    assert ok(alice.get(f"{API}/posts/{public}"))["content"]["text"] == "hello"


def test_a_deleted_post_is_gone_for_everybody(acting: Acting, http: httpx.Client, people: People) -> None:
    alice = acting(people.alice)
    id_ = make(alice)
    assert alice.delete(f"{API}/posts/{id_}").status_code == 204
    for reader in (alice, acting(people.bob), http):
        assert code(reader.get(f"{API}/posts/{id_}"), 404) == "POST_NOT_FOUND"
        assert texts(reader, f"/users/{people.alice}/posts") == []
    assert code(alice.delete(f"{API}/posts/{id_}"), 404) == "POST_NOT_FOUND"
    assert code(acting(people.bob).post(f"{API}/posts/{id_}/comments", json={"text": "x"}), 404) == "POST_NOT_FOUND"


def test_an_outbox_pages_through_the_posts_the_reader_may_see(
    acting: Acting, system: httpx.Client, people: People
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    for at in range(7):
        make(alice, str(at), visibility="private" if at % 2 else "public")
    path = f"/users/{people.alice}/posts"
    assert texts(alice, path, limit=2) == texts(system, path, limit=3) == list("6543210")
    assert texts(bob, path, limit=2) == list("6420")
    first = ok(bob.get(API + path, params={"limit": 2}))
    assert len(first["items"]) == 2, "the private post between them takes no place"
    assert first["pagination"]["hasMore"]
    cursor = first["pagination"]["nextCursor"]
    assert code(acting(people.carol).get(API + path, params={"cursor": cursor}), 400) == "CURSOR_INVALID"


def test_a_list_reveals_neither_the_number_nor_the_dates_of_hidden_posts(acting: Acting, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    nothing = {"nextCursor": None, "prevCursor": None, "hasMore": False}
    made = [make(alice, visibility="private") for _ in range(3)]
    made.append(make(alice, visibility="custom", audience=[people.carol]))
    path = f"{API}/users/{people.alice}/posts"
    times = [datetime.fromisoformat(ok(alice.get(f"{API}/posts/{id_}"))["createdAt"]) for id_ in made]
    for at in (int(made_at.timestamp() * 1000) for made_at in times):
        for part in ({}, {"since": at, "until": at + 1}, {"since": at}, {"until": at + 1}):
            body = ok(bob.get(path, params={"limit": 1, **part}))
            assert body == {"items": [], "pagination": nothing}, part
    shown = int(make(alice))
    make(alice, visibility="private")
    body = ok(bob.get(path, params={"limit": 1}))
    assert (ids(body), body["pagination"]) == ([shown], nothing)


def test_friends_private_accounts_blocks_and_deactivation_hide_posts(
    acting: Acting, system: httpx.Client, people: People
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    public, friends = make(alice), make(alice, visibility="friends")

    def seen() -> list[bool]:
        return [bob.get(f"{API}/posts/{id_}").status_code == 200 for id_ in (public, friends)]

    assert seen() == [True, False]
    add_edges(system, "follows", (people.bob, people.alice))
    assert seen() == [True, False]
    add_edges(system, "follows", (people.alice, people.bob))
    assert seen() == [True, True]
    ok(system.patch(f"{API}/users/{people.alice}", json={"private": True}))
    assert seen() == [True, True]
    assert code(acting(people.carol).get(f"{API}/posts/{public}"), 404) == "POST_NOT_FOUND"
    assert code(acting(people.carol).get(f"{API}/users/{people.alice}/posts"), 403) == "FORBIDDEN"
    ok(system.patch(f"{API}/users/{people.alice}", json={"private": False}))
    for blocker, blocked in ((alice, people.bob), (bob, people.alice)):
        ok(blocker.post(f"{API}/users/{blocked}/block"))
        assert seen() == [False, False]
        assert code(bob.post(f"{API}/posts/{public}/like"), 404) == "POST_NOT_FOUND"
        assert code(bob.post(f"{API}/posts/{public}/comments", json={"text": "x"}), 404) == "POST_NOT_FOUND"
        ok(blocker.delete(f"{API}/users/{blocked}/block"))
    assert seen() == [True, False]
    finish(system, system.post(f"{API}/users/{people.alice}/deactivate"))
    assert seen() == [False, False]
    assert ok(system.get(f"{API}/posts/{public}"))["id"] == public, "the app sees the post"
    assert code(alice.post(f"{API}/posts", json={"content": {"text": "x"}}), 403) == "FORBIDDEN"
    finish(system, system.post(f"{API}/users/{people.alice}/reactivate"))
    assert seen() == [True, False]
    assert len(texts(alice, f"/users/{people.alice}/posts")) == 2


# --- idempotency -------------------------------------------------------------------------------------------


def test_an_edit_that_changes_nothing_is_no_edit(acting: Acting, people: People) -> None:
    alice = acting(people.alice)
    path = f"{API}/posts/{make(alice)}"
    for body in ({}, {"visibility": "public"}, {"content": {"text": "hello", "link": None}}):
        assert ok(alice.patch(path, json=body))["editedAt"] is None
    edited = ok(alice.patch(path, json={"content": {"text": "bye"}}))
    assert edited["editedAt"]
    assert ok(alice.patch(path, json={"content": {"text": "bye"}})) == edited


def test_a_repeated_key_gets_the_same_answer_and_posts_once(acting: Acting, people: People) -> None:
    alice, key = acting(people.alice), {"Idempotency-Key": "a-key_1"}
    body = {"content": {"text": "once"}}
    first, again = (alice.post(f"{API}/posts", json=body, headers=key) for _ in range(2))
    assert ok(first, 201) == ok(again, 201)
    assert again.headers["Kith-Token"]
    assert texts(alice, f"/users/{people.alice}/posts") == ["once"]
    other = alice.post(f"{API}/posts", json={"content": {"text": "other"}}, headers=key)
    assert code(other, 409) == "IDEMPOTENCY_KEY_REUSED"
    ok(acting(people.bob).post(f"{API}/posts", json=body, headers=key), 201)
    assert texts(acting(people.bob), f"/users/{people.bob}/posts") == ["once"]


def test_a_repeated_key_gets_the_post_in_its_current_state(acting: Acting, people: People) -> None:
    alice, key = acting(people.alice), {"Idempotency-Key": "a-key_2"}
    body = {"content": {"text": "hello", "mediaIds": [upload(alice, photo())["id"]]}}
    first = ok(alice.post(f"{API}/posts", json=body, headers=key), 201)
    other = upload(alice, photo(orientation=6))
    ok(alice.patch(f"{API}/posts/{first['id']}", json={"content": {"text": "bye", "mediaIds": [other["id"]]}}))
    again = ok(alice.post(f"{API}/posts", json=body, headers=key), 201)
    assert again == {**first, "content": {**first["content"], "text": "bye", "media": [other]}}
    assert alice.delete(f"{API}/posts/{first['id']}").status_code == 204
    assert code(alice.post(f"{API}/posts", json=body, headers=key), 404) == "POST_NOT_FOUND"


@pytest.mark.parametrize("key", [b"", b"x" * 201, "é".encode()], ids=["empty", "long", "not-ASCII"])
def test_an_invalid_key_is_refused(acting: Acting, people: People, key: bytes) -> None:
    headers = {b"Idempotency-Key": key}
    answer = acting(people.alice).post(f"{API}/posts", json={"content": {"text": "x"}}, headers=headers)
    assert code(answer, 400) == "INVALID_REQUEST"


def test_a_key_in_the_query_is_refused_not_ignored(acting: Acting, people: People) -> None:
    for name in ("idempotency_key", "Idempotency-Key"):
        answer = acting(people.alice).post(f"{API}/posts", params={name: "k"}, json={"content": {"text": "x"}})
        assert code(answer, 400) == "INVALID_REQUEST"


def test_posts_and_keys_survive_a_kill(tmp_path: Path, people: People) -> None:
    body, key = {"content": {"text": "once"}}, {"Idempotency-Key": "k"}
    answers = []
    for _ in range(2):
        with serving(tmp_path, settings=DEFAULT_SETTINGS) as server, server.client(acting=people.alice) as alice:
            answers.append(ok(alice.post(f"{API}/posts", json=body, headers=key), 201))
            ok(alice.post(f"{API}/posts/{answers[0]['id']}/like"))
            seen = ok(alice.get(f"{API}/posts/{answers[0]['id']}"))
            assert seen["engagement"]["likeCount"] == 1
            assert texts(alice, f"/users/{people.alice}/posts") == ["once"]
            server.process.kill()
            server.process.wait()
    assert answers[0] == answers[1]


def test_two_processes_make_different_ids(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, "--workers", "2") as server:
        made: list[int] = []
        numbers: set[int] = set()
        deadline = time.monotonic() + _SECOND_PROCESS_S  # the second process may start long after the first
        while len(numbers) < 2 and time.monotonic() < deadline:
            with server.client(acting=people.alice) as http:
                made.append(int(make(http)))
            numbers.add(made[-1] >> 12 & NODES_MAX - 1)
        assert len(numbers) == 2, "each process has its own node number"
        assert len(set(made)) == len(made)
