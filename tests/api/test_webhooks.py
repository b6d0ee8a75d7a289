"""/webhooks over real HTTP: changes arrive at the app's URL, signed and in order, even if processes are killed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import add_edges, code, make, ok
from cast import People
from servers import API, ON_CLUSTER, Server, comparable_order, eventually, named, serving
from webhook_receiver import Answer, Delivery, Endpoint, endpoint

from kith.client import ApiError, Kith
from kith.core.events import NOWHERE
from kith.log.store import Failure
from kith.run.config import Settings
from kith.run.opening import wiring

SECRET = "whsec_that-only-the-tests-know"
LOCAL = "127.0.0.0/8"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may call this machine, where these tests have their endpoints."""
    with serving(tmp_path_factory.mktemp("webhooks"), KITH_OUTBOUND_NETWORKS=LOCAL, KITH_WEBHOOKS_MAX="3") as running:
        yield running


@pytest.fixture
def hooked(local: Server) -> Iterator[httpx.Client]:
    """A client with the server key. The webhooks that a test creates are deleted at the end."""
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


def test_changes_are_sent_signed_and_in_the_shape_of_watch(
    local: Server, hooked: httpx.Client, app: Endpoint, people: People
) -> None:
    made = webhook(hooked, app, graphs=["follows"], kinds=["edge", "post"], secret=SECRET)
    assert made["secret"] == SECRET
    add_edges(hooked, "follows", (people.alice, people.bob))
    add_edges(hooked, "mutes", (people.alice, people.carol))
    with local.client(acting=people.alice) as alice:
        post = make(alice, "look")
    eventually(lambda: len(app.taken) >= 2)
    edge, said = sorted(app.taken, key=lambda change: str(change["kind"]))
    assert (edge["kind"], edge["source"], edge["destination"]) == ("edge", str(people.alice), str(people.bob))
    assert (said["kind"], said["id"], said["text"]) == ("post", str(post), "look")
    first = app.got[0]
    assert is_signed(first, SECRET)
    assert not is_signed(first, SECRET + "x")
    assert first.payload["webhook"] == first.headers["kith-webhook"] == made["id"]
    assert first.payload["delivery"] == first.headers["kith-delivery"]
    watched = f"{API}/watch?graphs=follows&kinds=edge,post&after={edge['token']}"
    with hooked.stream("GET", watched, headers={"Accept": "application/x-ndjson"}) as response:
        lines = (json.loads(line) for line in response.iter_lines())
        assert next(line for line in lines if line["kind"] != "here") == said
    eventually(lambda: state(hooked, made)["lastStatus"] == 200)
    assert state(hooked, made)["failures"] == state(hooked, made)["deadLetters"] == 0


def test_the_state_of_deliveries_is_shown_and_the_output_reveals_no_secret(
    local: Server, hooked: httpx.Client, app: Endpoint, people: People
) -> None:
    app.answer = lambda _: Answer(500)
    made = webhook(hooked, app, kinds=["edge"], graphs=["follows"], secret=SECRET)
    add_edges(hooked, "follows", (people.alice, people.bob))
    eventually(lambda: state(hooked, made)["failures"] >= 2)
    seen = state(hooked, made)
    assert (seen["lastStatus"], seen["lastError"], seen["deadLetters"]) == (500, "it answered 500", 0)
    assert seen["eventsBehind"] > 0
    assert seen["nextTryAt"]
    assert "a delivery failed" in local.output()
    assert SECRET not in local.output()
    assert "/hook" not in local.output()
    assert SECRET not in hooked.get(f"{API}/webhooks/{made['id']}").text + hooked.get(f"{API}/webhooks").text


@pytest.mark.skipif(ON_CLUSTER, reason="writes to the data folder")
def test_a_dead_letter_is_listed_as_it_was_sent_and_can_be_replayed(
    local: Server, hooked: httpx.Client, app: Endpoint, people: People
) -> None:
    made = webhook(hooked, app, graphs=["follows"])
    add_edges(hooked, "follows", (people.alice, people.bob))
    eventually(lambda: app.taken)
    asyncio.run(give_up_all(local, f"webhook/{made['id']}"))
    listed = ok(hooked.get(f"{API}/webhooks/{made['id']}/dead"))
    assert listed["count"] == state(hooked, made)["deadLetters"] == len(listed["letters"])
    assert (listed["letters"][-1]["change"], listed["letters"][-1]["error"]) == (app.taken[0], "why")
    assert ok(hooked.post(f"{API}/webhooks/{made['id']}/replay")) == {"count": listed["count"]}
    eventually(lambda: state(hooked, made)["deadLetters"] == 0 and app.got[-1].payload["replayed"])
    assert app.got[-1].changes[-1] == app.taken[0]


async def give_up_all(server: Server, group: str) -> None:
    """Turn all follows so far into dead letters."""
    async with wiring.open_stores(Settings(data=str(server.data)), "test", create=False) as parts:
        follows = parts.graph.graphs.number("follows")
        events = (await parts.log.read(NOWHERE, 10_000)).events
        dead = {
            one.log_position: Failure(group, one, 9, "why", 0, 0, dead=True) for one in events if one.graph == follows
        }
        await parts.log.save(group, None, dead)


def test_a_private_address_is_never_called_in_any_spelling(server: Server, app: Endpoint, people: People) -> None:
    """As a number in any spelling, or by a name."""
    port = app.url.rpartition(":")[2]
    with server.client() as http:
        for address in (
            "127.0.0.1", "127.1", "2130706433", "0x7f000001", "127.0.0.1.",
            "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254",
        ):  # fmt: skip
            refused = http.post(f"{API}/webhooks", json={"url": f"http://{address}:{port}"})
            assert code(refused, 400) == "INVALID_REQUEST"
            assert "outbound_networks" in refused.json()["error"]["message"]
        made = ok(http.post(f"{API}/webhooks", json={"url": f"http://localhost:{port}", "graphs": ["follows"]}), 201)
        add_edges(http, "follows", (people.alice, people.bob))
        eventually(lambda: "no public address" in state(http, made)["lastError"])
        assert http.delete(f"{API}/webhooks/{made['id']}").status_code == 204
    assert not app.got


def test_a_redirect_is_not_followed_and_is_reported(hooked: httpx.Client, app: Endpoint, people: People) -> None:
    with endpoint() as elsewhere:
        app.answer = lambda _: Answer(302, {"Location": elsewhere.url})
        made = webhook(hooked, app, graphs=["follows"])
        add_edges(hooked, "follows", (people.alice, people.bob))
        eventually(lambda: "redirect" in state(hooked, made)["lastError"])
        assert not elsewhere.got


def test_a_webhook_that_hangs_or_breaks_delays_no_other(hooked: httpx.Client, app: Endpoint, people: People) -> None:
    with endpoint() as hanging, endpoint() as cut:
        hanging.answer, cut.answer = lambda _: Answer(hangs=True), lambda _: Answer(body=b"half", cut=True)
        for one in (hanging, cut):
            webhook(hooked, one, graphs=["follows"])
        webhook(hooked, app, graphs=["follows"])
        for at in range(50):
            add_edges(hooked, "follows", (people.alice + 1 + at, people.dana))
        eventually(lambda: len(app.taken) == 50 and hanging.got and cut.got)
        sources = comparable_order([change["source"] for change in app.taken])
        assert sources == [str(people.alice + 1 + at) for at in range(50)]


def test_no_change_is_missing_and_the_order_holds_although_the_worker_is_killed(
    tmp_path: Path, app: Endpoint, people: People
) -> None:
    with serving(tmp_path, KITH_OUTBOUND_NETWORKS=LOCAL) as server, server.client() as http:
        webhook(http, app, graphs=["follows"])
        killed = []

        def kill_now_and_then(_: Delivery) -> Answer:
            if len(killed) < 3:
                killed.append(worker_of(server))
                os.kill(killed[-1], signal.SIGKILL)
            return Answer()

        app.answer = kill_now_and_then
        for at in range(200):
            add_edges(http, "follows", (people.alice + 1 + at, people.dana))
        wanted = [str(people.alice + 1 + at) for at in range(200)]
        eventually(lambda: {change["source"] for change in heard(app)} == set(wanted), 240 if ON_CLUSTER else 60)
        assert len(killed) == 3
        assert comparable_order(list(dict.fromkeys(change["source"] for change in heard(app)))) == wanted


def heard(app: Endpoint) -> list[dict[str, Any]]:
    return [change for one in list(app.got) for change in one.changes]


def worker_of(server: Server) -> int:
    """The pid of the process that delivers the webhooks of a server."""
    return named("webhooks", server.process.pid)[0]


def test_invalid_webhooks_and_too_many_are_refused(hooked: httpx.Client, app: Endpoint) -> None:
    wrong = [
        ({"url": "app.example"}, 400, "INVALID_REQUEST"), ({}, 400, "INVALID_REQUEST"),
        ({"url": app.url, "kinds": ["likes"]}, 400, "INVALID_REQUEST"),
        ({"url": app.url, "graphs": ["nonsense"]}, 404, "GRAPH_NOT_FOUND"),
        ({"url": app.url, "secret": "short"}, 400, "INVALID_REQUEST"),
        ({"url": app.url, "more": 1}, 400, "INVALID_REQUEST"),
    ]  # fmt: skip
    for body, status, error in wrong:
        assert code(hooked.post(f"{API}/webhooks", json=body), status) == error
    for _ in range(3):
        webhook(hooked, app)
    assert code(hooked.post(f"{API}/webhooks", json={"url": app.url}), 409) == "WEBHOOK_LIMIT_REACHED"


def test_the_clients_methods_create_find_and_delete_webhooks(local: Server, app: Endpoint) -> None:
    with Kith(local.url, local.key) as kith:
        made = kith.create_webhook(app.url, graphs=["follows"], key="once")
        assert kith.create_webhook(app.url, graphs=["follows"], key="once") == made
        (listed,) = kith.webhooks()
        assert listed == kith.webhook(made.id)
        assert (listed.url, listed.graphs, listed.state.failures) == (app.url, ["follows"], 0)
        assert kith.webhook_dead_letters(made.id, limit=5).count == kith.replay_webhook(made.id) == 0
        assert made.secret not in local.output()
        kith.delete_webhook(made.id)
        assert kith.webhooks() == []
        with pytest.raises(ApiError, match="WEBHOOK_NOT_FOUND"):
            kith.webhook(made.id)
