"""/devices over real HTTP: a browser registers, a user likes, and the push service gets a message only the browser
reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from calls import code, make, ok
from cast import People
from push_world import CONTACT, Browser, app_address
from servers import API, Server, eventually, serving
from webhook_receiver import Answer, Endpoint, endpoint

from kith.notifications.push.vapid import encoded, point_of

ROUTE = f"{API}/devices"


@pytest.fixture(scope="module")
def push_service() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, push_service: Endpoint) -> Iterator[Server]:
    """A server that may call push services on this machine."""
    settings = {"KITH_WEBPUSH_CONTACT": CONTACT, "KITH_WEBPUSH_HOSTS": f"127.0.0.1:{push_service.port}"}
    folder = tmp_path_factory.mktemp("devices")
    with serving(folder, KITH_OUTBOUND_NETWORKS="127.0.0.1/32", **settings) as running:
        yield running


@pytest.fixture
def service(push_service: Endpoint) -> Endpoint:
    """The push service, without earlier requests."""
    push_service.got.clear()
    push_service.answer = lambda _: Answer(201)
    return push_service


def subscription_of(browser: Browser) -> dict[str, Any]:
    """The subscription of a browser, as the browser sends it."""
    keys = {"p256dh": encoded(point_of(browser.key)), "auth": encoded(browser.auth)}
    return {"kind": "webpush", "endpoint": browser.endpoint, "expirationTime": None, "keys": keys}


def acting(local: Server, user: int) -> httpx.Client:
    http = local.client()
    http.headers["X-Kith-User"] = str(user)
    return http


def test_a_like_is_pushed_to_the_browser_of_its_recipient(local: Server, service: Endpoint, people: People) -> None:
    browser = Browser("alice", f"http://127.0.0.1:{service.port}")
    with acting(local, people.alice) as alice, acting(local, people.bob) as bob:
        made = ok(alice.post(ROUTE, json=subscription_of(browser)), 201)
        assert ok(alice.post(ROUTE, json=subscription_of(browser)), 201)["id"] == made["id"]
        listed = alice.get(ROUTE)
        assert [one["id"] for one in ok(listed)["devices"]] == [made["id"]]
        assert ok(listed)["kinds"] == ["webpush"]
        key = ok(listed)["applicationServerKey"]
        assert ok(alice.get(f"{ROUTE}/{made['id']}"))["kind"] == "webpush"
        assert browser.endpoint not in listed.text
        post = make(alice, "news")
        ok(bob.post(f"{API}/posts/{post}/like"))
        eventually(lambda: service.got)
        (got,) = service.got
        message = browser.opened(got.body)
        assert (message["type"], message["actorId"], message["postId"]) == ("like", str(people.bob), post)
        assert (message["title"], message["body"]) == ("Somebody liked your post", "news")
        assert got.headers["authorization"].endswith(f"k={key}")
        assert (got.headers["content-encoding"], got.headers["urgency"]) == ("aes128gcm", "normal")
        assert 86_000 < int(got.headers["ttl"]) <= 86_400
        assert alice.delete(f"{ROUTE}/{made['id']}").status_code == 204
        assert code(alice.get(f"{ROUTE}/{made['id']}"), 404) == "DEVICE_NOT_FOUND"


def test_a_gone_browser_is_removed_and_owed_pushes_are_counted(
    local: Server, service: Endpoint, people: People
) -> None:
    browser = Browser("gone", f"http://127.0.0.1:{service.port}")
    with acting(local, people.alice) as alice, acting(local, people.bob) as bob:
        ok(alice.post(ROUTE, json=subscription_of(browser)), 201)
        service.answer = lambda _: Answer(503)
        post = make(alice, "news")
        ok(bob.post(f"{API}/posts/{post}/like"))
        eventually(lambda: "kith_push_owed 1.0" in local.get("/metrics").text)
        service.answer = lambda _: Answer(410)
        eventually(lambda: ok(alice.get(ROUTE))["devices"] == [])
        eventually(lambda: "kith_push_owed 0.0" in local.get("/metrics").text)


def test_an_invalid_device_is_refused(local: Server, people: People) -> None:
    browser = subscription_of(Browser("x", "https://elsewhere.example"))
    with acting(local, people.alice) as alice:
        assert code(alice.post(ROUTE, json=browser), 400) == "INVALID_CONTENT"
        assert code(alice.post(ROUTE, json={"kind": "webpush", "token": "x"}), 400) == "INVALID_CONTENT"
        token = app_address("fcm", "x").endpoint
        assert code(alice.post(ROUTE, json={"kind": "fcm", "token": token}), 400) == "INVALID_REQUEST"
        assert code(alice.post(ROUTE, json={"kind": "fax"}), 400) == "INVALID_REQUEST"
        assert ok(alice.get(ROUTE))["devices"] == []


def test_a_removed_user_has_no_devices(local: Server, service: Endpoint, people: People) -> None:
    browser = Browser("carol", f"http://127.0.0.1:{service.port}")
    with acting(local, people.carol) as carol, local.client() as http:
        ok(carol.post(ROUTE, json=subscription_of(browser)), 201)
        job = ok(http.delete(f"{API}/users/{people.carol}"), 202)["job"]["id"]
        eventually(lambda: ok(http.get(f"{API}/jobs/{job}"))["done"])
        assert ok(carol.get(ROUTE))["devices"] == []
        assert code(carol.post(ROUTE, json=subscription_of(browser)), 403) == "FORBIDDEN"
        assert ok(carol.get(ROUTE))["devices"] == []
