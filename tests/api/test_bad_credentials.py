"""Bad credentials and bad acting users get an error that says what to do, and change nothing."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import httpx
import pytest
from calls import code, ok
from raw_http import plain, raw
from servers import API, JWT_SECRET, KEY, Server, sign

from kith.core.ids import ID_MAX

Acting = Callable[[int], httpx.Client]
pytestmark = pytest.mark.usefixtures("nothing_changes")


def _unsigned(header: bytes) -> str:
    part = base64.urlsafe_b64encode(header).rstrip(b"=").decode()
    return f"{part}.{sign(1).split('.')[1]}."


BAD_TOKENS = {
    "expired": lambda: sign(1, ttl_s=-60),
    "not yet valid": lambda: sign(1, nbf=int(time.time()) + 600),
    "wrong secret": lambda: sign(1, secret="another secret, as long as the real one is"),
    "wrong audience": lambda: sign(1, aud="another"),
    "wrong issuer": lambda: sign(1, iss="another"),
    "no audience": lambda: sign(1, aud=None),
    "no issuer": lambda: sign(1, iss=None),
    "no expiry": lambda: sign(1, exp=None),
    "no subject": lambda: sign(1, sub=None),
    "subject no id": lambda: sign(1, sub="alice"),
    "subject a number": lambda: sign(1, sub=1),
    "subject too great": lambda: sign(1, sub=str(ID_MAX + 1)),
    "expiry no number": lambda: sign(1, exp="soon"),
    "expiry endless": lambda: sign(1, exp=10**400),
    "expiry infinite": lambda: sign(1, exp=float("inf")),
    "HS512": lambda: sign(1, algorithm="HS512"),
    "alg none": lambda: _unsigned(b'{"alg":"none","typ":"JWT"}'),
    "alg None": lambda: _unsigned(b'{"alg":"None","typ":"JWT"}'),
    "alg empty": lambda: _unsigned(b'{"alg":"HS256","typ":"JWT"}'),
    "alg list": lambda: _unsigned(b'{"alg":["HS256"]}'),
    "header no JSON": lambda: _unsigned(b"\xff"),
    "header deep": lambda: _unsigned(b"[" * 5_000),
    "header long number": lambda: _unsigned(b'{"alg":' + b"9" * 5_000 + b"}"),
    "altered": lambda: sign(1)[:-2] + "AA",
    "dots": lambda: "..",
    "secret itself": lambda: JWT_SECRET,
    "another key": lambda: KEY + "x",
}


@pytest.mark.parametrize("bad", BAD_TOKENS)
def test_invalid_credentials_get_a_401_that_says_what_to_do(server: Server, bad: str) -> None:
    with server.client(BAD_TOKENS[bad]()) as http:
        for path in ("/graph/follows/1/2", "/users/1"):
            answer = http.get(API + path)
            assert code(answer, 401) == "UNAUTHORIZED"
            assert answer.headers["www-authenticate"] == "Bearer"
            message = answer.json()["error"]["message"]
            assert not any(word in message for word in ("recursion", "set_int_max_str_digits", "Traceback"))


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer ", b"Basic a2l0aDo=", KEY.encode(), b"Bearer \xff\xfe"])
def test_an_authorization_header_of_another_kind_is_a_401(server: Server, value: bytes) -> None:
    for path in ("/graph/follows/1/2", "/users/1"):
        status, body = raw(server, plain("GET", API + path, b"Authorization: " + value, key=None))
        assert status == 401
        assert json.loads(body)["error"]["code"] == "UNAUTHORIZED"


def test_a_token_in_the_cache_of_the_server_ends_when_it_expires(server: Server) -> None:
    with server.client(sign(1, ttl_s=-8)) as http:  # two seconds of the leeway are left
        assert ok(http.get(f"{API}/users/1"))
        deadline = time.monotonic() + 10
        while http.get(f"{API}/users/1").status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert code(http.get(f"{API}/graph/follows/1/2"), 401) == "UNAUTHORIZED"


@pytest.mark.parametrize("token", ["x", "A" * 43, "", "é", pytest.param("A" * 9_000, id="long")])
def test_a_write_token_of_another_service_is_refused_and_never_ignored(server: Server, token: str) -> None:
    header = b"Kith-Token: " + token.encode()
    for path in ("/graph/follows/1/2", "/users/1"):
        status, body = raw(server, plain("GET", API + path, header))
        assert status == 400, path
        assert json.loads(body)["error"]["code"] == "TOKEN_INVALID"


@pytest.mark.parametrize("name", ["Kith-Token", "Idempotency-Key"])
def test_a_header_with_one_meaning_is_refused_if_it_is_sent_twice(server: Server, name: str) -> None:
    """Of two keys a retry might carry the other one, and write twice; a read would wait for one of two writes only."""
    content = b'{"content": {"text": "once"}}'
    twice = [f"{name}: {value}".encode() for value in ("one", "two")]
    request = plain(
        "POST", f"{API}/posts", b"X-Kith-User: 1", b"Content-Length: %d" % len(content), *twice, body=content
    )
    status, body = raw(server, request)
    assert (status, name.lower() in json.loads(body)["error"]["message"]) == (400, True)


# --- acting users ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["-1", "x", str(ID_MAX + 1), "", "1 ", "٣", "1,2"])
def test_a_bad_acting_user_is_refused_and_never_ignored(server: Server, bad: str) -> None:
    header = b"X-Kith-User: " + bad.encode()
    for path in ("/graph/follows/1/2", "/users/1", "/graph/blocks/1/out"):
        if bad == "1 ":
            continue  # spaces around the value of a header are not part of it
        status, body = raw(server, plain("GET", API + path, header))
        assert status == 400, (path, body)
        assert json.loads(body)["error"]["code"] == "INVALID_ID"


@pytest.mark.parametrize("second", [b"X-Kith-User: 2", b"x-kith-user: 1", b"X-Kith-User:"])
def test_two_acting_users_are_refused_even_if_they_are_one(server: Server, second: bytes) -> None:
    """A proxy may have added one of them, so nobody can tell which one is meant."""
    for method, path in (("GET", "/users/1"), ("GET", "/graph/follows/1/2"), ("POST", "/users/3/follow")):
        for pair in ((b"X-Kith-User: 1", second), (second, b"X-Kith-User: 1")):
            status, body = raw(server, plain(method, API + path, *pair))
            assert status == 400, (path, body)
            error = json.loads(body)["error"]
            assert (error["code"], "x-kith-user" in error["message"]) == ("INVALID_REQUEST", True)


@pytest.mark.parametrize("second", [KEY, "wrong", sign(1)], ids=["the same", "a wrong one", "a user's"])
def test_two_credentials_are_refused(server: Server, second: str) -> None:
    for path in ("/users/1", "/graph/follows/1/2", "/feed/stream"):
        status, body = raw(server, plain("GET", API + path, f"Authorization: Bearer {second}".encode()))
        assert status == 400, (path, body)
        assert "authorization" in json.loads(body)["error"]["message"]
