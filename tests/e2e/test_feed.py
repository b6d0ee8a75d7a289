"""Posts reach followers' homes through real processes, even if some are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocking_timelines import reading
from calls import code, ok
from cast import People
from servers import API, Server, eventually, serving
from stream_listener import Listener


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One API process and its worker."""
    with serving(tmp_path) as running:
        yield running


def publish(server: Server, author: int, text: str) -> str:
    """Publish a post; return its id."""
    with server.client(acting=author) as http:
        answer = http.post(f"{API}/posts", json={"content": {"text": text}})
    assert answer.status_code == 201, answer.text
    assert answer.json()["fanoutStatus"] == "pending"
    return str(answer.json()["id"])


def home(server: Server, viewer: int, **query: str) -> tuple[list[str], list[str]]:
    """The ids on the first page of a home, and what was degraded."""
    with server.client(acting=viewer) as http:
        answer = ok(http.get(f"{API}/feed", params={"type": "latest"} | query))
    return [post["id"] for post in answer["posts"]], answer["meta"]["degraded"]


def fanout_pids(server: Server) -> set[int]:
    """Process ids of the fan-out workers that have written metrics."""
    return {int(file.stem.removeprefix("fanout-")) for file in (server.data / "metrics").glob("fanout-*.json")}


def follow(server: Server, follower: int, author: int) -> None:
    with server.client(acting=follower) as http:
        ok(http.post(f"{API}/users/{author}/follow"))


def test_a_post_reaches_home_through_the_timeline(server: Server, people: People) -> None:
    alice, bob = people.alice, people.bob
    follow(server, alice, bob)
    first = publish(server, bob, "the first")
    eventually(lambda: home(server, alice) == ([first], []))
    timelines = reading(server.data / "timelines")
    eventually(lambda: home(server, alice)[0] and timelines.read(alice) is not None)
    second = publish(server, bob, "the second")
    eventually(lambda: (timeline := timelines.read(alice)) is not None and int(second) in timeline.ids.tolist())
    assert home(server, alice) == ([second, first], [])
    assert home(server, alice, limit="1")[0] == [second]
    with server.client(acting=alice) as http:
        ok(http.post(f"{API}/users/{bob}/block"))
    assert home(server, alice)[0] == []
    assert home(server, bob)[0] == [second, first]


def test_the_author_sees_the_post_at_once(server: Server, people: People) -> None:
    for _ in range(20):
        made = publish(server, people.alice, "mine")
        assert home(server, people.alice)[0][0] == made


def test_a_killed_worker_is_replaced_and_misses_nothing(server: Server, people: People) -> None:
    alice, bob = people.alice, people.bob
    follow(server, alice, bob)
    eventually(lambda: len(fanout_pids(server)) == 1)
    made: list[str] = []
    known: set[int] = set()
    for number in range(4):
        eventually(lambda: len(fanout_pids(server)) == len(known) + 1)
        (pid,) = fanout_pids(server) - known
        made.append(publish(server, bob, f"post {number}"))
        os.kill(pid, signal.SIGKILL)
        known.add(pid)
        eventually(lambda: home(server, alice) == (made[::-1], []))


def test_the_ranked_home_explains_itself_and_continues_by_cursor(server: Server, people: People) -> None:
    alice, bob, carol = people.alice, people.bob, people.carol
    made = {author: [publish(server, author, f"{author}'s {number}") for number in range(3)] for author in (bob, carol)}
    for author in (bob, carol):
        follow(server, alice, author)
    with server.client(acting=alice) as http:
        ok(http.post(f"{API}/posts/{made[carol][0]}/like"))
        first = ok(http.get(f"{API}/feed", params={"limit": 4}))
        assert first["meta"]["feedType"] == "ranked"
        assert Counter(post["author"]["id"] for post in first["posts"]) == {str(bob): 2, str(carol): 2}
        assert first["posts"][0]["author"]["id"] == str(carol)
        assert first["posts"][0]["ranking"]["reason"] in ("friend_interaction", "recent")
        publish(server, bob, "in between")
        cursor = first["pagination"]["nextCursor"]
        second = ok(http.get(f"{API}/feed", params={"cursor": cursor}))
        shown = [post["id"] for page in (first, second) for post in page["posts"]]
        assert sorted(shown) == sorted(made[bob] + made[carol])
        assert second["pagination"] == {"nextCursor": None, "prevCursor": None, "hasMore": False}
        why = ok(http.get(f"{API}/posts/{made[carol][2]}/why"))
        assert why["score"] == pytest.approx(sum(part["adds"] for part in why["parts"]) * why["damping"], abs=1e-3)
        assert http.get(f"{API}/feed", params={"cursor": cursor, "type": "latest"}).status_code == 400


def test_while_the_worker_is_stopped_home_is_right_and_marked_degraded(server: Server, people: People) -> None:
    follow(server, people.alice, people.bob)
    eventually(lambda: len(fanout_pids(server)) == 1)
    (pid,) = fanout_pids(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        made = publish(server, people.bob, "nobody carries it")
        eventually(lambda: home(server, people.alice) == ([made], ["fanout"]))
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: home(server, people.alice) == ([made], []))


def test_stopping_the_server_stops_the_worker(tmp_path: Path, people: People) -> None:
    with serving(tmp_path) as server:
        publish(server, people.alice, "hello")
        eventually(lambda: len(fanout_pids(server)) == 1)
        (pid,) = fanout_pids(server)
        assert server.terminate() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_metrics_show_the_lag_of_fan_out(server: Server, people: People) -> None:
    publish(server, people.alice, "hello")

    def lag() -> list[str]:
        with server.client() as http:
            return [line for line in http.get("/metrics").text.splitlines() if line.startswith("kith_fanout_lag")]

    eventually(lambda: lag() == ["kith_fanout_lag_events 0.0", "kith_fanout_lag_oldest_seconds 0.0"])


def test_under_the_rates_policy_a_rare_reader_finds_posts_that_were_not_pushed(tmp_path: Path, people: People) -> None:
    """With a pull cost near zero, posts are pushed only to users who have recently read hundreds of times."""
    alice, bob = people.alice, people.bob
    with serving(tmp_path, KITH_FANOUT_POLICY="rates", KITH_FANOUT_PULL_COST="0.01") as server:
        follow(server, alice, bob)
        posts = [publish(server, bob, "the first")]
        eventually(lambda: home(server, alice) == (posts, []))
        timelines = reading(server.data / "timelines")
        eventually(lambda: home(server, alice)[0] and timelines.read(alice) is not None)
        for number in range(5):
            posts.insert(0, publish(server, bob, f"number {number}"))
            eventually(lambda: home(server, alice) == (posts, []))
        kept = timelines.read(alice)
        assert kept is not None
        assert kept.ids.tolist() == [int(posts[-1])], "the later posts were not pushed"
        with server.client(acting=alice) as http:
            shown = [post["id"] for post in ok(http.get(f"{API}/feed"))["posts"]]
        assert len(shown) == 6


@pytest.mark.parametrize("back", ["setting", "restore"])
def test_timelines_that_do_not_match_the_store_are_not_used(tmp_path: Path, people: People, back: str) -> None:
    """They were unused for a while and came back, or are newer than the restored backup."""
    alice, bob = people.alice, people.bob
    aside, here = {"KITH_TIMELINES_FOLDER": str(tmp_path / "aside")}, {"KITH_TIMELINES_FOLDER": str(tmp_path / "here")}
    timelines = reading(tmp_path / "here")
    with serving(tmp_path, **here) as server:
        follow(server, alice, bob)
        made = [publish(server, bob, f"first {at}") for at in range(60)]

        def all_there() -> bool:
            timeline = timelines.read(alice)
            home(server, alice)  # requests a timeline, and reads the one that is there
            return timeline is not None and len(timeline.ids) == 60

        eventually(all_there)
        if back == "restore":
            backup(tmp_path)
            with server.client(acting=alice) as http:
                ok(http.delete(f"{API}/users/{bob}/follow"))
            for at in range(60):
                publish(server, alice, f"mine {at}")
            eventually(
                lambda: home(server, alice)[0] and timelines.read(alice) is not None, 40
            )  # the timeline was requested again
            assert int(made[-1]) not in timelines.read(alice).ids
    if back == "setting":
        with serving(tmp_path, **aside) as server:
            made += [publish(server, bob, f"second {at}") for at in range(9)]
            eventually(lambda: behind(server) == 0, 30)
    else:
        (tmp_path / "data").rename(tmp_path / "old")
        run_kith("restore", str(tmp_path / "kept"), "--data", str(tmp_path / "data"))
    with serving(tmp_path, **here) as server:
        assert home(server, alice, limit="50")[0] == made[:-51:-1]
        eventually(lambda: home(server, alice, limit="50") == (made[:-51:-1], []))


def test_clients_that_saw_events_lost_by_a_restore_are_told(tmp_path: Path, people: People) -> None:
    alice, bob = people.alice, people.bob
    with serving(tmp_path) as server, server.client(acting=alice) as reader, server.client(acting=bob) as author:
        follow(server, alice, bob)
        backup(tmp_path)
        with Listener(reader) as stream:
            lost = author.post(f"{API}/posts", json={"content": {"text": "lost"}})
            stream.wait("new_post", ok(lost, 201)["id"])
        token = lost.headers["Kith-Token"]
    (tmp_path / "data").rename(tmp_path / "old")
    run_kith("restore", str(tmp_path / "kept"), "--data", str(tmp_path / "data"))
    with serving(tmp_path) as server, server.client(acting=alice) as reader:
        for at in range(5):  # more events than were lost
            publish(server, bob, f"new {at}")
        refused = reader.get(f"{API}/feed", headers={"Kith-Token": token})
        assert code(refused, 409) == "CONFLICT"
        assert "drop the token" in refused.json()["error"]["message"]
        with Listener(reader, stream.last_id) as again:
            again.wait("reset", reason="unknown")
        with Listener(reader) as fresh:
            fresh.wait("new_post", publish(server, bob, "newest"))
        with Listener(reader, fresh.last_id) as resumed:
            resumed.wait("new_post", publish(server, bob, "after that"))


def test_a_worker_that_does_not_react_is_killed_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_DRAIN_TIMEOUT_S="2") as server:
        eventually(lambda: fanout_pids(server))
        (pid,) = fanout_pids(server)
        os.kill(pid, signal.SIGSTOP)
        assert server.terminate() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def behind(server: Server) -> float:
    """The number of events that fan-out has not handled."""
    with server.client() as http:
        (line,) = [x for x in http.get("/metrics").text.splitlines() if x.startswith("kith_fanout_lag_events ")]
    return float(line.split()[1])


def backup(folder: Path) -> None:
    run_kith("backup", str(folder / "kept"), "--data", str(folder / "data"))


def run_kith(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "kith", *arguments], check=True, capture_output=True, timeout=60)
