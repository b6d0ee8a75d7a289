"""The rules of streams without a store: places, what is kept and collected, messages, what goes over the wire."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kith.access.guard import Guard, Rates, UserTokens
from kith.api.resources import stream
from kith.api.resources.stream import LOOKED_EVERY_S, Sink, frame, read_id, shown_posts
from kith.core.errors import BadId, BadRequest, Unauthorized
from kith.streams.changes import FeedChange, NumbersChanged
from kith.streams.messages import PREVIEW_CHARS_MAX, NewPost, PostRemoved, Reset, encode, preview_of
from kith.streams.places import Place, Progress, read_place, why_lost
from kith.streams.rounds import PostsToLookAt
from kith.streams.stream import WATCHED_MAX, Watched
from kith.streams.tail import RecentChanges

ALICE, BOB, POST = 1, 2, 500


def test_a_place_comes_back_as_it_was_sent_and_nothing_else_is_one() -> None:
    assert read_place(str(Place(12, 9))) == Place(12, 9)
    for text in ("", "12", "9-12", "-1-0", "12-9 ", "１２-9", "12-9-3", "x", "9" * 20 + "-1", "12-"):
        assert read_place(text) is None, text


def test_an_id_says_its_history_where_the_store_was_restored() -> None:
    for history in (0, 1, 2**63 - 1):
        (line, *_) = frame(Place(12, 9), "", b"", history).splitlines()[1:]
        assert read_id(line.removeprefix(b"id: ").decode()) == ("12-9", history)
    for text in ("", "x", "12", "12-9-x", "12-9-", "12-9-１", "12-9-" + "9" * 5_000, "-9-1", "1-12-9-3"):
        assert read_id(text) == (text, 0), "it is no place either"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        pytest.param(Place(100, 90), None, id="a moment ago"),
        pytest.param(Place(100, 49), None, id="the next event is the first kept"),
        pytest.param(Place(60, 48), "expired", id="event 49 was not told and is forgotten"),
        pytest.param(Place(101, 90), "unknown", id="of a store with a longer log"),
        pytest.param(None, "unknown", id="no place"),
    ],
)
def test_a_place_is_resumed_or_said_to_be_lost(place: Place | None, why: str | None) -> None:
    assert why_lost(place, first=50, last=100, events_max=1_000) == why


def test_too_much_is_not_told_one_by_one() -> None:
    assert why_lost(Place(90, 90), 1, 100, events_max=10) is None
    assert why_lost(Place(100, 89), 1, 100, events_max=10) == "too_far"


def test_recent_changes_have_no_gap_and_are_bounded() -> None:
    recent = RecentChanges(100, events_max=40)
    changes: list[FeedChange] = [NumbersChanged(at, at) for at in range(81, 201)]
    recent.reach_back(changes[:20], 80)
    assert recent.since(95) == changes[15:20]
    recent.extend(changes[20:30], 110)
    assert recent.since(80) == changes[:30]
    for at in range(110, 200, 10):
        recent.extend(changes[at - 80 : at - 70], at + 10)
        assert recent.since(recent.start) == changes[recent.start - 80 : at - 70]
        assert at + 10 - recent.start <= 50, "a quarter more than it may span, and then it is cut"
    assert recent.start > 100


def test_a_stream_watches_100_posts_and_the_longest_watched_give_way() -> None:
    watched = Watched()
    for post in range(WATCHED_MAX):
        watched.add(post, ALICE)
    watched.add(0, ALICE)
    watched.add(WATCHED_MAX, BOB)
    assert len(watched) == WATCHED_MAX
    assert 0 in watched
    assert 1 not in watched
    assert watched[WATCHED_MAX] == BOB


def test_changes_of_one_post_are_one_look_and_what_waits_holds_the_place_back() -> None:
    posts = PostsToLookAt()
    posts.add(POST, 5, content=True)
    posts.add(POST, 9, numbers=True)
    posts.add(POST + 1, 7)
    assert posts.told_to(20) == 4
    taken = posts.take()
    assert taken == {POST: (5, True, True), POST + 1: (7, False, False)}
    assert posts.told_to(20) == 20
    posts.add(POST + 1, 15, numbers=True, content=True)
    posts.put_back({POST + 1: taken[POST + 1]})
    assert posts.told_to(20) == 6
    assert posts.take() == {POST + 1: (7, True, True)}


def test_a_stream_that_joined_further_ahead_keeps_its_place() -> None:
    progress = Progress()
    progress.posts, progress.counts = 20, 15
    assert progress.place_of(18) == Place(20, 15)
    assert progress.place_of(25) == Place(25, 15)
    assert progress.place_at(19) == Place(19, 15)


def test_messages_say_what_the_article_says() -> None:
    message = encode(NewPost("1", "2", "Check out", ["sensitive"]))
    assert (message.name, json.loads(message.data)) == (
        "new_post",
        {"postId": "1", "authorId": "2", "preview": "Check out", "labels": ["sensitive"]},
    )
    gone = encode(PostRemoved("1", "author_deleted"))
    assert (gone.name, json.loads(gone.data)) == ("post_removed", {"postId": "1", "reason": "author_deleted"})
    assert encode(Reset("expired")).name == "reset"


def test_a_preview_is_one_short_line() -> None:
    assert preview_of("a\r\nb\u2028c\x85d") == "a b c d", "a line's end would end the event for some clients"
    assert preview_of("x" * PREVIEW_CHARS_MAX) == "x" * PREVIEW_CHARS_MAX
    long = preview_of("word " * 1_000)
    assert len(long) <= PREVIEW_CHARS_MAX
    assert long.endswith("word…")


def test_an_event_and_a_heartbeat_as_they_go_over_the_wire() -> None:
    assert frame(Place(12, 9), "reset", b'{"reason":"expired"}') == (
        b'id: 12-9\nevent: reset\ndata: {"reason":"expired"}\n\n'
    )
    assert frame(Place(12, 9), "", b"") == b":\nid: 12-9\n\n"


def test_the_query_names_posts() -> None:
    assert shown_posts("5,6,5") == [5, 6]
    assert shown_posts("") == []
    for posts, error in (("x", BadId), (",".join(map(str, range(101))), BadRequest)):
        with pytest.raises(error):
            shown_posts(posts)


class Client:
    """A transport and the kernel's sight of its socket. `reads`: whether the client takes what it gets."""

    def __init__(self) -> None:
        self.got, self.reads, self.was_cut = bytearray(), True, False

    def send_bytes(self, raw: bytes) -> None:
        self.got += raw

    def unsent(self, _: str) -> int | None:
        return 0 if self.reads else None

    def cut(self, _: str) -> bool:
        self.was_cut = True
        return True


def fill(sink: Sink, count: int) -> None:
    for _ in range(count):
        sink.send(Place(1, 1), "new_post", b"x" * 100)


def test_a_reader_that_takes_nothing_is_cut_before_much_waits() -> None:
    client: Any = Client()
    client.reads = False
    sink = Sink(client, "", client, 10_000)
    fill(sink, 1_000)
    assert sink.ended == "slow"
    assert client.was_cut
    assert 5_000 < len(client.got) <= 10_000


def test_a_reader_that_takes_all_is_never_cut_and_one_that_stops_is() -> None:
    client: Any = Client()
    sink = Sink(client, "", client, 10_000)
    fill(sink, 1_000)
    assert sink.ended is None
    assert len(client.got) > 100_000
    client.reads = False
    fill(sink, 100)
    assert sink.ended == "slow"


def test_a_client_that_comes_back_is_waited_for_while_it_reads() -> None:
    client: Any = Client()
    client.reads = False
    sink = Sink(client, "", client, 10_000)

    async def send() -> None:
        for _ in range(1_000):
            await sink.room()
            fill(sink, 1)

    async def play() -> None:
        sending = asyncio.create_task(send())
        await asyncio.sleep(3 * LOOKED_EVERY_S)
        assert 5_000 < len(client.got) < 6_000, "half of the buffer waits, and no more"
        client.reads = True
        await sending

    asyncio.run(play())
    assert len(client.got) > 100_000
    assert sink.ended is None


def test_a_client_that_comes_back_and_takes_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "TAKEN_S", 0.0)
    client: Any = Client()
    client.reads = False
    sink = Sink(client, "", client, 10_000)
    fill(sink, 50)
    asyncio.run(sink.room())
    assert sink.ended == "slow"
    assert client.was_cut


def test_nothing_is_sent_after_the_end() -> None:
    client: Any = Client()
    sink = Sink(client, "", client, 10_000)
    sink.end("expired")
    fill(sink, 1)
    assert client.got == b""
    sink.end("gone")
    assert sink.ended == "expired"


def test_the_guard_knows_how_long_a_credential_holds() -> None:
    tokens = UserTokens("s" * 32, ["HS256"], "app", "kith")
    guard = Guard([__import__("hashlib").sha256(b"key").digest()], tokens, Rates(0, 0, 0, 0))
    assert guard.lifetime_s("Bearer key") is None
    lifetime_s = guard.lifetime_s(f"Bearer {tokens.issue(1, 100)}")  # type: ignore[arg-type]
    assert lifetime_s is not None
    assert 100 <= lifetime_s <= 111, "its time, and the leeway that every token has"
    with pytest.raises(Unauthorized):
        guard.lifetime_s("Bearer nothing")
