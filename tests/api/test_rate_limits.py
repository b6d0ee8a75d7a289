"""A key beyond its rate gets a 429 that says when to retry. Other keys are not affected."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from calls import code, ok
from cast import People
from servers import API, KEY, OTHER_KEY, Server, eventually, serving, sign

READ_RATE, WRITE_RATE = 5, 2
BURST_S = 2


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with low rates for user tokens and server keys."""
    rates = {
        "KITH_RATE_USER_READ": str(READ_RATE),
        "KITH_RATE_USER_WRITE": str(WRITE_RATE),
        "KITH_RATE_SERVER_READ": str(READ_RATE),
        "KITH_RATE_SERVER_WRITE": str(WRITE_RATE),
    }
    with serving(tmp_path_factory.mktemp("limited"), **rates) as running:
        yield running


def until_refused(client: httpx.Client, method: str, path: str, rate: int) -> httpx.Response:
    """The first 429. Checks that about a burst of BURST_S seconds passed before it."""
    for passed in range(100):
        answer = client.request(method, API + path)
        if answer.status_code == 429:
            assert rate <= passed <= rate * (BURST_S + 2)
            return answer
        assert answer.status_code in (200, 400)
    raise AssertionError("never refused")


@pytest.mark.parametrize(
    ("method", "path", "rate"),
    [
        ("GET", "/graph/follows/{me}/2", READ_RATE),
        ("GET", "/users/{me}", READ_RATE),
        ("POST", "/users/2/follow", WRITE_RATE),
        ("PATCH", "/users/{me}", WRITE_RATE),
    ],
)
def test_beyond_the_rate_a_token_gets_429_with_retry_after_and_ratelimit(
    limited: Server, people: People, method: str, path: str, rate: int
) -> None:
    with limited.client(sign(people.alice)) as alice, limited.client(sign(people.bob)) as bob:
        answer = until_refused(alice, method, path.format(me=people.alice), rate)
        assert code(answer, 429) == "RATE_LIMITED"
        assert 1 <= int(answer.headers["Retry-After"]) <= 2
        assert answer.headers["RateLimit"].startswith(f'"{rate}";r=0;t=')
        assert answer.headers["RateLimit-Policy"] == f'"{rate}";q={rate};w=1'
        details = answer.json()["error"]["details"]
        assert details["limit"] == rate
        assert 0 < details["retryAfterSeconds"] <= 1
        assert bob.request(method, API + path.format(me=people.bob)).status_code != 429
        other = ("GET", f"/users/{people.alice}") if method != "GET" else ("POST", "/users/2/mute")
        assert alice.request(other[0], API + other[1]).status_code != 429, "reads and writes count separately"


def test_two_tokens_of_a_user_share_one_rate(limited: Server, people: People) -> None:
    with limited.client(sign(people.alice)) as first, limited.client(sign(people.alice, ttl_s=900)) as second:
        until_refused(first, "GET", f"/users/{people.alice}", READ_RATE)
        assert code(second.get(f"{API}/users/{people.alice}"), 429) == "RATE_LIMITED"


def test_a_server_key_has_one_rate_for_all_acting_users_separate_from_other_keys(limited: Server) -> None:
    with limited.client(KEY) as http, limited.client(OTHER_KEY) as other:
        for user in range(100):
            answer = http.post(f"{API}/users/5000/mute", headers={"X-Kith-User": str(user)})
            if answer.status_code == 429:
                break
        assert code(answer, 429) == "RATE_LIMITED"
        assert ok(other.post(f"{API}/users/5000/mute", headers={"X-Kith-User": "1"}))["muting"]


def test_a_request_after_retry_after_passes(limited: Server, people: People) -> None:
    with limited.client(sign(people.alice)) as alice:
        refused = until_refused(alice, "GET", f"/users/{people.alice}", READ_RATE)
        deadline = float(refused.json()["error"]["details"]["retryAfterSeconds"])
        assert deadline < 1 / READ_RATE + 0.01
        eventually(lambda: alice.get(f"{API}/users/{people.alice}").status_code == 200, seconds=5)


def test_health_and_metrics_are_never_limited(limited: Server) -> None:
    with limited.client("") as nobody:
        assert {nobody.get(path).status_code for path in ("/healthz", "/readyz", "/metrics") * 20} == {200}
