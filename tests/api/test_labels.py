"""Moderation over HTTP: what a label hides from whom, on every route, at once; and what the app can read of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import add_edges, code, finish, ids, make, ok
from cast import People
from servers import API, DEFAULT_SETTINGS, ON_CLUSTER, serving

Acting = Callable[[int], httpx.Client]


def label(http: httpx.Client, kind: str, id_: int | str, *labels: str, **fields: Any) -> Any:
    """Set the labels of an object; returns the answer."""
    return ok(http.put(f"{API}/labels/{kind}/{id_}", json={"labels": labels, **fields}))


def seen(http: httpx.Client, author: int, post: str) -> list[bool]:
    """Whether a post is visible by its id, in its author's posts, and at home."""
    alone = http.get(f"{API}/posts/{post}")
    assert alone.status_code == 200 or code(alone, 404) == "POST_NOT_FOUND"
    outbox = http.get(f"{API}/users/{author}/posts")
    home = ok(http.get(f"{API}/feed"))["posts"] if "X-Kith-User" in http.headers else []
    listed = outbox.status_code == 200 and int(post) in ids(outbox.json())
    return [alone.status_code == 200, listed, post in [one["id"] for one in home]]


@pytest.mark.parametrize("kind", ["post", "user"])
def test_a_post_labelled_hide_is_visible_to_the_app_and_its_author_only(
    acting: Acting, system: httpx.Client, people: People, kind: str
) -> None:
    alice, bob, carol = (acting(user) for user in people[:3])
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    post = make(alice)
    assert seen(bob, people.alice, post) == [True, True, True]
    label(system, kind, post if kind == "post" else people.alice, "hide")
    for other in (bob, carol):
        assert seen(other, people.alice, post) == [False, False, False]
        for verb in ("like", "save", "share", "view", "hide"):
            assert code(other.post(f"{API}/posts/{post}/{verb}"), 404) == "POST_NOT_FOUND"
        assert code(other.post(f"{API}/posts/{post}/comments", json={"text": "x"}), 404) == "POST_NOT_FOUND"
        assert code(other.get(f"{API}/posts/{post}/comments"), 404) == "POST_NOT_FOUND"
    assert seen(alice, people.alice, post) == [True, True, True], "its author sees the post and its label"
    for reader in (alice, system):
        assert ok(reader.get(f"{API}/posts/{post}"))["labels"] == ["hide"]
    ok(system.delete(f"{API}/labels/{kind}/{post if kind == 'post' else people.alice}"))
    assert seen(bob, people.alice, post) == [True, True, True]
    assert ok(bob.get(f"{API}/posts/{post}"))["labels"] == []


@pytest.mark.parametrize("kind", ["post", "user"])
def test_a_post_labelled_limit_is_visible_to_followers_who_do_not_see_the_label(
    acting: Acting, system: httpx.Client, people: People, kind: str
) -> None:
    alice, bob, carol = (acting(user) for user in people[:3])
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    post = make(alice)
    label(system, kind, post if kind == "post" else people.alice, "limit", "sensitive")
    assert seen(bob, people.alice, post) == [True, True, True]
    assert seen(carol, people.alice, post) == [False, False, False]
    assert ok(bob.get(f"{API}/posts/{post}"))["labels"] == ["sensitive"]
    for reader in (alice, system):
        assert ok(reader.get(f"{API}/posts/{post}"))["labels"] == ["limit", "sensitive"]
    ok(bob.delete(f"{API}/users/{people.alice}/follow"))
    assert seen(bob, people.alice, post) == [False, False, False]
    ok(carol.post(f"{API}/users/{people.alice}/follow"))
    assert seen(carol, people.alice, post) == [True, True, True]


@pytest.mark.parametrize("kind", ["post", "user"])
def test_a_limited_post_ranks_below_others_and_only_its_author_sees_why(
    acting: Acting, http: httpx.Client, people: People, kind: str
) -> None:
    alice, bob, carol = (acting(user) for user in people[:3])
    for author in (people.alice, people.bob):
        ok(carol.post(f"{API}/users/{author}/follow"))
    older, newest = make(bob, "one"), make(alice, "two")
    label(http, kind, newest if kind == "post" else people.alice, "limit")
    ranked = ok(carol.get(f"{API}/feed"))["posts"]
    assert [post["id"] for post in ranked] == [older, newest]
    assert ranked[1]["ranking"]["score"] == pytest.approx(ranked[0]["ranking"]["score"], abs=0.01)
    why, own = (ok(reader.get(f"{API}/posts/{newest}/why")) for reader in (carol, alice))
    added, added_to_own = (sum(part["adds"] for part in told["parts"]) for told in (why, own))
    assert (why["damping"], why["score"]) == (1, pytest.approx(added, abs=1e-3))
    assert (own["damping"], own["score"]) == (0.1, pytest.approx(added_to_own / 10, abs=1e-3))
    assert [post["id"] for post in ok(carol.get(f"{API}/feed?type=latest"))["posts"]] == [newest, older]


def test_the_label_sensitive_is_shown_everywhere(acting: Acting, http: httpx.Client, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    one, other = make(alice, "one"), make(alice, "other")
    comment = ok(alice.post(f"{API}/posts/{other}/comments", json={"text": "hi"}), 201)["id"]
    label(http, "post", one, "sensitive")
    home = {post["id"]: post["labels"] for post in ok(bob.get(f"{API}/feed"))["posts"]}
    assert home == {one: ["sensitive"], other: []}
    label(http, "user", people.alice, "sensitive")
    assert {tuple(post["labels"]) for post in ok(bob.get(f"{API}/feed"))["posts"]} == {("sensitive",)}
    (shown,) = ok(bob.get(f"{API}/posts/{other}/comments"))["items"]
    assert (shown["id"], shown["labels"]) == (comment, ["sensitive"])
    assert ok(bob.get(f"{API}/users/{people.alice}"))["labels"] == ["sensitive"]
    edited = ok(alice.patch(f"{API}/posts/{other}", json={"content": {"text": "new"}}))
    assert edited["labels"] == ["sensitive"]
    http.delete(f"{API}/labels/user/{people.alice}")
    assert ok(bob.get(f"{API}/posts/{other}"))["labels"] == [], "the label of the user was never one of the post"


def test_comments_and_replies_of_a_hidden_user_disappear_and_return(
    acting: Acting, system: httpx.Client, people: People
) -> None:
    alice, bob, carol = (acting(user) for user in people[:3])
    post = make(alice)
    path = f"{API}/posts/{post}/comments"
    first = ok(bob.post(path, json={"text": "first"}), 201)["id"]
    ok(carol.post(path, json={"text": "reply", "replyTo": first}), 201)
    ok(carol.post(path, json={"text": "second"}), 201)

    def texts(reader: httpx.Client) -> list[Any]:
        items = ok(reader.get(path, params={"sort": "oldest"}))["items"]
        return [(item["text"], [reply["text"] for reply in item["replies"]]) for item in items]

    assert texts(alice) == [("first", ["reply"]), ("second", [])]
    label(system, "user", people.carol, "hide")
    assert texts(alice) == texts(bob) == [("first", [])]
    assert texts(carol) == texts(system) == [("first", ["reply"]), ("second", [])]
    label(system, "user", people.carol, "limit")
    assert texts(alice) == [("first", [])]
    ok(alice.post(f"{API}/users/{people.carol}/follow"))
    assert texts(alice) == [("first", ["reply"]), ("second", [])]
    label(system, "user", people.carol)
    assert texts(bob) == [("first", ["reply"]), ("second", [])]


def test_a_hidden_account_is_invisible_to_others_and_can_still_act(
    acting: Acting, system: httpx.Client, people: People
) -> None:
    alice, bob, name = acting(people.alice), acting(people.bob), f"hidden{people.alice}"
    ok(alice.patch(f"{API}/users/{people.alice}", json={"username": name}))
    label(system, "user", people.alice, "hide")
    for path in (f"{people.alice}", f"by-username/{name}"):
        assert code(bob.get(f"{API}/users/{path}"), 404) == "USER_NOT_FOUND"
        assert ok(alice.get(f"{API}/users/{path}"))["labels"] == ["hide"]
        assert ok(system.get(f"{API}/users/{path}"))["state"] == "normal", "hiding is no deactivation"
    for path in ("posts", "followers", "following", "friends"):
        assert code(bob.get(f"{API}/users/{people.alice}/{path}"), 404) == "USER_NOT_FOUND"
    assert code(bob.patch(f"{API}/users/{people.bob}", json={"username": name}), 409) == "USERNAME_TAKEN"
    make(alice)
    ok(alice.post(f"{API}/users/{people.bob}/follow"))
    finish(system, system.post(f"{API}/users/{people.alice}/deactivate"))
    finish(system, system.post(f"{API}/users/{people.alice}/reactivate"))
    assert ok(system.get(f"{API}/labels/user/{people.alice}"))["labels"] == ["hide"]
    add_edges(system, "follows", (people.carol, people.alice))
    assert ok(acting(people.carol).get(f"{API}/feed"))["posts"] == []


def test_a_hidden_account_is_in_lists_for_the_app_only(acting: Acting, system: httpx.Client, people: People) -> None:
    alice, bob, hidden = (acting(user) for user in people[:3])
    add_edges(system, "follows", (people.alice, people.carol), (people.alice, people.bob), (people.bob, people.carol))
    add_edges(system, "follows", (people.carol, people.alice), (people.carol, people.bob), (people.bob, people.alice))
    ok(system.put(f"{API}/users/{people.dana}", json={"private": True}))
    ok(hidden.post(f"{API}/users/{people.dana}/follow"))
    label(system, "user", people.carol, "hide")
    lists = ["following", "followers", "friends", "followers-you-know", f"mutuals/{people.bob}"]
    for name in lists:
        assert people.carol not in ids(ok(alice.get(f"{API}/users/{people.alice}/{name}"))), name
        assert people.carol not in ids(ok(bob.get(f"{API}/users/{people.alice}/{name}"))), name
    assert ids(ok(acting(people.dana).get(f"{API}/follow-requests"))) == []
    assert people.carol in ids(ok(hidden.get(f"{API}/users/{people.alice}/followers"))), (
        "a hidden user does not notice it"
    )
    assert people.carol in ids(ok(system.get(f"{API}/users/{people.alice}/followers")))


def test_raw_lists_and_checks_of_a_user_token_leave_out_hidden_accounts(
    owner: Acting, http: httpx.Client, people: People
) -> None:
    alice, bob, *_ = people
    hidden = int(make(owner(bob)))  # the id of this post is used as the id of the hidden user
    edges = [(alice, bob), (bob, alice), (alice, hidden), (hidden, alice)]
    own = [("follows", *pair) for pair in edges] + [("mutes", *pair) for pair in edges[::2]]
    lists = [("follows", "in"), ("follows", "out"), ("mutes", "out")]
    for graph, *pair in own:
        add_edges(http, graph, (pair[0], pair[1]))
    ok(owner(alice).post(f"{API}/posts/{hidden}/like"))

    def answers(client: httpx.Client) -> list[Any]:
        """What the routes answer about Bob, then about the hidden user."""
        found: list[Any] = []
        shown = [ids(ok(client.get(f"{API}/graph/{graph}/{alice}/{end}"))) for graph, end in lists]
        for graph, end in lists:
            leaf = {"graph": graph, "node": str(alice), "direction": end}
            shown.append(ids(ok(client.post(f"{API}/graph/select", json={"program": leaf}))))
        for other in (bob, hidden):
            mine = [(graph, *pair) for graph, *pair in own if other in pair]
            told = [other in one for one in shown]
            for graph, source, destination in mine:
                path = f"{API}/graph/{graph}/{source}/{destination}"
                told.append(ok(client.get(path))["exists"])
                told.append(client.get(path + "/edge").status_code == 200)
                pairs = {"pairs": [[source, destination]]}
                told += ok(client.post(f"{API}/graph/{graph}/check", json=pairs))["exists"]
            found.append(set(told))
        return found

    assert answers(owner(alice)) == answers(http) == [{True}, {True}]
    label(http, "user", hidden, "hide")
    assert answers(owner(alice)) == [{True}, {False}]
    assert answers(http) == [{True}, {True}], "the app sees everything"
    assert ids(ok(owner(alice).get(f"{API}/graph/likes/{alice}/out"))) == [hidden]
    assert ok(owner(alice).get(f"{API}/graph/likes/{alice}/{hidden}"))["exists"]
    assert ids(ok(owner(hidden).get(f"{API}/graph/follows/{hidden}/in"))) == [alice], "a hidden user does not notice it"
    label(http, "user", hidden)
    assert answers(owner(alice)) == [{True}, {True}]


def test_relationships_to_a_hidden_account_look_like_those_to_an_unknown_one(
    owner: Acting, http: httpx.Client, people: People
) -> None:
    """Edges of all kinds (on a cluster, a follow does not last beside a block)."""
    alice, bob, hidden, nobody = people
    for graph in ("follows", "mutes", "blocks", "follow_requests"):
        add_edges(http, graph, (alice, bob), (bob, alice), (alice, hidden), (hidden, alice))
    label(http, "user", hidden, "hide")

    def standing(user: int, *targets: int) -> list[set[bool]]:
        rows = ok(owner(user).post(f"{API}/relationships", json={"targets": targets}))["relationships"]
        assert [int(row.pop("id")) for row in rows] == list(targets)
        return [set(row.values()) for row in rows]

    shown, *others = standing(alice, bob, hidden, nobody)
    assert True in shown
    assert others == [{False}, {False}]
    assert True in standing(hidden, alice)[0], "a hidden user does not notice it"


def test_a_username_reveals_nothing_of_an_account_that_may_not_be_seen(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    """The name of a hidden account, or of one that blocks the reader, is answered like a free name."""
    alice, names = acting(people.alice), [f"user{user}" for user in people]
    for user, name in zip(people, names, strict=True):
        ok(http.put(f"{API}/users/{user}", json={"username": name}))
    label(http, "user", people.bob, "hide")
    ok(acting(people.carol).post(f"{API}/users/{people.alice}/block"))
    free = alice.get(f"{API}/users/by-username/no.such.name")
    for name in names[1:3]:
        refused = alice.get(f"{API}/users/by-username/{name}")
        assert refused.status_code == 404
        assert refused.text.replace(name, "no.such.name") == free.text
    assert ok(alice.get(f"{API}/users/by-username/{names[3]}"))["id"] == str(people.dana)
    assert ok(acting(people.bob).get(f"{API}/users/by-username/{names[1]}"))["labels"] == ["hide"]
    post = make(alice, " ".join(f"@{name}" for name in names), visibility="private")
    assert ok(alice.get(f"{API}/posts/{post}"))["mentions"] == [str(people.alice), str(people.dana)]
    edited = ok(alice.patch(f"{API}/posts/{post}", json={"content": {"text": f"@{names[1]} and @{names[2]}"}}))
    assert edited["mentions"] == []


def test_labels_also_apply_to_stories_and_lookups(acting: Acting, http: httpx.Client, people: People) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    ok(bob.post(f"{API}/users/{people.alice}/follow"))
    post, other = make(alice), make(bob)
    story = ok(alice.post(f"{API}/stories", json={"content": {"text": "x"}}), 201)["id"]
    own = ok(bob.post(f"{API}/stories", json={"content": {"text": "x"}}), 201)["id"]
    ok(alice.post(f"{API}/stories/{own}/view"))

    def found() -> list[Any]:
        posts = ok(bob.post(f"{API}/posts/lookup", json={"ids": [post, other]}))["posts"]
        users = ok(bob.post(f"{API}/users/lookup", json={"ids": [people.alice, people.bob]}))["users"]
        strip = ok(bob.get(f"{API}/stories"))["items"]
        viewers = ok(bob.get(f"{API}/stories/{own}/viewers"))["items"]
        shown = bob.get(f"{API}/stories/{story}").status_code
        return [[one and one["id"] for one in rows] for rows in (posts, users, strip, viewers)] + [shown]

    both = [str(people.alice), str(people.bob)]
    assert found() == [[post, other], both, both[::-1], [both[0]], 200]
    label(http, "user", people.alice, "hide")
    assert found() == [[None, other], [None, both[1]], [both[1]], [], 404]
    assert ok(alice.get(f"{API}/stories/{story}"))["labels"] == ["hide"]
    label(http, "user", people.alice, "limit", "sensitive")
    assert found() == [[post, other], both, both[::-1], [both[0]], 200]
    assert ok(bob.get(f"{API}/stories/{story}"))["labels"] == ["sensitive"]
    assert code(acting(people.carol).get(f"{API}/stories/{story}"), 404) == "STORY_NOT_FOUND"


@pytest.mark.parametrize("kind", ["post", "user"])
def test_labels_read_as_they_were_set(acting: Acting, http: httpx.Client, people: People, kind: str) -> None:
    id_ = make(acting(people.alice)) if kind == "post" else str(people.alice)
    path = f"{API}/labels/{kind}/{id_}"
    nothing = {"id": id_, "type": kind, "labels": [], "reason": "", "changedAt": None}
    assert ok(http.get(path)) == nothing
    answer = http.put(path, json={"labels": ["sensitive", "limit", "limit"], "reason": "two reports 🦊"})
    body = ok(answer)
    assert answer.headers["Kith-Token"]
    assert body == ok(http.get(path))
    assert (body["labels"], body["reason"]) == (["limit", "sensitive"], "two reports 🦊")
    assert abs(datetime.now(UTC) - datetime.fromisoformat(body["changedAt"])) < timedelta(minutes=1)
    again = http.put(path, json={"labels": ["limit", "sensitive"], "reason": "two reports 🦊"})
    assert ok(again) == body
    assert "Kith-Token" not in again.headers, "nothing changed"
    for _ in range(2):
        assert ok(http.delete(path))["labels"] == []
    assert {**ok(http.get(path)), "changedAt": None} == nothing
    assert ok(http.put(path, json={"labels": []}))["labels"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("post/5", {"labels": ["hide"]}, 404, "POST_NOT_FOUND"),
        ("comment/5", {"labels": ["hide"]}, 400, "INVALID_REQUEST"),
        ("post%0A/5", {"labels": ["hide"]}, 400, "INVALID_REQUEST"),
        ("post/x", {"labels": ["hide"]}, 400, "INVALID_ID"),
        ("user/1", {"labels": ["ban"]}, 400, "INVALID_REQUEST"),
        ("user/1", {"labels": "hide"}, 400, "INVALID_REQUEST"),
        ("user/1", {}, 400, "INVALID_REQUEST"),
        ("user/1", {"labels": [], "until": "tomorrow"}, 400, "INVALID_REQUEST"),
        ("user/1", {"labels": ["hide"], "reason": "x" * 1_001}, 400, "INVALID_CONTENT"),
    ],
    ids=str,
)
def test_unknown_labels_are_refused(http: httpx.Client, path: str, body: Any, status: int, error: str) -> None:
    assert code(http.put(f"{API}/labels/{path}", json=body), status) == error


def test_a_deleted_post_and_a_removed_account_cannot_be_labelled(
    acting: Acting, http: httpx.Client, people: People
) -> None:
    alice = acting(people.alice)
    gone, post = make(alice), make(alice)
    alice.delete(f"{API}/posts/{gone}")
    assert code(http.put(f"{API}/labels/post/{gone}", json={"labels": ["hide"]}), 404) == "POST_NOT_FOUND"
    finish(http, http.delete(f"{API}/users/{people.alice}"))
    assert code(http.put(f"{API}/labels/post/{post}", json={"labels": ["hide"]}), 404) == "POST_NOT_FOUND"
    assert code(http.put(f"{API}/labels/user/{people.alice}", json={"labels": []}), 404) == "USER_NOT_FOUND"


def test_labels_hold_in_every_process_and_after_a_kill(tmp_path: Path, people: People) -> None:
    with (
        serving(tmp_path, "--workers", "2", settings=DEFAULT_SETTINGS) as server,
        server.client(acting=people.alice) as alice,
    ):
        post, other = make(alice), make(alice)
        with server.client() as http:
            label(http, "post", post, "hide", reason="spam")
            label(http, "user", people.alice, "sensitive")
        for _ in range(20):
            with server.client(acting=people.bob) as bob:  # a new connection, so that either process may answer
                assert code(bob.get(f"{API}/posts/{post}"), 404) == "POST_NOT_FOUND"
                assert ok(bob.get(f"{API}/posts/{other}"))["labels"] == ["sensitive"]
        server.process.kill()
        server.process.wait()
    with serving(tmp_path, settings=DEFAULT_SETTINGS) as server, server.client(acting=people.bob) as bob:
        assert code(bob.get(f"{API}/posts/{post}"), 404) == "POST_NOT_FOUND"
        with server.client() as http:
            assert ok(http.get(f"{API}/labels/post/{post}"))["reason"] == "spam"
            assert ok(http.get(f"{API}/labels/user/{people.alice}"))["labels"] == ["sensitive"]


@pytest.mark.skipif(ON_CLUSTER, reason="reads the data folder")
def test_nothing_that_a_removed_account_wrote_stays_in_the_store(tmp_path: Path, people: People) -> None:
    with serving(tmp_path) as server, server.client(acting=people.alice) as alice, server.client() as http:
        posts = [make(alice, f"word-of-alice-{at}", attributes={"a": "word-of-alice"}) for at in range(5)]
        ok(alice.put(f"{API}/users/{people.alice}", json={"bio": "word-of-alice"}))
        ok(alice.post(f"{API}/stories", json={"content": {"text": "word-of-alice"}}), 201)
        with server.client(acting=people.bob) as bob:
            other = make(bob)
            for text in ("word-of-alice", "another word-of-alice"):
                ok(alice.post(f"{API}/posts/{other}/comments", json={"text": text}), 201)
        finish(http, http.delete(f"{API}/users/{people.alice}"))
        assert ok(http.get(f"{API}/posts/{other}"))["engagement"]["commentCount"] == 0
        assert {http.get(f"{API}/posts/{post}").status_code for post in posts} == {404}
        server.terminate()
        assert server.process.returncode == 0
    import lmdb  # noqa: PLC0415 - the store as it lies on disk

    with lmdb.open(str(server.data / "store.mdb"), subdir=False, max_dbs=300, readonly=True) as store:
        objects = store.open_db(b"objects")
        with store.begin(objects) as txn:
            assert not [value for _, value in txn.cursor() if b"word-of-alice" in value]
