"""How the demo uses a server's answers: errors in one line, tokens kept per user, existing profiles left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from kith.commands.demo.demo_client import DemoClient, RequestRefused
from kith.commands.demo.people import MARK, Cast, choose
from kith.core.errors import BadRequest, KithError, Unavailable

ALICE, BOB, CAROL, DANA = 1, 2, 3, 4
Handler = Callable[[httpx.Request], httpx.Response]


def asking(handler: Handler, what: Callable[[DemoClient], Any]) -> Any:
    """The result of `what`, called with a client of a server that answers by `handler`."""

    async def run() -> Any:
        async with httpx.AsyncClient(base_url="http://x/api/v1", transport=httpx.MockTransport(handler)) as http:
            return await what(DemoClient(http))

    return asyncio.run(run())


# Errors


def test_a_refusal_is_one_line_that_names_the_request_and_the_reason() -> None:
    body = {"error": {"code": "STORE_FULL", "message": "make room", "details": {}}}
    with pytest.raises(RequestRefused) as refused:
        asking(lambda _: httpx.Response(503, json=body), lambda client: client.ask("POST", "/posts", {}))
    assert refused.value.message == "the demo stopped at POST /posts: 503 STORE_FULL: make room"
    assert refused.value.status == 503


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": "x"}', b"{}"])
def test_an_answer_of_another_program_is_reported_as_such(body: bytes) -> None:
    with pytest.raises(RequestRefused, match="502 from something that is not Kith"):
        asking(lambda _: httpx.Response(502, content=body), lambda client: client.ask("GET", "/feed"))


def test_a_server_that_is_gone_is_unavailable() -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(Unavailable, match=r"stopped at GET /feed: .*refused"):
        asking(gone, lambda client: client.ask("GET", "/feed"))


# Tokens


def test_a_users_token_is_sent_only_with_their_own_requests() -> None:
    seen: list[tuple[str | None, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        user = request.headers.get("x-kith-user")
        seen.append((user, request.headers.get("kith-token")))
        return httpx.Response(200, json={}, headers={"Kith-Token": f"of {user}"} if request.method == "POST" else {})

    async def ask(client: DemoClient) -> None:
        await client.ask("POST", "/posts", {}, user=ALICE)
        for user in (ALICE, BOB, None):
            await client.ask("GET", "/feed", user=user)

    asking(answer, ask)
    assert seen == [("1", None), ("1", "of 1"), ("2", None), (None, None)]


# Who takes part


def profile(id_: int, **fields: Any) -> dict[str, Any]:
    empty = {"id": str(id_), "state": "normal", "followingCount": 5, "username": None, "displayName": ""}
    return {**empty, "attributes": {}, **fields}


def chosen(follows: list[tuple[int, int]], *profiles: dict[str, Any]) -> Cast:
    """The cast around Dana in a community with these follows."""
    known = {int(row["id"]): row for row in profiles}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/users/lookup"):
            ids = map(int, msgspec.json.decode(request.content)["ids"])
            return httpx.Response(200, json={"users": [known.get(id_, profile(id_)) for id_ in ids]})
        *_, user, which = request.url.path.split("/")
        others = [a for a, b in follows if b == int(user)] if which == "followers" else [
            b for a, b in follows if a == int(user)
        ]  # fmt: skip
        return httpx.Response(200, json={"items": [{"id": str(other)} for other in others]})

    cast: Cast = asking(answer, lambda client: choose(client, DANA))
    return cast


FOLLOWS = [(ALICE, DANA), (BOB, DANA), (ALICE, BOB), (ALICE, CAROL)]


def test_the_reader_is_a_follower_of_the_star_who_follows_many_but_not_too_many() -> None:
    crowd = {"followingCount": 5_000}
    assert chosen(FOLLOWS, profile(ALICE, followingCount=9), profile(BOB)).reader.id == ALICE
    assert chosen(FOLLOWS, profile(ALICE, **crowd), profile(BOB)).reader.id == BOB
    assert chosen(FOLLOWS, profile(ALICE, **crowd), profile(BOB, followingCount=6_000)).reader.id == ALICE


def test_everybody_takes_part_once() -> None:
    cast = chosen(FOLLOWS, profile(ALICE, followingCount=9))
    assert [one.id for one in cast.all] == [DANA, ALICE, BOB, CAROL]
    assert cast.new == cast.all
    assert [one.id for one in cast.followed] == [DANA, BOB, CAROL]
    assert (cast.name(DANA)[:5], cast.name("77")) == ("Dana ", "user 77")


def test_a_user_of_an_earlier_demo_keeps_their_name_and_is_not_new() -> None:
    said = {"username": "ruth_2", "displayName": "Ruth Reed", "attributes": MARK}
    cast = chosen(FOLLOWS, profile(BOB, **said))
    assert BOB not in [one.id for one in cast.new]
    assert cast.name(BOB) == "Ruth Reed"


@pytest.mark.parametrize("own", [{"username": "bob"}, {"displayName": "Bob"}, {"attributes": {"vip": True}}])
def test_a_user_with_a_real_profile_is_left_alone(own: dict[str, Any]) -> None:
    assert BOB not in [one.id for one in chosen(FOLLOWS, profile(BOB, **own)).all]
    assert BOB not in [one.id for one in chosen(FOLLOWS, profile(BOB, state="archived")).all]
    with pytest.raises(BadRequest, match="--data"):
        chosen(FOLLOWS, profile(DANA, **own))


def test_a_star_without_followers_is_refused() -> None:
    with pytest.raises(KithError, match="--data"):
        chosen([])
