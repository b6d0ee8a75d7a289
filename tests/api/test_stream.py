"""GET /feed/stream: which reader gets which message."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import add_edges, code, make, ok, say
from cast import People
from raw_http import plain
from servers import API, Server, eventually, serving, sign
from stream_listener import Listener, publish

from kith.streams.missed import POSTS_MAX
from kith.streams.positions import parse_position

Acting = Callable[[int], httpx.Client]


@pytest.fixture
def listen(server: Server) -> Iterator[Callable[..., Listener]]:
    """`listen(alice, posts="5")` opens a stream of hers. All streams are closed at the end."""
    made: list[tuple[Listener, httpx.Client]] = []

    def begin(user: int, last_id: str | None = None, **query: str) -> Listener:
        client = server.client(acting=user)
        listener = Listener(client, last_id, **query)
        made.append((listener, client))
        return listener

    yield begin
    for listener, client in made:
        listener.close()
        client.close()


def mark(server: Server, listener: Listener, author: int) -> None:
    """Publish a post and wait for it: then the stream has sent everything from before it, in the order of the log."""
    listener.wait("new_post", publish(server, author, "marker"))


def befriend(http: httpx.Client, a: int, b: int) -> None:
    add_edges(http, "follows", (a, b), (b, a))


def test_followers_and_the_author_are_sent_a_new_post(
    server: Server, people: People, http: httpx.Client, listen: Callable[..., Listener]
) -> None:
    alice, bob, carol, dana = people
    add_edges(http, "follows", (bob, alice), (carol, dana))
    author, follower, stranger = listen(alice), listen(bob), listen(carol)
    post = publish(server, alice, "Check out\nthis " + "x" * 200)
    heard = follower.wait("new_post", post)
    assert heard.data["authorId"] == str(alice)
    assert heard.data["preview"].startswith("Check out this xxx")
    assert len(heard.data["preview"]) == 100
    assert author.wait("new_post", post).data == heard.data
    mark(server, stranger, dana)
    assert post not in stranger.posts()
    assert follower.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("visibility", ["friends", "private", "custom"])
def test_a_post_is_sent_only_to_readers_who_may_see_it(
    server: Server, people: People, http: httpx.Client, listen: Callable[..., Listener], visibility: str
) -> None:
    alice, bob, carol, dana = people
    befriend(http, alice, bob)
    add_edges(http, "follows", (carol, alice), (dana, alice))
    streams = {user: listen(user) for user in people}
    audience = {"audience": [str(carol)]} if visibility == "custom" else {}
    post = publish(server, alice, visibility=visibility, **audience)
    public = publish(server, alice)
    for listener in streams.values():
        listener.wait("new_post", public)
    told = {user for user, listener in streams.items() if post in listener.posts()}
    assert told == {alice} | {"friends": {bob}, "private": set[int](), "custom": {carol}}[visibility]
    with server.client(acting=alice) as http_alice:
        ok_ = http_alice.delete(f"{API}/posts/{post}")
    assert ok_.status_code == 204
    public = publish(server, alice)
    for listener in streams.values():
        listener.wait("new_post", public)
    gone = {user for user, listener in streams.items() if post in listener.posts("post_removed")}
    assert gone == told, "a reader who could not see it does not learn of it"


def test_a_block_and_a_mute_stop_delivery_and_remove_shown_posts(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, carol, dana = people
    add_edges(
        http, "follows", (bob, alice), (alice, bob), (carol, alice), *[(user, dana) for user in (alice, bob, carol)]
    )
    streams = {user: listen(user) for user in (alice, bob, carol)}
    of_alice, of_bob = publish(server, alice), publish(server, bob)
    streams[alice].wait("new_post", of_bob)
    for user in (bob, carol):
        streams[user].wait("new_post", of_alice)
    ok(acting(alice).post(f"{API}/users/{bob}/block"))
    assert streams[alice].wait("post_removed", of_bob).data["reason"] == "blocked"
    assert streams[bob].wait("post_removed", of_alice).data["reason"] == "unavailable", (
        "the reason does not reveal the block"
    )
    ok(acting(carol).post(f"{API}/users/{alice}/mute"))
    assert streams[carol].wait("post_removed", of_alice).data["reason"] == "muted"
    later = publish(server, alice)
    for listener in streams.values():
        mark(server, listener, dana)
    assert later in streams[alice].posts()
    assert later not in streams[bob].posts() + streams[carol].posts()


def test_counts_of_watched_posts_are_sent_together_and_include_views(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, carol, dana = people
    add_edges(http, "follows", (bob, alice))
    post = publish(server, alice)
    ok(acting(dana).post(f"{API}/posts/{post}/view"))
    owner, named, unnamed = listen(alice), listen(carol, posts=post), listen(dana)
    at_home = listen(bob)
    for user in range(alice + 200, alice + 230):
        ok(acting(user).post(f"{API}/posts/{post}/like"))
    ok(acting(bob).post(f"{API}/posts/{post}/comments", json={"text": "!"}), 201)
    for listener in (owner, named, at_home):
        heard = listener.wait("engagement_update", post, likeCount=30, commentCount=1)
        assert heard.data == {"postId": post, "likeCount": 30, "commentCount": 1, "shareCount": 0, "viewCount": 1}
        assert len(listener.posts("engagement_update")) <= 10, "31 changes within a few seconds are sent together"
    mark(server, unnamed, dana)
    assert unnamed.posts("engagement_update") == []


def test_counts_stop_when_the_reader_may_no_longer_see_the_post(
    server: Server, people: People, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, *_ = people
    post = publish(server, alice)
    listener = listen(bob, posts=post)
    ok(acting(alice).patch(f"{API}/posts/{post}", json={"visibility": "private"}))
    assert listener.wait("post_removed", post).data["reason"] == "unavailable"
    own = listen(alice)
    ok(acting(alice).post(f"{API}/posts/{post}/like"))
    own.wait("engagement_update", post, likeCount=1)
    assert post not in listener.posts("engagement_update")


@pytest.mark.parametrize("kind", ["post", "user"])
def test_a_post_hidden_by_the_app_is_removed_from_streams_and_sent_to_none(
    server: Server, people: People, http: httpx.Client, listen: Callable[..., Listener], kind: str
) -> None:
    alice, bob, carol, _ = people
    add_edges(http, "follows", (bob, alice), (carol, alice), (bob, carol), (carol, bob))
    before, away = listen(bob), listen(carol)
    post = publish(server, alice)
    before.wait("new_post", post)
    away.wait("new_post", post)
    away.close()
    ok(http.put(f"{API}/labels/{kind}/{post if kind == 'post' else alice}", json={"labels": ["hide"]}))
    assert before.wait("post_removed", post).data["reason"] == "unavailable"
    assert listen(carol, away.last_id).wait("reset").data == {"reason": "changed"}
    later = publish(server, alice)
    mark(server, before, carol)
    assert (later in before.posts()) == (kind == "post")


@pytest.mark.parametrize("kind", ["post", "user"])
def test_a_new_post_is_sent_with_the_labels_that_a_read_shows(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener], kind: str
) -> None:
    alice, bob, *_ = people
    add_edges(http, "follows", (bob, alice))
    labels = {"labels": ["limit", "sensitive"]}
    if kind == "user":
        ok(http.put(f"{API}/labels/user/{alice}", json=labels))
    streams = {user: listen(user) for user in (alice, bob)}
    start = {user: listener.last_id for user, listener in streams.items()}
    post = publish(server, alice)
    at_once = {user: listener.wait("new_post", post).data["labels"] for user, listener in streams.items()}
    if kind == "post":
        ok(http.put(f"{API}/labels/post/{post}", json=labels))
    resumed = {user: listen(user, start[user]).wait("new_post", post).data["labels"] for user in streams}
    shown = {user: ok(acting(user).get(f"{API}/posts/{post}"))["labels"] for user in streams}
    assert resumed == shown == {alice: ["limit", "sensitive"], bob: ["sensitive"]}
    assert at_once == (shown if kind == "user" else {alice: [], bob: []})


def test_a_watched_post_that_is_not_visible_is_reported_as_unavailable(
    server: Server, people: People, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, *_ = people
    private, deleted, public = (
        publish(server, alice, visibility="private"),
        publish(server, alice),
        publish(server, alice),
    )
    acting(alice).delete(f"{API}/posts/{deleted}")
    listener = listen(bob, posts=f"{private},{deleted},{public},12345")
    for post in (private, deleted, "12345"):
        assert listener.wait("post_removed", post).data["reason"] == "unavailable"
    assert public not in listener.posts("post_removed")


def test_a_post_hidden_by_its_reader_is_removed_from_the_readers_streams(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, carol, _ = people
    add_edges(http, "follows", (bob, alice), (carol, alice))
    post = publish(server, alice)
    mine, other = listen(bob), listen(carol)
    ok(acting(bob).post(f"{API}/posts/{post}/hide"))
    assert mine.wait("post_removed", post).data["reason"] == "hidden"
    mark(server, other, alice)
    assert other.posts("post_removed") == []


def test_a_stream_resumes_after_its_last_event(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, *_ = people
    add_edges(http, "follows", (bob, alice))
    first = listen(bob)
    seen = publish(server, alice)
    first.wait("new_post", seen)
    first.close()
    missed, gone = publish(server, alice), publish(server, alice)
    acting(alice).delete(f"{API}/posts/{gone}")
    acting(alice).delete(f"{API}/posts/{seen}")
    ok(acting(alice).post(f"{API}/posts/{missed}/like"))
    for again in (listen(bob, first.last_id), listen(bob, lastEventId=first.last_id)):
        again.wait("engagement_update", missed, likeCount=1)
        mark(server, again, alice)
        assert again.posts()[0] == missed
        assert again.posts("post_removed") == [seen]
        assert gone not in again.posts() + again.posts("post_removed")
        assert "reset" not in again.names()
        assert all(heard.id for heard in again.heard)


def test_a_reader_who_was_away_too_long_or_sends_a_bad_id_gets_a_reset(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, *_ = people
    add_edges(http, "follows", (bob, alice))
    start = listen(bob)
    start.close()
    assert parse_position(start.last_id or "") is None, "a readable position would reveal how much is written"
    for _ in range(POSTS_MAX + 1):
        ok(acting(alice).post(f"{API}/posts", json={"content": {"text": "!"}}), 201)
    far = listen(bob, start.last_id)
    assert far.wait("reset").data == {"reason": "too_far"}
    eventually(lambda: far.ended)
    again = listen(bob, far.last_id)
    mark(server, again, alice)
    assert len(again.posts()) == 1, "after the reset the stream continues from there"
    for nonsense in ("x", "99999999999-1", "-1", "5-6", ".", "AAAAAAAAAAA.AAAAAAAAAAA"):
        assert listen(bob, nonsense).wait("reset").data == {"reason": "unknown"}


def test_a_block_during_an_absence_resets_the_stream(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, carol, _ = people
    add_edges(http, "follows", (bob, alice))
    start = listen(bob)
    start.close()
    ok(acting(carol).post(f"{API}/users/{bob}/block"))
    assert listen(bob, start.last_id).wait("reset").data == {"reason": "changed"}


def test_a_post_made_less_visible_during_an_absence_resets_the_stream(
    server: Server, people: People, http: httpx.Client, acting: Acting, listen: Callable[..., Listener]
) -> None:
    alice, bob, *_ = people
    add_edges(http, "follows", (bob, alice))
    start = listen(bob)
    post = publish(server, alice)
    start.wait("new_post", post)
    start.close()
    ok(acting(alice).patch(f"{API}/posts/{post}", json={"content": {"text": "still for all"}}))
    between = listen(bob, start.last_id)
    mark(server, between, alice)
    assert between.names() == ["post_updated", "new_post"]
    between.close()
    ok(acting(alice).patch(f"{API}/posts/{post}", json={"visibility": "private"}))
    assert listen(bob, between.last_id).wait("reset").data == {"reason": "changed"}


def test_bad_requests_are_refused_before_a_stream_starts(server: Server, people: People) -> None:
    with server.client(acting=people.alice) as http:
        for query in ("posts=x", "posts=" + "1," * 101, "post=1", "limit=5"):
            with http.stream("GET", f"{API}/feed/stream?{query}") as answer:
                answer.read()
                assert code(answer, 400) in ("INVALID_REQUEST", "INVALID_ID"), query
        assert code(http.post(f"{API}/feed/stream"), 405) == "METHOD_NOT_ALLOWED"
    with server.client() as http, http.stream("GET", f"{API}/feed/stream") as answer:
        answer.read()
        assert code(answer, 400) == "INVALID_REQUEST"


def test_a_stream_ends_with_its_token_and_resumes_with_a_new_one(server: Server, people: People) -> None:
    now = int(time.time())
    with server.client(sign(people.alice, exp=now - 8)) as http:  # the leeway of 10 s leaves it 2 s
        listener = Listener(http)
        assert listener.status == 200
        eventually(lambda: listener.ended)
        refused = Listener(http, listener.last_id)
        assert (refused.status, refused.body["error"]["code"]) == (401, "UNAUTHORIZED")
    post = publish(server, people.alice)
    with server.client(sign(people.alice)) as http, Listener(http, listener.last_id) as again:
        again.wait("new_post", post)


def test_streams_are_limited_by_user_and_by_process(tmp_path: Path, people: People) -> None:
    limits = {"KITH_STREAMS_USER_MAX": "2", "KITH_STREAMS_MAX": "3"}
    with serving(tmp_path, **limits) as server, server.client(acting=people.alice) as alice:
        streams = [Listener(alice), Listener(alice)]
        refused = Listener(alice)
        assert (refused.status, refused.body["error"]["code"]) == (429, "TOO_MANY_STREAMS")
        assert refused.body["error"]["details"] == {"limit": 2, "retryAfterSeconds": 5.0}, (
            "the limit counts open streams, so there is no window"
        )
        assert refused.headers["retry-after"] == "5"
        assert not {"ratelimit", "ratelimit-policy"} & refused.headers.keys()
        with server.client(acting=people.bob) as bob, Listener(bob), server.client(acting=people.carol) as carol:
            refused = Listener(carol)
            assert (refused.status, refused.body["error"]["code"]) == (503, "OVERLOADED")
            assert "streams_max" in refused.body["error"]["message"]
        streams[0].close()

        def again() -> Any:
            listener = Listener(alice)
            return listener if listener.status == 200 else None

        eventually(again).close()


def test_streams_opened_concurrently_are_limited_too(tmp_path: Path, people: People) -> None:
    """The readers have no timeline, so each request waits for a commit between its admission and its first byte."""
    with serving(tmp_path, KITH_STREAMS_USER_MAX="3", KITH_STREAMS_MAX="10") as server, server.client() as http:
        add_edges(http, "follows", *((people.alice, 10**9 + number) for number in range(900)))
        for users, most in (([people.alice] * 12, 3), (list(range(2 * 10**9, 2 * 10**9 + 40)), 10)):
            opened = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in users]
            for connection, user in zip(opened, users, strict=True):
                connection.sendall(plain("GET", f"{API}/feed/stream", f"X-Kith-User: {user}".encode()))
            answers = [connection.recv(4_096).split()[1] for connection in opened]
            assert answers.count(b"200") == most, answers
            for connection in opened:
                connection.close()
            eventually(lambda: "kith_streams 0.0" in http.get("/metrics").text)


def test_metrics_count_streams_and_their_messages(
    server: Server, people: People, listen: Callable[..., Listener]
) -> None:
    def value(name: str) -> float:
        with server.client() as http:
            lines = http.get("/metrics").text.splitlines()
        return sum(float(line.split(" ")[1]) for line in lines if line.startswith(name))

    open_, told = value("kith_streams "), value('kith_stream_events_total{event="new_post"}')
    listener = listen(people.alice)
    eventually(lambda: value("kith_streams ") == open_ + 1)
    mark(server, listener, people.alice)
    eventually(lambda: value('kith_stream_events_total{event="new_post"}') >= told + 1)
    listener.close()
    eventually(lambda: value('kith_stream_ends_total{cause="gone"}') >= 1)


def test_a_notice_is_sent_with_the_unread_count(
    acting: Acting, people: People, listen: Callable[..., Listener]
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    post = make(alice, "the news of today")
    ok(alice.post(f"{API}/users/{people.carol}/mute"))
    heard, other = listen(people.alice), listen(people.carol)
    ok(bob.post(f"{API}/posts/{post}/like"))
    told = heard.wait("notification", post, kind="like")
    assert told.data == {
        "notificationId": told.data["notificationId"], "kind": "like",
        "actorId": str(people.bob), "postId": post, "commentId": None, "boardId": None, "mentionedId": None,
    }  # fmt: skip
    (entry,) = ok(alice.get(f"{API}/notifications"))["items"]
    assert entry["id"] == told.data["notificationId"]
    assert heard.wait("unread", count=1).data["partial"] is False
    ok(alice.post(f"{API}/notifications/read", json={"ids": [entry["id"]]}))
    heard.wait("unread", count=0)
    assert not {"notification", "unread"} & {*other.names()}
    comment = say(acting(people.carol), post, "not heard")
    reply = say(bob, post, "heard")
    assert comment != heard.wait("notification", post, kind="comment").data["commentId"] == reply
    resumed = listen(people.alice, told.id)
    resumed.wait("notification", post, commentId=reply)
    resumed.wait("unread", count=1)
