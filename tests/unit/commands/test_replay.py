"""Replay reads activity line by line, and plays each line as a post, a share or a comment."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from kith.commands import replay
from kith.commands.replay import Action, Player, actions
from kith.core.errors import BadRequest


def file_of(folder: Path, text: str) -> Path:
    file = folder / "activity.txt.gz"
    file.write_bytes(gzip.compress(text.encode()))
    return file


def test_lines_become_actions_and_comments_are_skipped(tmp_path: Path) -> None:
    file = file_of(tmp_path, "# actor target when kind\n1 2 100 MT\n\n3 4 101 RT\n")
    assert list(actions(file)) == [Action(1, 2, 100, "MT"), Action(3, 4, 101, "RT")]


@pytest.mark.parametrize("line", ["1 2 100", "1 2 100 XX", "x 2 100 MT", f"1 {2**63} 100 RE", "1 2 100 MT more", "é"])
def test_a_malformed_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadRequest, match="line 2"):
        list(actions(file_of(tmp_path, f"1 2 100 MT\n{line}\n")))


class App:
    """Answers as a server would, and records the requests."""

    def __init__(self, failing: str = "nothing") -> None:
        self.asked: list[tuple[str, str | None, str]] = []
        self.posts = 0
        self.failing = failing
        self.hidden = False  # no home shows new posts
        self.slow_s, self.under_way, self.most = 0.0, 0, 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append((request.method, request.headers.get("x-kith-user"), path))
        if path.endswith(self.failing):
            return httpx.Response(503, json={"error": {"code": "OVERLOADED", "message": "", "details": {}}})
        if path == "/posts":
            self.posts += 1
            assert json.loads(request.content)["content"]["text"]
            return httpx.Response(201, json={"id": str(self.posts)})
        if path.endswith("/followers"):
            return httpx.Response(200, json={"items": [{"id": "77"}]})
        if path == "/feed":
            return httpx.Response(200, json={"posts": [] if self.hidden else [{"id": str(self.posts)}]})
        return httpx.Response(200, json={})


Answering = Callable[[httpx.Request], httpx.Response]


def play(app: Answering, *what: Action, watch_share: float = 0.0) -> replay.ReplayReport:
    async def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(app, App) and app.slow_s:
            app.under_way += 1
            app.most = max(app.most, app.under_way)
            await asyncio.sleep(app.slow_s)
            app.under_way -= 1
        return app(request)

    async def run() -> replay.ReplayReport:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://kith") as http:
            player = Player(http, speed=1e9, watch_share=watch_share, progress=lambda done, at: None)
            return await player.play(what)

    return asyncio.run(run())


def test_a_mention_is_posted_and_shares_and_answers_go_to_the_newest_post() -> None:
    app = App()
    report = play(app, Action(1, 2, 0, "MT"), Action(3, 1, 1, "RT"), Action(4, 1, 2, "RE"))
    assert ("POST", "1", "/posts") in app.asked
    assert ("POST", "3", "/posts/1/share") in app.asked
    assert ("POST", "4", "/posts/1/comments") in app.asked
    assert report.actions == 3
    assert {name: len(times) for name, times in report.latency_ms.items()} == {"post": 1, "share": 1, "comment": 1}


def test_a_target_without_a_post_makes_one_for_all_concurrent_shares() -> None:
    app = App()
    play(app, *(Action(actor, 9, 0, "RT") for actor in range(20, 30)))
    assert app.asked.count(("POST", "9", "/posts")) == 1
    assert sum(path == "/posts/1/share" for _, _, path in app.asked) == 10


def test_a_watched_post_is_sought_in_a_followers_home() -> None:
    app = App()
    report = play(app, Action(1, 2, 0, "MT"), watch_share=1.0)
    assert ("GET", "1", "/users/1/followers") in app.asked
    assert ("GET", "77", "/feed") in app.asked
    assert len(report.visible_ms) == 1
    assert [row[0] for row in replay.rows(report)] == ["post", "followers", "feed", "visible in a follower's home"]


def test_failures_are_counted_by_their_code() -> None:
    report = play(App(failing="/posts"), Action(1, 2, 0, "MT"), Action(3, 2, 0, "RE"))
    assert report.errors == {"503 OVERLOADED": 2}


@pytest.mark.parametrize("status", [502, 200])
def test_answers_of_a_proxy_are_counted_as_errors(status: int) -> None:
    """Their bodies are not the JSON of the API."""
    report = play(lambda request: httpx.Response(status, text="<html>"), Action(1, 2, 0, "MT"), Action(3, 2, 0, "RE"))
    assert sum(report.errors.values()) == 2
    assert "not" in next(iter(report.errors))


def test_a_watched_post_delays_no_other_action_and_does_not_count_in_the_duration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "GIVEN_UP_S", 0.4)
    monkeypatch.setattr(replay, "POLL_S", 0.05)
    app = App()
    app.hidden = True
    report = play(app, Action(1, 9, 0, "RT"), Action(2, 9, 0, "RE"), watch_share=1.0)
    assert report.seconds < 0.4, "the share came while its post was still watched"
    assert report.errors == {"not in a follower's home after 0 s": 1}
    assert [path for *_, path in app.asked if path.endswith(("/share", "/comments"))]


def test_watched_posts_and_requests_in_flight_stay_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "WATCHED_MAX", 3)
    monkeypatch.setattr(replay, "IN_FLIGHT_MAX", 5)
    monkeypatch.setattr(replay, "GIVEN_UP_S", 0.2)
    app = App()
    app.hidden, app.slow_s = True, 0.005
    report = play(app, *(Action(actor, 1, 0, "MT") for actor in range(2, 32)), watch_share=1.0)
    assert len({path for *_, path in app.asked if path.endswith("/followers")}) == 3
    assert app.most <= 5 + 3
    assert report.actions == 30
