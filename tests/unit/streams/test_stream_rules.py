"""The rules of streams without a store: positions, recent changes, messages, the wire format, slow readers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kith.api.resources.stream import SealedPositions, frame, shown_posts
from kith.api.sink import POLL_S, Sink
from kith.core.errors import BadId, BadRequest
from kith.core.events import NOWHERE, LogPosition
from kith.engines.embedded.history import History, StorePositions
from kith.notifications.notice import Notice
from kith.streams.changes import FeedChange, NumbersChanged
from kith.streams.messages import PREVIEW_CHARS_MAX, NewPost, PostRemoved, Reset, encode, notification, preview_of
from kith.streams.positions import Step, StreamPosition, StreamProgress, parse_position
from kith.streams.rounds import PendingChecks
from kith.streams.stream import WATCHED_MAX, Watched
from kith.streams.tail import Point, RecentChanges

ALICE, BOB, POST = 1, 2, 500


at = StorePositions(History()).of


class Log:
    """The part of a log that needs no store."""

    covers = staticmethod(StorePositions(History()).covers)
    joined = staticmethod(max)


LOG: Any = Log()


def step(number: int) -> Step:
    return Step(number, at(number), at(number - 1), at(number))


def test_a_position_survives_its_text_form_and_other_text_is_none() -> None:
    for place in (
        StreamPosition(at(12), at(9)),
        StreamPosition(NOWHERE, NOWHERE),
        StreamPosition(LogPosition(b"\xff" * 99), LogPosition(b"x")),
    ):
        assert parse_position(str(place)) == place
        assert set(str(place)) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
    for text in (
        "",
        "12",
        "12-9",
        "A.A",
        "AAAA.AAAA ",
        "ＡＡＡＡ.AAAA",
        "AAAA.AAAA.AAAA",
        "A" * 5_000 + ".AAAA",
        "AA+A.AAAA",
    ):
        assert parse_position(text) is None, text


def test_recent_changes_are_contiguous_and_bounded() -> None:
    recent = RecentChanges(LOG, at(100), events_max=40)
    recent.start = recent.end = Point(100, at(100))
    changes: list[FeedChange] = [NumbersChanged(step(number), number) for number in range(81, 201)]
    recent.prepend(changes[:20], Point(80, at(80)))
    assert recent.since(at(95)) == changes[15:20]
    recent.extend(changes[20:30], Point(110, at(110)))
    assert recent.since(at(80)) == changes[:30]
    for number in range(110, 200, 10):
        recent.extend(changes[number - 80 : number - 70], Point(number + 10, at(number + 10)))
        assert recent.since(recent.start.at) == changes[recent.start.number - 80 : number - 70]
        assert number + 10 - recent.start.number <= 50, "trimmed once it exceeds its span by a quarter"
    assert recent.start.number > 100


def test_a_stream_watches_at_most_100_posts_and_drops_the_oldest() -> None:
    watched = Watched()
    for post in range(WATCHED_MAX):
        watched.add(post, ALICE)
    watched.add(0, ALICE)
    watched.add(WATCHED_MAX, BOB)
    assert len(watched) == WATCHED_MAX
    assert 0 in watched
    assert 1 not in watched
    assert watched[WATCHED_MAX] == BOB


def test_changes_of_one_post_are_merged_and_hold_the_position_back_until_sent() -> None:
    posts = PendingChecks()
    posts.add(POST, step(5), content=True, edited_ms=50)
    posts.add(POST, step(9), numbers=True)
    posts.add(POST, step(10), content=True, edited_ms=100)
    posts.add(POST + 1, step(7))
    assert posts.sent_up_to(at(20)) == at(4)
    taken = posts.take()
    assert taken == {POST: (step(5), True, True, 50), POST + 1: (step(7), False, False, 0)}
    assert posts.sent_up_to(at(20)) == at(20)
    posts.add(POST + 1, step(15), numbers=True, content=True, edited_ms=150)
    posts.put_back({POST + 1: taken[POST + 1]})
    assert posts.sent_up_to(at(20)) == at(6)
    assert posts.take() == {POST + 1: (step(7), True, True, 150)}


def test_a_stream_that_joined_further_ahead_keeps_its_position() -> None:
    progress = StreamProgress(LOG)
    progress.posts, progress.counts = at(20), at(15)
    assert progress.position_of(at(18)) == StreamPosition(at(20), at(15))
    assert progress.position_of(at(25)) == StreamPosition(at(25), at(15))


def test_messages_have_the_fields_of_the_article() -> None:
    message = encode(NewPost("1", "2", "Check out", ["sensitive"]))
    assert (message.name, json.loads(message.data)) == (
        "new_post",
        {"postId": "1", "authorId": "2", "preview": "Check out", "labels": ["sensitive"]},
    )
    gone = encode(PostRemoved("1", "author_deleted"))
    assert (gone.name, json.loads(gone.data)) == ("post_removed", {"postId": "1", "reason": "author_deleted"})
    assert encode(Reset("expired")).name == "reset"


def test_a_notification_names_its_board_and_another_mentioned_user() -> None:
    invited = encode(notification(Notice(7, "board_invite", ALICE, BOB, 0, board=POST), BOB))
    assert json.loads(invited.data) == {
        "notificationId": "7", "kind": "board_invite", "actorId": str(ALICE),
        "postId": None, "commentId": None, "boardId": str(POST), "mentionedId": None,
    }  # fmt: skip
    mention = Notice(8, "mention", ALICE, BOB, 0, POST)
    assert [notification(mention, reader).mentioned_id for reader in (BOB, 3)] == [None, str(BOB)]


def test_a_preview_is_one_short_line() -> None:
    assert preview_of("a\r\nb\u2028c\x85d") == "a b c d", "for some clients a line end would end the event"
    assert preview_of("x" * PREVIEW_CHARS_MAX) == "x" * PREVIEW_CHARS_MAX
    long = preview_of("word " * 1_000)
    assert len(long) <= PREVIEW_CHARS_MAX
    assert long.endswith("word…")


def test_the_wire_format_of_an_event_and_a_heartbeat() -> None:
    assert frame("a-place", "reset", b'{"reason":"expired"}') == (
        b'id: a-place\nevent: reset\ndata: {"reason":"expired"}\n\n'
    )
    assert frame("a-place", "", b"") == b":\nid: a-place\n\n"


def test_only_positions_sealed_with_the_same_secret_are_read() -> None:
    sealed, place = SealedPositions(b"s" * 32), StreamPosition(at(12), at(9))
    assert sealed.read(sealed.of(place)) == str(place)
    for text in ("", "x", str(place), SealedPositions(b"t" * 32).of(place)):
        assert parse_position(sealed.read(text)) is None


def test_the_shown_posts_are_read_from_the_query() -> None:
    assert shown_posts("5,6,5") == [5, 6]
    assert shown_posts("") == []
    for posts, error in (("x", BadId), (",".join(map(str, range(101))), BadRequest)):
        with pytest.raises(error):
            shown_posts(posts)


class Client:
    """An answer as its sink sees it. `reads`: whether the client reads what it is sent."""

    def __init__(self) -> None:
        self.got, self.reads, self.was_cut, self.has_ended, self.closed = bytearray(), True, False, False, False

    def send(self, raw: bytes) -> None:
        self.got += raw

    def unsent(self) -> int:
        return 0 if self.reads else len(self.got)

    def cut(self) -> None:
        self.was_cut = True

    def end(self) -> None:
        self.has_ended = True


def fill(sink: Sink, count: int) -> None:
    for _ in range(count):
        sink.write(frame("a-place", "new_post", b"x" * 100))


def test_a_reader_that_reads_nothing_is_cut_off_before_much_is_buffered() -> None:
    client: Any = Client()
    client.reads = False
    sink = Sink(client, 10_000)
    fill(sink, 1_000)
    assert sink.ended == "slow"
    assert client.was_cut
    assert 5_000 < len(client.got) <= 10_000


def test_a_reader_is_cut_off_only_once_it_stops_reading() -> None:
    client: Any = Client()
    sink = Sink(client, 10_000)
    fill(sink, 1_000)
    assert sink.ended is None
    assert len(client.got) > 100_000
    client.reads = False
    fill(sink, 100)
    assert sink.ended == "slow"


def test_a_resuming_client_gets_time_while_it_reads() -> None:
    client: Any = Client()
    client.reads = False
    sink = Sink(client, 10_000)

    async def send() -> None:
        for _ in range(1_000):
            await sink.wait_for_room()
            fill(sink, 1)

    async def play() -> None:
        sending = asyncio.create_task(send())
        await asyncio.sleep(3 * POLL_S)
        assert 5_000 < len(client.got) < 6_000, "only half of the buffer is filled"
        client.reads = True
        await sending

    asyncio.run(play())
    assert len(client.got) > 100_000
    assert sink.ended is None


def test_a_resuming_client_that_reads_nothing_is_cut_off() -> None:
    client: Any = Client()
    client.reads = False
    sink = Sink(client, 10_000, drain_s=0.0)
    fill(sink, 50)
    asyncio.run(sink.wait_for_room())
    assert sink.ended == "slow"
    assert client.was_cut


def test_nothing_more_is_made_for_a_client_that_disconnected() -> None:
    """Such as a snapshot: the next snapshot cannot begin before this one ends."""
    client: Any = Client()
    sink = Sink(client, 10_000)
    client.closed = True
    asyncio.run(sink.wait_for_room())
    assert sink.ended == "gone"


def test_nothing_is_sent_after_the_end() -> None:
    client: Any = Client()
    sink = Sink(client, 10_000)
    sink.end("expired")
    fill(sink, 1)
    assert client.got == b""
    assert client.has_ended
    sink.end("gone")
    assert sink.ended == "expired"
