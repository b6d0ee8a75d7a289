"""The load generator: which answers count as good, when requests are due, and how it behaves over a socket."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator

import pytest

from bench import load

GOOD = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"count":1}'


def test_an_answer_counts_once_its_whole_body_has_arrived() -> None:
    assert [load.body_bytes(GOOD[:end]) for end in (10, 41, len(GOOD) - 1)] == [None, None, None]
    assert load.body_bytes(GOOD) == 11


def test_an_answer_without_a_body_is_complete_with_its_head() -> None:
    assert load.body_bytes(b"HTTP/1.1 204 No Content\r\nserver: x\r\n\r\n") == 0


@pytest.mark.parametrize(
    ("answer", "body", "least", "good"),
    [
        (b"HTTP/1.1 200 OK", 11, 11, True),
        (b"HTTP/1.1 201 Created", 11, 0, True),
        (b"HTTP/1.1 204 No Content", 0, 11, True),
        (b"HTTP/1.1 200 OK", 10, 11, False),  # such as an empty list
        (b"HTTP/1.1 404 Not Found", 100, 11, False),
        (b"HTTP/1.1 503 Service Unavailable", 100, 0, False),
    ],
)
def test_only_a_success_of_the_expected_length_is_good(answer: bytes, body: int, least: int, good: bool) -> None:
    assert load.is_good(answer, body, least) is good


def test_arrivals_follow_the_schedule_however_slow_the_answers() -> None:
    arrivals = load.Arrivals(rate=4, seconds=1)
    assert arrivals.next_s() == 0.0
    assert list(arrivals.due(0.3)) == [0.0, 0.25]
    assert arrivals.next_s() == 0.5
    assert list(arrivals.due(60)) == [0.5, 0.75]  # late, with the times at which they were due
    assert arrivals.next_s() is None


def test_a_load_is_reported_as_rate_and_percentiles() -> None:
    told = load.summed([0.001] * 98 + [0.5] * 2, seconds=2.0, body=1_100)
    assert (told.requests, told.rate, told.p50_ms, told.p99_ms) == (100, 50.0, 1.0, 500.0)


def test_a_load_without_an_answer_says_that_it_ran_out() -> None:
    with pytest.raises(RuntimeError, match="ran out of requests"):
        load.summed([], 1.0, 0)


class _Server(asyncio.Protocol):
    def __init__(self, asked: list[bytes]) -> None:
        self._asked = asked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked.append(data.split(b" ")[1])
        bad = b"/missing" in data
        self._transport.write(GOOD.replace(b"200 OK", b"404 Not Found") if bad else GOOD)  # type: ignore[attr-defined]


@pytest.fixture
def server() -> Iterator[tuple[int, list[bytes]]]:
    """A port that answers GOOD, and the requests that it received."""
    asked: list[bytes] = []
    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(loop.create_server(lambda: _Server(asked), "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield listening.sockets[0].getsockname()[1], asked
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _gets(*paths: str) -> list[bytes]:
    return [load.request("GET", path, "key") for path in paths]


def test_a_load_that_sends_once_sends_each_request_once(server: tuple[int, list[bytes]]) -> None:
    port, asked = server
    paths = [f"/{number}" for number in range(50)]
    done = load.run(port, functools.partial(_gets, *paths), connections=4, seconds=30, warm_s=0, once=True)
    assert (done.requests, done.body_bytes) == (50, 550)
    assert sorted(asked) == sorted(path.encode() for path in paths)


def test_a_load_at_a_rate_sends_that_many(server: tuple[int, list[bytes]]) -> None:
    port, asked = server
    done = load.run(port, functools.partial(_gets, "/1"), connections=4, seconds=0.1, warm_s=0, arrivals=200)
    assert done.requests == len(asked) == 20


def test_a_wrong_answer_fails_the_load_and_is_shown(server: tuple[int, list[bytes]]) -> None:
    port, _ = server
    with pytest.raises(RuntimeError, match=r"1 of 3 answers were wrong; the first: HTTP/1\.1 404"):
        load.run(port, functools.partial(_gets, "/1", "/missing", "/2"), connections=1, seconds=30, warm_s=0, once=True)
