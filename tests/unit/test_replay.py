"""Replay reads activity line by line, and keeps who posts, shares and answers whom."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import httpx
import pytest

from kith import replay
from kith.core.errors import BadRequest
from kith.replay import Action, Player, actions


def file_of(folder: Path, text: str) -> Path:
    file = folder / "activity.txt.gz"
    file.write_bytes(gzip.compress(text.encode()))
    return file


def test_lines_become_actions_and_comments_are_skipped(tmp_path: Path) -> None:
    file = file_of(tmp_path, "# actor target when kind\n1 2 100 MT\n\n3 4 101 RT\n")
    assert list(actions(file)) == [Action(1, 2, 100, "MT"), Action(3, 4, 101, "RT")]


@pytest.mark.parametrize("line", ["1 2 100", "1 2 100 XX", "x 2 100 MT", f"1 {2**63} 100 RE", "1 2 100 MT more", "é"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadRequest, match="line 2"):
        list(actions(file_of(tmp_path, f"1 2 100 MT\n{line}\n")))


class App:
    """Answers as a server would, and keeps what it was asked."""

    def __init__(self, failing: str = "nothing") -> None:
        self.asked: list[tuple[str, str | None, str]] = []
        self.posts = 0
        self.failing = failing

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
            return httpx.Response(200, json={"posts": [{"id": str(self.posts)}]})
        return httpx.Response(200, json={})


def play(app: App, *what: Action, watch_share: float = 0.0) -> replay.Report:
    async def run() -> replay.Report:
        async with httpx.AsyncClient(transport=httpx.MockTransport(app), base_url="http://kith") as http:
            player = Player(http, speed=1e9, watch_share=watch_share, progress=lambda done, at: None)
            return await player.play(what)

    return asyncio.run(run())


def test_a_mention_is_a_post_a_share_and_an_answer_are_of_the_newest_post() -> None:
    app = App()
    report = play(app, Action(1, 2, 0, "MT"), Action(3, 1, 1, "RT"), Action(4, 1, 2, "RE"))
    assert ("POST", "1", "/posts") in app.asked
    assert ("POST", "3", "/posts/1/share") in app.asked
    assert ("POST", "4", "/posts/1/comments") in app.asked
    assert report.actions == 3
    assert {name: len(times) for name, times in report.latency_ms.items()} == {"post": 1, "share": 1, "comment": 1}


def test_who_has_no_post_yet_makes_one_however_many_share_it_at_once() -> None:
    app = App()
    play(app, *(Action(actor, 9, 0, "RT") for actor in range(20, 30)))
    assert app.asked.count(("POST", "9", "/posts")) == 1
    assert sum(path == "/posts/1/share" for _, _, path in app.asked) == 10


def test_a_watched_post_is_looked_for_in_a_followers_home() -> None:
    app = App()
    report = play(app, Action(1, 2, 0, "MT"), watch_share=1.0)
    assert ("GET", None, "/users/1/followers") in app.asked
    assert ("GET", "77", "/feed") in app.asked
    assert len(report.visible_ms) == 1
    assert [row[0] for row in replay.rows(report)] == ["post", "followers", "feed", "visible in a follower's home"]


def test_what_fails_is_counted_by_its_code() -> None:
    report = play(App(failing="/posts"), Action(1, 2, 0, "MT"), Action(3, 2, 0, "RE"))
    assert report.errors == {"503 OVERLOADED": 2}
