"""The routes of standbys: only for our own machines, with a server key."""

from __future__ import annotations

import re

import pytest
from calls import code
from cast import People
from servers import API, Server, eventually, sign

from kith.engines.embedded import segments

ROUTES = [("GET", "/standby/snapshot"), ("GET", "/standby/log"), ("GET", "/standby/epoch"), ("POST", "/standby/fence")]
FENCE = {"primary": "http://elsewhere", "epoch": {"restores": []}}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_strangers_and_users_are_refused(server: Server, people: People, method: str, path: str) -> None:
    body = FENCE if method == "POST" else None
    for credential, status in (("", 401), ("kith_of-nobody-at-all-here", 401), (sign(people.alice), 403)):
        with server.client(credential) as http:
            code(http.request(method, API + path, json=body), status)


def test_the_log_answers_the_events_after_a_number_or_204_if_there_are_none(server: Server, people: People) -> None:
    with server.client(acting=people.alice) as http:
        http.post(f"{API}/users/{people.bob}/follow").raise_for_status()
        first = segments.unpack(http.get(f"{API}/standby/log").content, "the log")
        assert first.after == 0
        assert next(segments.numbered(first))[0] == 1
        nothing = http.get(f"{API}/standby/log", params={"after": 1 << 40, "has": 0, "wait_ms": 1})
        assert (nothing.status_code, nothing.content) == (204, b"")


def test_time_spent_waiting_for_events_does_not_count_as_response_time(server: Server) -> None:
    """A standby polls four times a second. If waiting counted, more than one request in a hundred would look slow."""
    waited_s = 1.5

    def took_s() -> float:
        found = re.search(r'request_seconds_sum{operation="standby_log"} (\S+)', http.get("/metrics").text)
        return float(found[1]) if found else 0.0

    with server.client() as http:
        before = took_s()
        http.get(f"{API}/standby/log", params={"after": 1 << 40, "has": 0, "wait_ms": round(1000 * waited_s)})
        eventually(lambda: took_s() > before)
        assert took_s() - before < waited_s


@pytest.mark.parametrize("asked", [{"after": "-1"}, {"wait_ms": "2001"}, {"has": "x"}, {"name": "[/]"}])
def test_invalid_parameters_are_refused(server: Server, asked: dict[str, str]) -> None:
    with server.client() as http:
        assert code(http.get(f"{API}/standby/log", params=asked), 400) == "INVALID_REQUEST"


def test_an_epoch_that_is_not_newer_fences_nothing(server: Server, people: People) -> None:
    with server.client(acting=people.alice) as http:
        assert code(http.post(f"{API}/standby/fence", json=FENCE), 409) == "CONFLICT"
        http.post(f"{API}/users/{people.carol}/follow").raise_for_status()
