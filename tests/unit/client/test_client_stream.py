"""The client's loop over a stream reconnects, resumes where it was, and yields every event once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any

import httpx
import pytest

from kith.client import (
    ApiError,
    AsyncKith,
    BadRequest,
    EngagementUpdate,
    FeedReset,
    Kith,
    NewPost,
    NotificationMade,
    PostRemoved,
    Retry,
    Unreachable,
)

URL, KEY = "http://kith.example", "sk-very-secret"
BOTH = pytest.mark.parametrize("kind", [Kith, AsyncKith])
HELLO = "retry: 7\n\n:\nid: 1-1\n\n"


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """An answer that arrives in pieces and may break off."""

    def __init__(self, *pieces: str, breaks: bool = False) -> None:
        self._pieces, self._breaks = pieces, breaks

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            yield piece.encode()
        if self._breaks:
            raise httpx.ReadError("gone")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def new_post(at: str, post: int) -> str:
    return f'id: {at}\nevent: new_post\ndata: {{"postId":"{post}","authorId":"2","preview":"hi"}}\n\n'


class Service:
    """Gives its answers in order. `asked`: the requests. `waited`: the seconds of each pause of the client."""

    def __init__(self, *answers: Callable[[], httpx.Response]) -> None:
        self._answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.waited: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if not self._answers:
            raise httpx.ConnectError("nobody there")
        return self._answers.pop(0)()

    def ids(self) -> list[str | None]:
        return [request.headers.get("last-event-id") for request in self.asked]


def streaming(*pieces: str, breaks: bool = False) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(200, stream=Body(*pieces, breaks=breaks))


def refusing(status: int, code: str = "X", **headers: str) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(status, json={"error": {"code": code, "message": "no"}}, headers=headers)


NO_PAUSE = Retry(tries=2, base_s=0.0)


def listen(
    kind: Any, service: Service, count: int, stream: str = "feed_stream", retry: Retry = NO_PAUSE, **arguments: Any
) -> list[Any]:
    """The first events of a stream. Each pause is half of its maximum."""
    settings = {"user": 1, "transport": httpx.MockTransport(service), "retry": retry, "random": lambda: 0.5}
    if kind is Kith:
        kith = Kith(URL, KEY, sleep=service.waited.append, **settings)
        return list(islice(getattr(kith, stream)(**arguments), count))

    async def sleep(seconds: float) -> None:
        service.waited.append(seconds)

    async def run() -> list[Any]:
        found: list[Any] = []
        kith = AsyncKith(URL, KEY, sleep=sleep, **settings)
        if count:
            async for event in getattr(kith, stream)(**arguments):
                found.append(event)
                if len(found) == count:
                    break
        return found

    return asyncio.run(run())


@BOTH
def test_events_come_as_records(kind: Any) -> None:
    body = (
        HELLO
        + new_post("2-1", 5)
        + 'id: 2-2\nevent: new_post\ndata: {"postId":"6","authorId":"2","preview":"no","labels":["sensitive"]}\n\n'
        + "id: 3-1\nevent: engagement_update\n"
        + 'data: {"postId":"5","likeCount":1,"commentCount":2,"shareCount":3,"viewCount":4}\n\n'
        + 'id: 4-1\nevent: of_a_newer_service\ndata: {"x":1}\n\n'
        + 'id: 5-1\nevent: post_removed\ndata: {"postId":"5","reason":"author_deleted"}\n\n'
        + 'id: 6-6\nevent: reset\ndata: {"reason":"loaded"}\n\n'
    )
    service = Service(streaming(body))
    assert listen(kind, service, 5, posts=[5, "6"]) == [
        NewPost(event_id="2-1", post_id=5, author_id=2, preview="hi"),
        NewPost(event_id="2-2", post_id=6, author_id=2, preview="no", labels=["sensitive"]),
        EngagementUpdate(event_id="3-1", post_id=5, like_count=1, comment_count=2, share_count=3, view_count=4),
        PostRemoved(event_id="5-1", post_id=5, reason="author_deleted"),
        FeedReset(event_id="6-6", reason="loaded"),
    ]
    (request,) = service.asked
    assert request.url.params["posts"] == "5,6"
    assert (request.headers["x-kith-user"], request.headers["accept"]) == ("1", "text/event-stream")


@BOTH
def test_a_notification_of_an_unknown_kind_is_passed_through(kind: Any) -> None:
    data = '{"notificationId":"7","kind":"poke","actorId":"2","postId":null,"commentId":null}'
    (told,) = listen(kind, Service(streaming(f"{HELLO}id: 2-1\nevent: notification\ndata: {data}\n\n")), 1)
    assert told == NotificationMade(event_id="2-1", notification_id=7, kind="poke", actor_id=2)


@BOTH
@pytest.mark.parametrize("breaks", [False, True])
def test_a_stream_that_ends_or_breaks_resumes_after_its_last_whole_event(kind: Any, breaks: bool) -> None:
    cut = new_post("3-1", 6)[:-1]
    service = Service(
        streaming(HELLO, new_post("2-1", 5), cut, breaks=breaks), streaming(new_post("3-1", 6) + ":\nid: 9-9\n\n"),
        streaming(new_post("10-9", 7)),
    )  # fmt: skip
    assert [event.post_id for event in listen(kind, service, 3)] == [5, 6, 7]
    assert service.ids() == [None, "2-1", "9-9"], "a heartbeat advances the position, half an event does not"
    assert len(service.waited) == 2


@BOTH
def test_a_notification_repeated_after_a_reconnect_is_yielded_once(kind: Any) -> None:
    notice = 'id: {}\nevent: notification\ndata: {{"notificationId":"{}","kind":"mention","actorId":"2"}}\n\n'
    service = Service(
        streaming(HELLO, notice.format("2-1", 7)),
        streaming(notice.format("3-1", 7), notice.format("3-2", 8), new_post("3-3", 5)),
    )
    found = listen(kind, service, 3)
    assert [event.event_id for event in found] == ["2-1", "3-2", "3-3"]
    assert [event.notification_id for event in found[:2]] == [7, 8]


@BOTH
def test_after_a_stream_ends_the_client_waits_as_long_as_the_service_asked(kind: Any) -> None:
    service = Service(streaming(HELLO), streaming(new_post("2-1", 5)))
    listen(kind, service, 1)
    assert service.waited == [0.007]


@BOTH
def test_a_stream_starts_after_the_given_event(kind: Any) -> None:
    service = Service(streaming(new_post("9-8", 5)))
    listen(kind, service, 1, after="8-8")
    assert service.ids() == ["8-8"]


@BOTH
def test_a_permanent_refusal_is_raised_and_a_temporary_one_is_retried(kind: Any) -> None:
    service = Service(streaming(HELLO), refusing(503), refusing(429), refusing(503), refusing(401, "UNAUTHORIZED"))
    with pytest.raises(ApiError) as refused:
        listen(kind, service, 1)
    assert (refused.value.code, len(service.asked)) == ("UNAUTHORIZED", 5)


@BOTH
def test_a_stream_that_never_opened_is_retried_like_any_call(kind: Any) -> None:
    service = Service()
    with pytest.raises(Unreachable):
        listen(kind, service, 1)
    assert len(service.asked) == 2


@BOTH
def test_a_stream_that_was_open_is_retried_longer_but_not_forever(kind: Any) -> None:
    service = Service(streaming(HELLO))
    with pytest.raises(Unreachable):
        listen(kind, service, 1)
    assert len(service.asked) == 61


@BOTH
@pytest.mark.parametrize("tries", [1, 4])
def test_a_stream_that_was_open_survives_minutes_without_a_service_for_any_retry_setting(kind: Any, tries: int) -> None:
    service = Service(streaming(HELLO))
    with pytest.raises(Unreachable):
        listen(kind, service, 1, retry=Retry(tries=tries))
    assert sum(service.waited) > 120
    assert max(service.waited) <= 5


@BOTH
def test_a_stream_that_was_open_waits_for_a_retry_after_that_a_call_would_not(kind: Any) -> None:
    """A proxy sends one during a restart; the longest is a minute."""
    busy, rest = refusing(503, **{"Retry-After": "30"}), new_post("2-1", 5)
    service = Service(streaming(HELLO, breaks=True), busy, refusing(503), streaming(rest))
    assert [event.post_id for event in listen(kind, service, 1, retry=Retry())] == [5]
    assert service.waited[1] == 30
    assert max(service.waited[0], service.waited[2]) <= 5, "a pause without Retry-After is as short as before"
    too_long = refusing(503, **{"Retry-After": "61"})
    for answers in ([busy], [streaming(HELLO), too_long]):
        with pytest.raises(ApiError):
            listen(kind, Service(*answers), 1, retry=Retry())


@BOTH
def test_a_stream_that_reconnects_watches_the_posts_that_it_told_of(kind: Any) -> None:
    removed = 'id: 1-3\nevent: post_removed\ndata: {"postId":"5","reason":"hidden"}\n\n'
    first = streaming(HELLO + new_post("1-1", 8) + new_post("1-2", 9) + removed, breaks=True)
    service = Service(first, streaming(new_post("1-4", 10)))
    listen(kind, service, 4, posts=[5, 6])
    assert [request.url.params["posts"] for request in service.asked] == ["5,6", "6,8,9"]


@BOTH
def test_a_stream_watches_the_newest_posts_if_there_are_too_many(kind: Any) -> None:
    service = Service(streaming(new_post("1-1", 200), breaks=True), streaming(new_post("1-2", 201)))
    listen(kind, service, 2, posts=range(100))
    assert service.asked[1].url.params["posts"] == ",".join(map(str, [*range(1, 100), 200]))


@BOTH
@pytest.mark.parametrize("after", ["a\nb", "é", " a"])
def test_a_stream_refuses_an_id_that_no_header_can_carry(kind: Any, after: str) -> None:
    service = Service()
    with pytest.raises(BadRequest, match="after"):
        listen(kind, service, 1, after=after)
    assert not service.asked


@BOTH
@pytest.mark.parametrize("moment", ["connected", "pausing"])
def test_a_stream_ends_without_an_error_if_its_client_is_closed(kind: Any, moment: str) -> None:
    service, found = Service(streaming(new_post("1-1", 1))), list[Any]()

    def run_sync() -> None:
        def sleep(_: float) -> None:
            kith.close()

        kith = Kith(URL, KEY, transport=httpx.MockTransport(service), sleep=sleep)
        for event in kith.feed_stream():
            found.append(event)
            if moment == "connected":
                kith.close()

    async def run() -> None:
        async def sleep(_: float) -> None:
            await kith.aclose()

        kith = AsyncKith(URL, KEY, transport=httpx.MockTransport(service), sleep=sleep)
        async for event in kith.feed_stream():
            found.append(event)
            if moment == "connected":
                await kith.aclose()

    run_sync() if kind is Kith else asyncio.run(run())
    assert len(found) == len(service.asked) == 1


@BOTH
@pytest.mark.parametrize("stream", ["feed_stream", "watch"])
def test_a_page_in_place_of_a_stream_is_an_error_and_no_endless_loop(kind: Any, stream: str) -> None:
    service = Service(*[lambda: httpx.Response(200, html="<p>Welcome</p>\n")] * 3)
    with pytest.raises(ApiError, match=r"INVALID_ANSWER.*text/html"):
        listen(kind, service, 1, stream)
    assert len(service.asked) == 1


@BOTH
def test_data_that_breaks_the_contract_is_an_error(kind: Any) -> None:
    with pytest.raises(ApiError, match="postId"):
        listen(kind, Service(streaming('id: 1-1\nevent: new_post\ndata: {"authorId":"2","preview":""}\n\n')), 1)


EDGE = (
    '{{"kind":"edge","token":"t{0}","at":"2024-01-01T00:00:00Z","graph":"follows","source":"1","destination":"2",'
    '"state":"normal","before":null,"position":"1","updatedAt":"1","said":"{1}"}}\n'
)


@BOTH
@pytest.mark.parametrize("status", [502, 504])
@pytest.mark.parametrize("stream", ["feed_stream", "watch"])
def test_a_stream_that_was_open_survives_a_proxys_errors_during_a_restart(kind: Any, stream: str, status: int) -> None:
    first, second = HELLO + new_post("1-1", 1), new_post("1-2", 2)
    if stream == "watch":
        first, second = EDGE.format(1, ""), EDGE.format(2, "")
    restarting = httpx.Response(status, text="<html>Bad Gateway</html>")
    service = Service(streaming(first, breaks=True), lambda: restarting, lambda: restarting, streaming(second))
    assert len(listen(kind, service, 2, stream)) == 2
    with pytest.raises(ApiError, match="check the URL"):  # a stream that never opened may have a wrong URL
        listen(kind, Service(lambda: restarting), 1, stream)


@BOTH
def test_a_change_may_hold_unicode_line_separators(kind: Any) -> None:
    """Pasted text sometimes contains U+2028."""
    said = "".join(EDGE.format(number, f"one{char}two") for number, char in enumerate("\u2028\u2029\x85"))
    changes = listen(kind, Service(streaming(said[:170], said[170:200], said[200:])), 3, "watch")
    assert [change.token for change in changes] == ["t0", "t1", "t2"]
    assert {len(change.fields["said"]) for change in changes} == {7}
