"""/webhooks over real HTTP: what changes arrives at the app's URL, signed, in order, whoever is killed meanwhile."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from calls import add_edges, make, ok
from cast import People
from receiver import Delivery, Endpoint, endpoint
from servers import API, Server, eventually, serving

SECRET = "whsec_that-only-the-tests-know"
LOCAL = "127.0.0.0/8"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may call this machine, where the endpoints of these tests are."""
    with serving(tmp_path_factory.mktemp("webhooks"), KITH_OUTBOUND_NETWORKS=LOCAL, KITH_WEBHOOKS_MAX="3") as running:
        yield running


@pytest.fixture
def hooked(local: Server) -> Iterator[httpx.Client]:
    """A client with the server key; webhooks that a test makes are ended with it."""
    with local.client() as http:
        yield http
        for one in ok(http.get(f"{API}/webhooks"))["webhooks"]:
            assert http.delete(f"{API}/webhooks/{one['id']}").status_code == 204


@pytest.fixture
def app() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


def webhook(http: httpx.Client, app: Endpoint, **asked: Any) -> dict[str, Any]:
    return dict(ok(http.post(f"{API}/webhooks", json={"url": app.url, **asked}), 201))


def state(http: httpx.Client, made: dict[str, Any]) -> dict[str, Any]:
    return dict(ok(http.get(f"{API}/webhooks/{made['id']}"))["state"])


def is_signed(delivery: Delivery, secret: str) -> bool:
    parts = dict(part.split("=", 1) for part in delivery.headers["kith-signature"].split(","))
    said = hmac.new(secret.encode(), f"{parts['t']}.".encode() + delivery.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(said, parts["v1"])


def test_what_changes_is_sent_signed_and_as_watch_tells_it(
    local: Server, hooked: httpx.Client, app: Endpoint, people: People
) -> None:
    made = webhook(hooked, app, graphs=["follows"], kinds=["edge", "post"], secret=SECRET)
    assert made["secret"] == SECRET
    add_edges(hooked, "follows", (people.alice, people.bob))
    add_edges(hooked, "mutes", (people.alice, people.carol))
    with local.client(acting=people.alice) as alice:
        post = make(alice, "look")
    eventually(lambda: len(app.taken) >= 2)
    edge, said = app.taken
    assert (edge["kind"], edge["source"], edge["destination"]) == ("edge", str(people.alice), str(people.bob))
    assert (said["kind"], said["id"], said["text"]) == ("post", str(post), "look")
    first = app.got[0]
    assert is_signed(first, SECRET)
    assert not is_signed(first, SECRET + "x")
    assert first.told["webhook"] == first.headers["kith-webhook"] == made["id"]
    assert first.told["delivery"] == first.headers["kith-delivery"]
    watched = f"{API}/watch?graphs=follows&kinds=edge,post&after={edge['token']}"
    with hooked.stream("GET", watched, headers={"Accept": "application/x-ndjson"}) as response:
        lines = (json.loads(line) for line in response.iter_lines())
        assert next(line for line in lines if line["kind"] != "here") == said
    eventually(lambda: state(hooked, made)["lastStatus"] == 200)
    assert state(hooked, made)["failures"] == state(hooked, made)["deadLetters"] == 0
