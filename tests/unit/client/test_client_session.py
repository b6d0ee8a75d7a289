"""The acting user of a client, the token it carries, and the key it never shows. Same for both clients."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from kith.client import ApiError, AsyncKith, Kith, Retry, Unreachable
from kith.core.errors import BadId

ALICE, BOB, CAROL = 1, 2, 3
KEY = "sk-very-secret"
URL = "http://kith.example"
Client = Kith | AsyncKith
Handler = Callable[[httpx.Request], httpx.Response]
BOTH = pytest.mark.parametrize("kind", [Kith, AsyncKith])


def ask(client: Client, method: str, *args: Any) -> Any:
    """The result of a method, awaited where it must be."""
    result = getattr(client, method)(*args)
    return asyncio.run(result) if inspect.isawaitable(result) else result


class Service:
    """Answers every follow and unfollow with a token that counts them: t1, t2, ..."""

    def __init__(self, in_header: bool = False) -> None:
        self.in_header = in_header
        self.writes = 0
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if request.method == "GET":
            return httpx.Response(200, json={"exists": True})
        self.writes += 1
        answer = {"following": True, "changed": True}
        if self.in_header:
            return httpx.Response(200, json=answer, headers={"Kith-Token": f"t{self.writes}"})
        return httpx.Response(200, json=answer | {"token": f"t{self.writes}"})

    def sent(self, header: str) -> list[str | None]:
        return [request.headers.get(header) for request in self.asked]


def connected(kind: type[Client], handler: Handler, **settings: Any) -> Client:
    return kind(URL, KEY, transport=httpx.MockTransport(handler), **settings)


@BOTH
@pytest.mark.parametrize("in_header", [True, False])
def test_the_newest_token_goes_with_the_next_request(kind: type[Client], in_header: bool) -> None:
    service = Service(in_header)
    kith = connected(kind, service)
    ask(kith, "follow", BOB)
    ask(kith, "exists", "follows", ALICE, BOB)  # answers no token, so the last one stays
    ask(kith, "follow", CAROL)
    ask(kith, "exists", "follows", ALICE, CAROL)
    assert service.sent("Kith-Token") == [None, "t1", "t1", "t2"]
    assert kith.token == "t2"


def test_concurrent_writes_lose_no_token() -> None:
    """Each answer arrives while the next write is already under way, so no write carries the others' tokens."""
    told: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        number = len(told) + 1
        told.append(request.headers.get("Kith-Token"))
        if number < 4:
            ask(kith, "follow", BOB)
        return httpx.Response(200, json={"following": True, "changed": True}, headers={"Kith-Token": f"t{number}"})

    kith = connected(Kith, handler)
    ask(kith, "follow", CAROL)
    assert told == [None] * 4
    assert kith.token == "t4.t3.t2.t1"
    told[:] = [None] * 4
    ask(kith, "follow", CAROL)
    assert (told[4:], kith.token) == (["t4.t3.t2.t1"], "t5")


@BOTH
def test_the_token_of_a_refusal_is_kept_too(kind: type[Client]) -> None:
    kith = connected(kind, lambda _: httpx.Response(409, headers={"Kith-Token": "t9"}))
    with pytest.raises(ApiError):
        ask(kith, "follow", BOB)
    assert kith.token == "t9"


@BOTH
def test_a_token_can_be_handed_over_and_dropped(kind: type[Client]) -> None:
    service = Service()
    kith = connected(kind, service, token="from-cookie")
    ask(kith, "exists", "follows", ALICE, BOB)
    kith.token = "from-queue"
    ask(kith, "exists", "follows", ALICE, BOB)
    kith.token = None
    ask(kith, "exists", "follows", ALICE, BOB)
    assert service.sent("Kith-Token") == ["from-cookie", "from-queue", None]


@BOTH
def test_a_view_acts_for_its_user_and_the_client_for_none(kind: type[Client]) -> None:
    service = Service()
    kith = connected(kind, service)
    alice = kith.as_user(ALICE)
    ask(alice, "follow", BOB)
    ask(alice.as_user(BOB), "follow", ALICE)
    ask(kith, "exists", "follows", ALICE, BOB)
    ask(alice.as_system(), "unfollow", BOB)
    assert service.sent("X-Kith-User") == ["1", "2", None, "system"]
    assert repr(kith.as_system(token="x")).endswith("user=system)")


@BOTH
def test_a_view_starts_from_the_token_it_was_made_with_and_keeps_its_own(kind: type[Client]) -> None:
    service = Service()
    kith = connected(kind, service, token="t0")
    alice, bob = kith.as_user(ALICE), kith.as_user(BOB, token="bobs")
    ask(alice, "follow", CAROL)
    ask(bob, "exists", "follows", ALICE, CAROL)
    assert (kith.token, alice.token, bob.token) == ("t0", "t1", "bobs")
    assert service.sent("Kith-Token") == ["t0", "bobs"]


@BOTH
def test_the_acting_user_can_be_a_setting(kind: type[Client]) -> None:
    service = Service()
    ask(connected(kind, service, user=str(ALICE)), "follow", BOB)
    assert service.sent("X-Kith-User") == ["1"]
    with pytest.raises(BadId):
        connected(kind, service).as_user("alice")


def test_closing_a_view_leaves_the_connections_and_closing_the_client_ends_them() -> None:
    with connected(Kith, Service()) as kith:
        with kith.as_user(ALICE) as alice:
            alice.follow(BOB)
        assert kith.exists("follows", ALICE, BOB)
    with pytest.raises(RuntimeError, match="closed"):
        alice.follow(BOB)


def test_closing_an_async_view_leaves_the_connections_too() -> None:
    async def story() -> None:
        async with connected(AsyncKith, Service()) as kith:
            async with kith.as_user(ALICE) as alice:
                await alice.follow(BOB)
            assert await kith.exists("follows", ALICE, BOB)
        with pytest.raises(RuntimeError, match="closed"):
            await alice.follow(BOB)

    asyncio.run(story())


def test_async_calls_run_concurrently() -> None:
    async def story() -> None:
        both_asked = asyncio.Barrier(2)

        async def service(_: httpx.Request) -> httpx.Response:
            await both_asked.wait()
            return httpx.Response(200, json={"exists": True})

        kith = AsyncKith(URL, KEY, transport=httpx.MockTransport(service))
        checks = [asyncio.create_task(kith.exists("follows", ALICE, n)) for n in (BOB, CAROL)]
        assert await asyncio.wait_for(asyncio.gather(*checks), timeout=5) == [True, True]

    asyncio.run(story())


@BOTH
def test_waits_between_tries_go_through_the_given_sleep_and_random(kind: type[Client]) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    kith = connected(
        kind,
        lambda _: httpx.Response(503),
        sleep=waits.append if kind is Kith else sleep,
        random=lambda: 0.5,
        retry=Retry(tries=3, base_s=1.0),
    )
    with pytest.raises(ApiError):
        ask(kith, "exists", "follows", ALICE, BOB)
    assert waits == [0.5, 1.0]


@BOTH
@pytest.mark.parametrize(("settings", "timeout_s"), [({}, 5.0), ({"timeout_s": 0.5}, 0.5)])
def test_every_part_of_a_request_has_a_timeout(
    kind: type[Client], settings: dict[str, float], timeout_s: float
) -> None:
    service = Service()
    ask(connected(kind, service, **settings), "exists", "follows", ALICE, BOB)
    timeouts = service.asked[0].extensions["timeout"]
    assert timeouts == dict.fromkeys(("connect", "read", "write", "pool"), timeout_s)


def broken(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


@BOTH
@pytest.mark.parametrize(
    "handler",
    [broken, lambda _: httpx.Response(401, json={"error": {"code": "UNAUTHORIZED", "message": "wrong key"}}),
     lambda _: httpx.Response(200, text="<html>")],
)  # fmt: skip
def test_no_error_shows_the_key(kind: type[Client], handler: Handler) -> None:
    kith = connected(kind, handler, retry=Retry(tries=1))
    with pytest.raises((ApiError, Unreachable)) as caught:
        ask(kith, "exists", "follows", ALICE, BOB)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert not [line for line in shown.format() if KEY in line]
    assert KEY not in repr(caught.value)


@BOTH
@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} x", f"{KEY}é", ""])
def test_a_key_no_header_can_carry_is_refused_without_showing_it(kind: type[Client], key: str) -> None:
    with pytest.raises(ValueError, match="key must be printable") as caught:
        kind(URL, key)
    assert KEY not in "".join(traceback.format_exception(caught.value))


@BOTH
def test_a_token_no_header_can_carry_is_refused(kind: type[Client]) -> None:
    kith = connected(kind, Service())
    with pytest.raises(ValueError, match="token must be printable"):
        kith.token = "t\r\nX-Kith-User: 2"
    assert kith.token is None


@BOTH
@pytest.mark.parametrize(
    "url",
    ["kith.example", "ftp://kith.example", "http://", "http://a:pass@kith.example", "http://x:y", "http://a..b", ""],
)
def test_a_url_that_cannot_be_a_service_is_refused_without_showing_it(kind: type[Client], url: str) -> None:
    with pytest.raises(ValueError, match="url must be") as caught:
        kind(url, KEY)
    assert "pass@" not in "".join(traceback.format_exception(caught.value))


@BOTH
def test_the_repr_shows_url_and_user_and_not_the_key(kind: type[Client]) -> None:
    kith = kind(f"{URL}/", KEY)
    assert repr(kith) == f"{kind.__name__}('{URL}')"
    assert repr(kith.as_user(ALICE)) == f"{kind.__name__}('{URL}', user=1)"
