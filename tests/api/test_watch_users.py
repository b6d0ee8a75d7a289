"""GET /watch with a user token: a user is sent what the API would show them, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from calls import add_edges, code, finish, make, ok, say, tell
from cast import People
from servers import API, Server, comparable_order, eventually, serving, sign
from watch_reader import WatchReader

from kith.client import Kith

Opens = Callable[..., WatchReader]
EVERYTHING = "edge,post,story,comment,profile"


@pytest.fixture
def alice(server: Server, people: People) -> Iterator[httpx.Client]:
    with server.client(sign(people.alice)) as client:
        yield client


@pytest.fixture
def watch(alice: httpx.Client) -> Iterator[Opens]:
    """Opens watchers of Alice's. All are closed at the end."""
    opened: list[WatchReader] = []

    def open_(after: str | None = None, **asked: str) -> WatchReader:
        opened.append(WatchReader(alice, after, **asked))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def edges(watching: WatchReader) -> list[tuple[str, int, int, str]]:
    return [
        (one["graph"], int(one["source"]), int(one["destination"]), one["state"])
        for one in watching.changes
        if one["kind"] == "edge"
    ]


def test_a_user_is_sent_their_own_edges_and_new_followers(
    http: httpx.Client, system: httpx.Client, watch: Opens, people: People
) -> None:
    seen = watch()
    add_edges(http, "follows", (people.bob, people.carol), (people.bob, people.alice), (people.alice, people.bob))
    add_edges(http, "blocks", (people.bob, people.alice), (people.alice, people.dana))
    add_edges(http, "mutes", (people.bob, people.alice))
    finish(http, system.post(f"{API}/users/{people.bob}/deactivate"))
    add_edges(http, "follows", (people.alice, people.carol))
    eventually(lambda: edges(seen)[-1:] == [("follows", people.alice, people.carol, "normal")])
    told = set(edges(seen))
    own = {
        ("follows", people.alice, people.carol, "normal"),
        ("blocks", people.alice, people.dana, "normal"),
        ("follows", people.bob, people.alice, "removed"),  # in truth archived, which reveals who left
        ("follows", people.alice, people.bob, "removed"),
    }
    assert own <= told
    assert not [
        one for one in told if one[:2] in (("follows", people.bob), ("blocks", people.bob)) and one[2] != people.alice
    ]
    assert ("blocks", people.bob, people.alice, "normal") not in told


def test_a_follower_hidden_by_the_app_is_not_sent(
    http: httpx.Client, system: httpx.Client, watch: Opens, people: People
) -> None:
    ok(system.put(f"{API}/labels/user/{people.carol}", json={"labels": ["hide"]}))
    seen = watch()
    add_edges(http, "follows", (people.carol, people.alice), (people.bob, people.alice))
    eventually(lambda: edges(seen))
    assert edges(seen) == [("follows", people.bob, people.alice, "normal")]


def test_posts_are_sent_as_the_api_shows_them(
    acting: Callable[[int], httpx.Client], alice: httpx.Client, watch: Opens, people: People
) -> None:
    bob = acting(people.bob)
    seen = watch(kinds="post,comment,story", nodes=f"{people.bob}")
    public = make(bob, "for all")
    make(bob, "for me", visibility="private")
    make(bob, "for friends", visibility="friends")
    make(bob, "for carol", visibility="custom", audience=[str(people.carol)])
    chosen = make(bob, "for alice", visibility="custom", audience=[str(people.alice), str(people.carol)])
    said = say(bob, public, "mine")
    story = tell(bob)
    ok(bob.patch(f"{API}/posts/{public}", json={"content": {"text": "changed"}}))
    assert bob.delete(f"{API}/posts/{chosen}").status_code < 300
    eventually(lambda: seen.changes and seen.changes[-1].get("deleted"))
    told = [(one["kind"], one["id"], one["text"]) for one in seen.changes]
    assert {(kind, id_) for kind, id_, _ in told} <= {
        ("post", public), ("post", chosen), ("comment", said), ("story", story)
    }  # fmt: skip
    assert {("comment", said, "mine"), ("story", story, "look"), ("post", public, "changed")} <= set(told)
    assert all(one["audience"] == [] for one in seen.changes if one["kind"] == "post"), (
        "only the author sees the audience"
    )


def test_boards_are_sent_as_the_api_shows_them(
    acting: Callable[[int], httpx.Client], watch: Opens, people: People
) -> None:
    bob = acting(people.bob)
    seen = watch(kinds="board", nodes=f"{people.bob}")

    def board(name: str, *, secret: bool = False) -> str:
        return str(ok(bob.post(f"{API}/boards", json={"name": name, "secret": secret}), 201)["id"])

    public, hidden, shared, last = board("soups"), board("plans", secret=True), board("ours", secret=True), board("x")
    assert bob.post(f"{API}/boards/{shared}/collaborators/{people.alice}").status_code < 300
    ok(bob.patch(f"{API}/boards/{shared}", json={"name": "ours alone"}))
    ok(bob.patch(f"{API}/boards/{hidden}", json={"name": "still mine"}))
    ok(bob.patch(f"{API}/boards/{public}", json={"name": "broths"}))
    assert bob.delete(f"{API}/boards/{last}").status_code < 300
    eventually(lambda: seen.changes and seen.changes[-1]["deleted"])
    told = [(one["id"], one["name"]) for one in seen.changes if not one["deleted"]]
    assert {id_ for id_, _ in told} <= {public, shared, last}
    assert {(public, "broths"), (shared, "ours alone")} <= set(told)
    assert [one["id"] for one in seen.changes if one["deleted"]] == [last]


def test_a_history_does_not_show_what_was_hidden_or_deleted_later(
    acting: Callable[[int], httpx.Client], alice: httpx.Client, watch: Opens, people: People
) -> None:
    bob, start = acting(people.bob), watch().token
    hidden, gone, kept = make(bob, "a secret"), make(bob, "a slip"), make(bob, "first words")
    ok(bob.patch(f"{API}/posts/{hidden}", json={"visibility": "private"}))
    assert bob.delete(f"{API}/posts/{gone}").status_code < 300
    ok(bob.patch(f"{API}/posts/{kept}", json={"content": {"text": "last words"}}))
    seen = watch(after=start, kinds="post", nodes=f"{people.bob}")
    eventually(lambda: len(seen.changes) == 2)
    assert comparable_order([(one["id"], one["text"], one["deleted"]) for one in seen.changes]) == [
        (gone, "", True), (kept, "last words", False)
    ]  # fmt: skip


def test_a_random_history_equals_what_the_api_shows(tmp_path: Path) -> None:
    chance, users = random.Random(11), range(1, 6)
    with serving(tmp_path) as server, server.client() as http, server.client(sign(1)) as alice:
        start = WatchReader(alice)
        token = start.token
        acting = {user: server.client(acting=user) for user in users}
        posts: list[tuple[int, str]] = []
        for _ in range(150):
            user, other = chance.sample(users, 2)
            match chance.randrange(8):
                case 0 | 1:
                    visibility = chance.choice(["public", "public", "friends", "private"])
                    posts.append((user, make(acting[user], "words", visibility=visibility)))
                case 2:
                    acting[user].post(f"{API}/users/{other}/follow")
                case 3:
                    acting[user].delete(f"{API}/users/{other}/follow")
                case 4:
                    acting[user].post(f"{API}/users/{other}/block") if chance.random() < 0.3 else None
                case 5:
                    acting[user].patch(f"{API}/users/{user}", json={"private": chance.random() < 0.4, "bio": "b"})
                case 6 if posts:
                    author, post = chance.choice(posts)
                    acting[author].patch(f"{API}/posts/{post}", json={"content": {"text": f"words {chance.random()}"}})
                case 7 if posts:
                    _, post = chance.choice(posts)
                    acting[user].post(f"{API}/posts/{post}/comments", json={"text": "said"})
                case _:
                    pass
        nodes = ",".join(map(str, users))
        seen = WatchReader(alice, token, kinds=EVERYTHING, nodes=nodes)
        acting[1].post(f"{API}/users/999/mute")
        acting[1].post(f"{API}/users/1000/mute")
        add_edges(http, "mutes", (1, 1_001))
        eventually(lambda: edges(seen)[-1:] == [("mutes", 1, 1_001, "normal")])
        told = {kind: {} for kind in EVERYTHING.split(",")}  # type: dict[str, dict[Any, Any]]
        for one in seen.changes:
            key = (one["graph"], one["source"], one["destination"]) if one["kind"] == "edge" else one["id"]
            assert key not in told[one["kind"]], "each object is sent once, in its current state"
            told[one["kind"]][key] = one
        shown = {post: alice.get(f"{API}/posts/{post}") for _, post in posts}
        assert {post: one["text"] for post, one in told["post"].items()} == {
            post: answer.json()["content"]["text"] for post, answer in shown.items() if answer.status_code == 200
        }
        assert told["post"]
        assert {id_ for id_, one in told["profile"].items()} == {
            str(user) for user in users
            if alice.get(f"{API}/users/{user}").json().get("bio") == "b"
        }  # fmt: skip
        for (graph, source, destination), one in told["edge"].items():
            assert ok(alice.get(f"{API}/graph/{graph}/{source}/{destination}"))["exists"] is (one["state"] == "normal")
        comments = {
            comment["id"]
            for post, answer in shown.items() if answer.status_code == 200
            for comment in ok(alice.get(f"{API}/posts/{post}/comments", params={"limit": 50}))["items"]
        }  # fmt: skip
        assert set(told["comment"]) == comments
        for client in acting.values():
            client.close()
        for one in (seen, start):
            one.close()


@pytest.mark.parametrize(
    ("asked", "status", "error"),
    [
        ({"kinds": "node", "nodes": "7"}, 403, "FORBIDDEN"),
        ({"kinds": "edge,media", "nodes": "7"}, 403, "FORBIDDEN"),
        ({"kinds": "board"}, 400, "INVALID_REQUEST"),
        ({"kinds": "post"}, 400, "INVALID_REQUEST"),
        ({"graphs": "nonsense"}, 404, "GRAPH_NOT_FOUND"),
    ],
)
def test_a_watch_that_a_user_may_not_open_is_refused(
    alice: httpx.Client, asked: dict[str, str], status: int, error: str
) -> None:
    assert code(alice.get(f"{API}/watch", params=asked), status) == error


def test_tokens_of_users_and_server_keys_are_not_interchangeable(
    http: httpx.Client, alice: httpx.Client, watch: Opens, people: People
) -> None:
    mine, theirs = watch().token, WatchReader(http)
    assert mine is not None
    assert theirs.token is not None
    assert code(http.get(f"{API}/watch", params={"after": mine}), 400) == "TOKEN_INVALID"
    assert code(alice.get(f"{API}/watch", params={"after": theirs.token}), 400) == "TOKEN_INVALID"
    add_edges(http, "follows", (people.alice, people.bob))
    seen = watch(after=mine)
    eventually(lambda: len(seen.changes) == 1)
    rest = watch(after=seen.token)
    add_edges(http, "follows", (people.alice, people.carol))
    eventually(lambda: rest.changes)
    assert edges(rest) == [("follows", people.alice, people.carol, "normal")]
    theirs.close()


def test_a_users_watchers_are_limited_and_end_with_their_token(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_STREAMS_USER_MAX="2") as server, server.client(sign(1)) as alice:
        both = [WatchReader(alice), WatchReader(alice)]
        answer = alice.get(f"{API}/watch")
        assert code(answer, 429) == "TOO_MANY_STREAMS"
        both[0].close()
        eventually(lambda: both[0].ended)
        with server.client(sign(2, ttl_s=2)) as brief:
            short = WatchReader(brief)
            eventually(lambda: short.ended, 20)
        both[1].close()


def test_the_client_watches_for_a_user(server: Server, http: httpx.Client, people: People) -> None:
    start = WatchReader(server.client(sign(people.alice)))
    token = start.token
    add_edges(http, "follows", (people.alice, people.bob), (people.bob, people.carol), (people.carol, people.alice))
    with Kith(server.url, sign(people.alice)) as kith:
        heard = []
        for change in kith.watch(after=token):
            heard.append(change)
            if len(heard) == 2:
                break
    assert comparable_order([(one.fields["source"], one.fields["destination"]) for one in heard]) == [
        (str(people.alice), str(people.bob)), (str(people.carol), str(people.alice))
    ]  # fmt: skip
    start.close()
