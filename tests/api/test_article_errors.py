"""The error table of article 001: the code and status of each refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from calls import code, ok
from cast import People
from in_process import client_of
from servers import API, KEY, PLAIN

from kith.core.errors import StoreUnavailable
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.run.api import open_api
from kith.run.config import Settings

Acting = Callable[[int], httpx.Client]
POST = {"content": {"text": "x"}}


def test_each_refusal_has_the_code_and_the_status_of_the_article(
    acting: Acting, owner: Acting, server: object, people: People
) -> None:
    alice, bob = acting(people.alice), acting(people.bob)
    post = ok(alice.post(f"{API}/posts", json=POST), 201)["id"]
    restricted = ok(alice.post(f"{API}/posts", json={**POST, "allowComments": False}), 201)["id"]
    gone = ok(alice.post(f"{API}/posts", json=POST), 201)["id"]
    alice.delete(f"{API}/posts/{gone}")
    assert code(alice.post(f"{API}/posts", json={"content": {"text": ""}}), 400) == "INVALID_CONTENT"
    assert code(httpx.post(f"{alice.base_url}{API}/posts", json=POST, **PLAIN), 401) == "UNAUTHORIZED"
    bad = {"Authorization": "Bearer x.y.z"}
    assert code(httpx.get(f"{alice.base_url}{API}/feed", headers=bad, **PLAIN), 401) == "UNAUTHORIZED"
    assert code(bob.delete(f"{API}/posts/{post}"), 403) == "FORBIDDEN"
    assert code(bob.post(f"{API}/posts/{restricted}/comments", json={"text": "x"}), 403) == "FORBIDDEN"
    ok(alice.post(f"{API}/users/{people.bob}/block"))
    assert code(bob.get(f"{API}/users/{people.alice}/posts"), 403) == "FORBIDDEN"
    for missing in (gone, "5"):
        assert code(alice.get(f"{API}/posts/{missing}"), 404) == "POST_NOT_FOUND"
        assert code(alice.post(f"{API}/posts/{missing}/like"), 404) == "POST_NOT_FOUND"
    # RATE_LIMITED is in test_quotas.py and test_rate_limits.py.


def test_a_feed_that_cannot_be_read_is_unavailable_and_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> tuple[httpx.Response, httpx.Response]:
        async def broken(*_: object) -> None:
            raise StoreUnavailable("could not read: Input/output error")

        for read in ("page", "answer"):
            monkeypatch.setattr(EmbeddedEdges, read, broken)
        headers = {"Authorization": f"Bearer {KEY}", "X-Kith-User": "1"}
        settings = Settings(data=str(tmp_path), api_keys=(KEY,))
        async with open_api(settings) as api, client_of(api.door, **headers) as http:
            return await http.get(f"{API}/feed"), await http.get(f"{API}/users/1/posts")

    feed, other = asyncio.run(ask())
    assert code(feed, 503) == "FEED_UNAVAILABLE"
    assert feed.headers["Retry-After"] == "1"
    assert feed.json()["error"]["details"] == {"cause": "STORE_UNAVAILABLE"}
    assert code(other, 503) == "STORE_UNAVAILABLE"
