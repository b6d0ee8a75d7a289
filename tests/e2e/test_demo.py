"""`kith demo`: the whole story once, the data it leaves, how it ends, and its errors."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from commands import CLEAN, KITH, LIMIT_S, Kith, done, free_port, kith_in, refused, thirty_people
from servers import API, PLAIN, serving


class FinishedDemo(NamedTuple):
    """A finished demo: the folder it ran in, and its output."""

    folder: Path
    said: str


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> FinishedDemo:
    """A demo of thirty people, with its data in `data`."""
    folder = tmp_path_factory.mktemp("once")
    thirty_people(folder / "few.csv")
    return FinishedDemo(
        folder, done(kith_in(folder)("demo", "few.csv", "--once", "--data", "data", "--port", free_port()))
    )


@pytest.fixture
def few(tmp_path: Path) -> Path:
    return thirty_people(tmp_path / "few.csv")


def answers(said: str) -> list[str]:
    """The answers of a demo: for each question the lines below it."""
    shown = re.findall(r"^ ?\d+\. .*ms\n((?:    .*\n)+)", said, re.MULTILINE)
    assert len(shown) == 12, said
    return shown


def test_demo_once_tells_the_whole_story_and_ends(once: FinishedDemo) -> None:
    said = once.said
    assert re.search(r"290 follows in data\b", said)
    check, both, newcomer, visible, told, home, why, comments, stories, suggested, boards, gone = answers(said)
    assert "Yes; Dana Brook has 29 followers" in check
    assert re.search(r"^    \d+: \w+", both)
    assert re.search(r"is first in the list.* 0 posts before, 6 after", newcomer)
    assert re.search(r"home after [\d.]+ ms:\n    “", visible)
    tiers = re.findall(r"(\d+) (?:online|here within a day|within a month)[,.]", told)
    assert sum(map(int, tiers)) == 4, "each follower once, in whichever tier comes first"
    assert len(re.findall(r"0\.\d\d (?:recent|popular|friend_interaction|content_type) ", home)) == 2
    score, *parts = map(float, re.findall(r"(?<![\d.])\d\.\d\d", why))
    assert sum(parts) == pytest.approx(score, abs=0.03)
    assert re.search(r"\d+ likes?: .*: “", comments)
    assert "Dana Brook" in stories
    assert re.search(r": followed by \d+ whom|Nobody else", suggested)
    count, left = map(int, re.findall(r"(\d+), through Dana Brook, for 3 pins. .*: (\d+) are left", boards)[0])
    assert count == left + 1 == 30
    assert "follows Dana Brook, and does not follow this board" in boards
    before, after = map(float, re.findall(r"(0\.\d\d)", gone))
    assert after < before
    assert "gone from home" in gone
    assert re.search(r"had 7 posts, and has 0 at once", gone)


def test_the_data_of_a_demo_stays_for_a_server_and_the_next_demo_reuses_it(once: FinishedDemo) -> None:
    people, posts = map(int, re.findall(r"(\d+) people .* (\d+) posts \(", once.said)[0])
    assert people == 26, "the star, a reader, the 9 whom they follow, and 15 fans"
    again = done(kith_in(once.folder)("demo", "--once", "--data", "data", "--port", free_port()))
    assert "have posted already" in again
    assert len(answers(again)) == 12
    with serving(once.folder) as server, server.client() as http:
        shown = [
            post
            for user in range(1, 31)
            for post in http.get(f"{API}/users/{user}/posts", params={"limit": 50}).json()["items"]
        ]
        assert len(shown) == posts + 4, "each demo run publishes two more posts"
        assert all(post["author"]["displayName"] and post["author"]["username"] for post in shown)
        assert any(post["mentions"] and "@" in post["content"]["text"] for post in shown)
        pictures = [media["url"] for post in shown for media in post["content"]["media"]]
        assert http.get(pictures[0]).headers["content-type"] == "image/png"
        assert any(post["engagement"]["likeCount"] and post["engagement"]["commentCount"] for post in shown)


@pytest.mark.parametrize(
    ("number", "inherited"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),  # children of a shell's background job ignore SIGINT
        (signal.SIGKILL, signal.default_int_handler),
    ],
)
def test_a_demo_runs_until_it_is_told_to_stop(few: Path, number: signal.Signals, inherited: Any) -> None:
    port = free_port()
    ours = signal.signal(signal.SIGINT, inherited)
    demo = subprocess.Popen(
        [*KITH, "demo", "few.csv", "--port", port],
        cwd=few.parent, env={**CLEAN, "COLUMNS": "200"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, ours)
    giving_up = threading.Timer(
        LIMIT_S, os.killpg, (demo.pid, signal.SIGKILL)
    )  # the whole group: the server holds the pipes too
    giving_up.start()
    try:
        assert demo.stdout is not None
        told: set[str] = set()
        shown: list[int] = []
        for line in demo.stdout:
            if console := re.fullmatch(r"(http://\S+/console)\n", line):
                shown.append(httpx.get(console[1], **PLAIN).status_code)
            if link := re.search(r"^(http://\S+)/app#token=(\S+)$", line):
                with httpx.Client(base_url=link[1], headers={"Authorization": f"Bearer {link[2]}"}, **PLAIN) as reader:
                    shown += reader.get("/app").status_code, reader.get(f"{API}/feed").status_code
            told |= set(re.findall(r"^\d\d:\d\d:\d\d  (new_post|engagement_update) ", line))
            if len(told) == 2:
                break
        demo.send_signal(number)
        rest, errors = demo.communicate()
    finally:
        giving_up.cancel()
        demo.kill()
        demo.wait()
    assert told == {"new_post", "engagement_update"}
    assert shown == [200, 200, 200], "the links to the console and to the reader, which signs in"
    if number != signal.SIGKILL:
        assert (demo.returncode, errors) == (0, "")
        assert rest.endswith("stopping\n")
    with socket.socket() as probe:  # the pipes ended above, so all of its processes are gone
        assert probe.connect_ex(("127.0.0.1", int(port))) != 0, "the server is gone"


@pytest.mark.slow
def test_demo_generates_a_community_if_none_is_given(kith: Kith) -> None:
    said = done(kith("demo", "--once", "--port", free_port()))
    assert "500,000 follows in kith-data/demo" in said
    assert "Dana Brook has 20,000 followers" in answers(said)[0]


def test_a_demo_that_cannot_continue_says_where_and_why(kith: Kith, few: Path) -> None:
    once = ("demo", "few.csv", "--once", "--port")
    assert re.search(
        r"the demo stopped at \w+ /\S+: 429 RATE_LIMITED: ",
        refused(kith(*once, free_port(), KITH_RATE_SERVER_WRITE="1")),
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in refused(kith(*once, port))


def test_a_demo_of_a_file_without_edges_says_so(kith: Kith, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    assert "edge" in refused(kith("demo", "empty.csv", "--once", "--port", free_port()))
    (tmp_path / "names.csv").write_text("source,destination\nann,bob\n")
    run = kith("demo", "names.csv", "--once", "--port", free_port())
    assert "edge" in refused(run)
    assert "1 lines refused (why: kith-data/demo/imports)" in run.stdout
