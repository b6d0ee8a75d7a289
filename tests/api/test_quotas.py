"""How often a user may load feeds, post and engage: limits of article 001, counted over all API processes together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from calls import code, ok
from cast import People
from in_process import client_of
from pictures import photo
from servers import API, AUDIENCE, DEFAULT_SETTINGS, ISSUER, JWT_SECRET, Server, serving, sign

from kith.api.presenter import Presenter
from kith.core.errors import StoreUnavailable
from kith.run.api import open_api as serving_api
from kith.run.config import Settings

DEFAULT = {name: value for name, value in DEFAULT_SETTINGS.items() if "_PER_" not in name}
"""The settings of a server with the default quotas."""
POST: dict[str, Any] = {"content": {"text": "x"}}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two processes with the default quotas."""
    with serving(tmp_path_factory.mktemp("limited"), "--workers", "2", settings=DEFAULT) as running:
        yield running


class User:
    """A user with a token. Each request uses a new connection, so either process may answer."""

    def __init__(self, server: Server, user: int) -> None:
        self._server, self._token = server, sign(user)

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._server.client(self._token) as http:
            return http.request(method, API + path, **request)

    def until_refused(self, tries: int, method: str, path: str, **request: Any) -> tuple[int, httpx.Response]:
        """How many requests passed before the first 429, and that answer."""
        for passed in range(tries):
            answer = self.ask(method, path, **request)
            if answer.status_code == 429:
                return passed, answer
            assert answer.is_success, answer.text
        raise AssertionError("never refused")


def test_a_user_gets_ten_posts_an_hour_over_all_processes(limited: Server, people: People) -> None:
    alice = User(limited, people.alice)
    passed, refused = alice.until_refused(20, "POST", "/posts", json=POST)
    assert passed == 10
    assert code(refused, 429) == "RATE_LIMITED"
    wait_s = int(refused.headers["Retry-After"])
    assert 3_300 < wait_s <= 3_600
    assert refused.headers["RateLimit"] == f'"10";r=0;t={wait_s}'
    assert refused.headers["RateLimit-Policy"] == '"10";q=10;w=3600'
    details = refused.json()["error"]["details"]
    assert (details["limit"], details["windowSeconds"]) == (10, 3600)
    assert ok(User(limited, people.bob).ask("POST", "/posts", json=POST), 201), "other users are not limited"
    assert ok(alice.ask("GET", "/feed"))["posts"], "other routes are not limited"
    with limited.client() as http:
        near = ok(http.get("/console/quotas"))["items"]
    mine = [one for one in near if one["user"] in (str(people.alice), str(people.bob))]
    assert mine == [{"quota": "posts", "user": str(people.alice), "used": 10, "limit": 10, "windowS": 3600}]


def test_a_user_gets_sixty_feed_loads_a_minute(limited: Server, people: People) -> None:
    passed, refused = User(limited, people.alice).until_refused(80, "GET", "/feed")
    assert passed == 60
    assert 40 < int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["RateLimit-Policy"] == '"60";q=60;w=60'


def test_a_strip_of_stories_counts_as_a_feed_load(limited: Server, people: People) -> None:
    """It reads at least as much as a feed: up to hundreds of stories of hundreds of authors."""
    alice = User(limited, people.alice)
    ok(alice.ask("GET", "/feed"))
    passed, refused = alice.until_refused(80, "GET", "/stories")
    assert passed == 59
    assert refused.headers["RateLimit-Policy"] == '"60";q=60;w=60'
    assert code(alice.ask("GET", "/feed"), 429) == "RATE_LIMITED"
    ok(alice.ask("GET", f"/users/{people.alice}/stories"))


def test_an_explanation_of_a_ranking_counts_as_a_feed_load(limited: Server, people: People) -> None:
    """It ranks a home, to say which post is shown in place of a copy."""
    alice = User(limited, people.alice)
    post = ok(alice.ask("POST", "/posts", json=POST), 201)["id"]
    ok(alice.ask("GET", "/feed"))
    passed, refused = alice.until_refused(80, "GET", f"/posts/{post}/why")
    assert passed == 59
    assert refused.headers["RateLimit-Policy"] == '"60";q=60;w=60'
    assert code(alice.ask("GET", "/feed"), 429) == "RATE_LIMITED"


def test_a_user_gets_a_hundred_engagements_a_minute_and_undoing_is_free(limited: Server, people: People) -> None:
    alice = User(limited, people.alice)
    post = ok(alice.ask("POST", "/posts", json=POST), 201)["id"]
    comment = ok(alice.ask("POST", f"/posts/{post}/comments", json={"text": "x"}), 201)["id"]
    for verb in ("like", "save", "share"):
        ok(alice.ask("POST", f"/posts/{post}/{verb}"))
        ok(alice.ask("DELETE", f"/posts/{post}/{verb}"))
    ok(alice.ask("POST", f"/comments/{comment}/like"))
    ok(alice.ask("DELETE", f"/comments/{comment}/like"))
    passed, refused = alice.until_refused(120, "POST", f"/posts/{post}/like")
    assert passed == 100 - 5
    assert refused.headers["RateLimit-Policy"] == '"100";q=100;w=60'
    assert code(alice.ask("POST", f"/comments/{comment}/like"), 429) == "RATE_LIMITED"
    for path in (f"/posts/{post}/like", f"/posts/{post}/save", f"/posts/{post}/share", f"/comments/{comment}/like"):
        ok(alice.ask("DELETE", path))
    assert alice.ask("DELETE", f"/comments/{comment}").status_code == 204
    ok(alice.ask("POST", f"/posts/{post}/view"))


def test_invitations_to_boards_have_a_quota(limited: Server, people: People) -> None:
    owner, (guest, other) = User(limited, people.bob), people.crowd(2)
    board = ok(owner.ask("POST", "/boards", json={"name": "ours"}), 201)["id"]
    passed, refused = owner.until_refused(120, "POST", f"/boards/{board}/collaborators/{guest}")
    assert passed == 100
    assert code(refused, 429) == "RATE_LIMITED"
    assert code(owner.ask("POST", f"/boards/{board}/collaborators/{other}"), 429) == "RATE_LIMITED"


def test_refused_uploads_count_too(tmp_path: Any, people: People) -> None:
    """Checking an upload that is refused costs as much."""
    with serving(tmp_path, settings={**DEFAULT, "KITH_RATE_MEDIA_PER_HOUR": "3"}) as server:
        alice = User(server, people.alice)
        assert code(alice.ask("POST", "/media", files={"file": ("x", b"no picture")}), 400) == "INVALID_CONTENT"
        passed, refused = alice.until_refused(5, "POST", "/media", files={"file": ("x", photo())})
        assert passed == 2
        assert refused.headers["RateLimit-Policy"] == '"3";q=3;w=3600'


def test_refused_posts_do_not_count(limited: Server, people: People) -> None:
    alice = User(limited, people.alice)
    for _ in range(12):
        assert code(alice.ask("POST", "/posts", json={"content": {"text": ""}}), 400) == "INVALID_CONTENT"
        assert code(alice.ask("POST", "/posts", json={"content": {"html": "x"}}), 400) == "INVALID_REQUEST"
        assert code(alice.ask("POST", "/posts", content=b"{"), 400) == "INVALID_REQUEST"
    assert alice.until_refused(20, "POST", "/posts", json=POST)[0] == 10


def test_a_server_key_has_no_quota(limited: Server, people: People) -> None:
    with limited.client(acting=people.alice) as http:
        assert {http.post(f"{API}/posts", json=POST).status_code for _ in range(15)} == {201}
        assert {http.get(f"{API}/feed").status_code for _ in range(70)} == {200}


def test_quotas_follow_the_settings_and_survive_a_restart(tmp_path: Any, people: People) -> None:
    settings = {**DEFAULT, "KITH_RATE_POSTS_PER_HOUR": "2", "KITH_RATE_FEED_PER_MINUTE": "0"}
    for expected in (2, 0):
        with serving(tmp_path, settings=settings) as server:
            alice = User(server, people.alice)
            assert alice.until_refused(5, "POST", "/posts", json=POST)[0] == expected
            assert {alice.ask("GET", "/feed").status_code for _ in range(70)} == {200}
            server.process.kill()
            server.process.wait()


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("a bug"), 500), (StoreUnavailable("away"), 503), (TimeoutError(), 503)]
)
def test_a_stored_post_counts_and_returns_its_token_although_its_answer_fails(
    tmp_path: Path, error: Exception, status: int
) -> None:
    async def ask() -> None:
        settings = Settings(
            data=str(tmp_path), jwt_secret=JWT_SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, rate_posts_per_hour=3
        )
        headers = {"Authorization": f"Bearer {sign(1)}"}
        async with serving_api(settings) as api, client_of(api.door, **headers) as http:
            with patch.object(Presenter, "authors_and_media", side_effect=error):
                for _ in range(3):
                    failed = await http.post(f"{API}/posts", json=POST)
                    assert failed.status_code == status
            seen = await http.get(f"{API}/users/1/posts", headers={"Kith-Token": failed.headers["Kith-Token"]})
            assert len(ok(seen)["items"]) == 3
            assert code(await http.post(f"{API}/posts", json=POST), 429) == "RATE_LIMITED"

    asyncio.run(ask())
