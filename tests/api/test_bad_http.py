"""Paths, methods and bytes outside HTTP or the contract get an error, and change nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable

import httpx
import pytest
from calls import code, ok
from cast import People
from raw_http import plain, raw
from servers import API, KEY, Server

Acting = Callable[[int], httpx.Client]
pytestmark = pytest.mark.usefixtures("nothing_changes")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/graph/follows/1/2"),
        ("GET", "/graph/follows/edges"),
        ("GET", "/graph/select"),
        ("PUT", "/users/1/follow"),
        ("GET", "/users/1/follow"),
        ("DELETE", "/users/1/remove-follower"),
        ("POST", "/users/1"),
        ("DELETE", "/relationships"),
        ("PATCH", "/jobs/1"),
        ("PROPFIND", "/users/1"),
    ],
)
def test_a_method_that_a_path_does_not_take_is_a_405(acting: Acting, method: str, path: str) -> None:
    answer = acting(1).request(method, API + path)
    assert code(answer, 405) == "METHOD_NOT_ALLOWED"
    assert answer.headers.get("allow"), "RFC 9110: a 405 names the allowed methods"


def test_a_405_names_the_methods_of_that_path_only(acting: Acting, people: People) -> None:
    """Not those of /posts/{id}, which the path would also match."""
    for path in ("/posts/view", "/posts/lookup", "/users/lookup"):
        answer = acting(people.alice).get(API + path)
        assert code(answer, 405) == "METHOD_NOT_ALLOWED"
        assert set(answer.headers["allow"].split(", ")) == {"OPTIONS", "POST"}, path


def test_head_is_named_exactly_on_routes_that_answer_it(acting: Acting, people: People, prepares: None) -> None:
    client = acting(people.alice)
    for path, takes in (("/feed", True), (f"/users/{people.alice}", True), ("/feed/stream", False), ("/posts", False)):
        named = client.options(API + path).headers["allow"].split(", ")
        assert ("HEAD" in named) == takes == (client.head(API + path).status_code == 200), path
        assert client.request("PROPFIND", API + path).headers["allow"].split(", ") == named


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"content": {"text": "\xff"}}', "UTF-8"),
        (b'{"content": {"text": "x"}, "attributes": {"a": ' + b"[" * 9_999, "deep"),
    ],
    ids=["UTF-8", "deep"],
)
def test_a_body_that_cannot_be_read_is_refused_with_the_reason(
    acting: Acting, people: People, body: bytes, why: str
) -> None:
    answer = acting(people.alice).post(f"{API}/posts", content=body, headers={"Content-Type": "application/json"})
    assert code(answer, 400) == "INVALID_REQUEST"
    assert why in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/", "/nope", API, f"{API}/nope", f"{API}/users", "/api/v2/users/1", f"{API}/users/1/x"]
)
def test_an_unknown_path_is_a_404(http: httpx.Client, path: str) -> None:
    assert code(http.get(path), 404) == "NOT_FOUND"


@pytest.mark.parametrize("host", [b"x:abc", b"x:99999999", b"[", b"a b", b"\xff", b""])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404), ("GET", "//[/nope", 404), ("GET", f"{API}/feed?limit=x", 400),
        ("DELETE", "/healthz", 405), ("GET", "/healthz", 200),
    ],
)  # fmt: skip
def test_an_invalid_host_header_changes_no_answer(
    server: Server, host: bytes, method: str, path: str, status: int
) -> None:
    head = [f"Authorization: Bearer {KEY}".encode(), b"X-Kith-User: 1", b"Host: " + host, b"Connection: close"]
    request = b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *head, b"", b""])
    assert raw(server, request)[0] in (status, 400)


def test_an_unknown_job_is_a_404(http: httpx.Client) -> None:
    for job in ("x", "%00", "%2e", "a" * 5_000, "%F0%9F%98%80", "server-key", "-"):
        assert code(http.get(f"{API}/jobs/{job}"), 404) == "NOT_FOUND"


@pytest.mark.parametrize("path", ["/users/{}", "/graph/follows/{}/2", "/graph/follows/{}/out", "/users/{}/followers"])
def test_a_path_is_percent_decoded_once(system: httpx.Client, path: str) -> None:
    assert system.get(API + path.format("%31")).status_code == 200
    for bad in ("%2531", "%251", "1%00", "%FF", "%D9%A3", "%C2%B2", "1%20"):
        assert code(system.get(API + path.format(bad)), 400) in ("INVALID_ID", "INVALID_REQUEST"), bad


@pytest.mark.parametrize("path", ["/users%2F1", "/users/1%2ffollowers", "%2fusers/1", "/graph/follows/1%2F2"])
def test_an_encoded_slash_does_not_separate_path_segments(system: httpx.Client, path: str) -> None:
    """A proxy that protects some paths sees a single path segment there."""
    assert system.get(API + path).status_code in (400, 404)
    assert system.get(API + path.replace("%2F", "/").replace("%2f", "/")).status_code == 200


@pytest.mark.parametrize("encoded", ["chec%6B", "check"])
def test_an_encoded_path_takes_the_same_body_as_a_plain_one(http: httpx.Client, encoded: str) -> None:
    answer = http.post(f"{API}/graph/follows/{encoded}", json={"pairs": [["8", 9]]})
    assert ok(answer) == {"exists": [False]}


def test_expect_100_continue_is_answered(server: Server) -> None:
    body = b'{"edges": []}'
    length = b"Content-Length: %d" % len(body)
    request = plain("POST", f"{API}/graph/follows/edges", b"Expect: 100-continue", length)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(request)
        assert connection.recv(1_000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert connection.recv(1_000).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_ends_before_its_declared_length_is_refused(server: Server) -> None:
    request = plain("POST", f"{API}/boards/check", b"X-Kith-User: 1", b"Content-Length: 100", body=b'{"boards": []}')
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1_000).startswith(b"HTTP/1.1 400 ")
    assert server.ready()


def test_a_chunked_body_that_also_declares_a_length_is_bounded(server: Server) -> None:
    lengths = [b"Content-Length: 5", b"Transfer-Encoding: chunked"]
    chunks = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for order in (lengths, lengths[::-1]):
        try:
            status, _ = raw(
                server, plain("POST", f"{API}/graph/follows/edges", *order, body=chunks * 40 + b"0\r\n\r\n")
            )
        except ConnectionError:
            status = 0
        assert status in (0, 400, 413)
    assert server.ready()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"junk\r\n\r\n",
        plain("GET", f"{API}/users/1", b"X-Long: " + b"a" * 1_000_000),
        plain("GET", f"{API}/users/" + "1" * 100_000),
        plain("GET", f"{API}/users/1", *(b"X-%d: a" % number for number in range(500))),
        plain("POST", f"{API}/graph/follows/edges", b"Content-Length: -1"),
        plain("POST", f"{API}/graph/follows/edges", b"Content-Length: 1", b"Content-Length: 2", body=b"ab"),
        plain("POST", f"{API}/graph/follows/edges", b"Transfer-Encoding: chunked", body=b"zz\r\n"),
        plain("GET", f"{API}/users/1?" + "a" * 60_000),
        plain("GET", f"{API}/users/1?%FF=%00&%00"),
    ],
    ids=["junk", "long header", "long path", "many headers", "negative", "two lengths", "bad chunk", "query", "zeros"],
)
def test_invalid_http_is_refused_and_the_server_keeps_serving(server: Server, request_bytes: bytes) -> None:
    try:
        status, _ = raw(server, request_bytes)
    except ConnectionError:
        status = 0
    assert status == 0 or 400 <= status < 500
    assert server.ready()
