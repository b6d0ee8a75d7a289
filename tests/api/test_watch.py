"""GET /watch over real HTTP: a watcher that keeps its token gets every change once and in order, whatever happens."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import add_edges, code, finish, make, ok, say, tell
from cast import People
from commands import CLEAN, KITH, LIMIT_S, done
from servers import API, ON_CLUSTER, Server, comparable_order, eventually, serving, store_settings
from watch_reader import LINES, WatchReader

from kith.client import EdgeChange, Kith

Acting = Callable[[int], httpx.Client]


@pytest.fixture
def watch(server: Server, people: People) -> Iterator[Callable[..., WatchReader]]:
    """Opens watchers with the server key. All are closed at the end."""
    opened: list[WatchReader] = []
    with server.client() as http:

        def open_(after: str | None = None, **asked: str) -> WatchReader:
            opened.append(WatchReader(http, after, **asked))
            return opened[-1]

        yield open_
        for one in opened:
            one.close()


def kinds(watching: WatchReader) -> list[str]:
    return [change["kind"] for change in watching.changes]


def test_an_edge_is_sent_with_its_current_and_previous_state(http: httpx.Client, watch: Any, people: People) -> None:
    seen = watch(graphs="follows", nodes=str(people.alice))
    add_edges(http, "follows", (people.alice, people.bob))
    ok(http.post(f"{API}/graph/follows/edges", json={"edges": [
        {"op": "remove", "source": people.alice, "destination": people.bob}
    ]}))  # fmt: skip
    eventually(lambda: len(seen.changes) == 2)
    first, second = seen.changes
    assert set(first) == {
        "kind", "token", "at", "graph", "source", "destination", "state", "before", "position", "updatedAt"
    }  # fmt: skip
    ends = (str(people.alice), str(people.bob))
    assert (first["source"], first["destination"], first["state"], first["before"]) == (*ends, "normal", None)
    assert (second["source"], second["destination"], second["state"], second["before"]) == (*ends, "removed", "normal")
    assert isinstance(first["position"], str)


@pytest.mark.skipif(ON_CLUSTER, reason="expects one order of all changes")
def test_records_that_users_create_change_and_delete_are_sent(acting: Acting, watch: Any, people: People) -> None:
    alice = acting(people.alice)
    seen = watch(kinds="post,comment,profile,story,node", nodes=f"{people.alice}")
    post = make(alice, "look 🦊", mentions=[str(people.bob)], attributes={"k": [1]})
    said = say(alice, post, "mine")
    story = tell(alice)
    ok(alice.patch(f"{API}/users/{people.alice}", json={"displayName": "Alice", "private": True}))
    ok(alice.patch(f"{API}/posts/{post}", json={"content": {"text": "changed"}}))
    assert alice.delete(f"{API}/posts/{post}").status_code < 300
    eventually(lambda: kinds(seen).count("post") == 3)
    assert kinds(seen) == ["post", "comment", "story", "profile", "node", "post", "post"]
    made, comment, told, profile, node, changed, gone = seen.changes
    assert (made["id"], made["author"], made["text"], made["mentions"]) == (
        post, str(people.alice), "look 🦊", [str(people.bob)]
    )  # fmt: skip
    assert (made["attributes"], made["deleted"], changed["text"]) == ({"k": [1]}, False, "changed")
    assert (gone["id"], gone["deleted"], gone["text"]) == (post, True, "")
    assert (comment["id"], comment["post"], comment["text"], told["id"]) == (said, post, "mine", story)
    assert (profile["id"], profile["displayName"]) == (str(people.alice), "Alice")
    assert (node["id"], node["state"], node["private"]) == (str(people.alice), "normal", True)


def test_boards_are_sent_when_created_hidden_and_deleted(acting: Acting, watch: Any, people: People) -> None:
    alice = acting(people.alice)
    seen = watch(kinds="board", nodes=f"{people.alice}")
    ok(acting(people.bob).post(f"{API}/boards", json={"name": "of another"}), 201)
    board = ok(alice.post(f"{API}/boards", json={"name": "Recipes"}), 201)["id"]
    ok(alice.patch(f"{API}/boards/{board}", json={"name": "Soups", "secret": True}))
    assert alice.delete(f"{API}/boards/{board}").status_code < 300
    eventually(lambda: len(seen.changes) >= 3, 60)
    assert [(one["kind"], one["id"], one["owner"]) for one in seen.changes] == [("board", board, str(people.alice))] * 3
    said = [(one["name"], one["secret"], one["deleted"]) for one in seen.changes]
    assert said == [("Recipes", False, False), ("Soups", True, False), ("", True, True)]


def test_a_watcher_that_keeps_its_token_gets_each_change_once_and_in_order(
    http: httpx.Client, watch: Any, people: People
) -> None:
    asked = {"graphs": "follows", "nodes": str(people.dana)}
    whole = watch(**asked)
    parts: list[dict[str, Any]] = []
    token = whole.token
    for round_ in range(8):
        part = watch(after=token, **asked)
        for number in range(25):
            add_edges(http, "follows", (people.alice + 1 + 25 * round_ + number, people.dana))
            if number == 12:  # changes while no watcher is connected are not missed
                eventually(lambda part=part: part.changes)
                part.close()
                eventually(lambda part=part: part.ended)
        parts += part.changes
        token = part.token
    last = watch(after=token, **asked)
    eventually(lambda: len(parts) + len(last.changes) == 200 and len(whole.changes) == 200)
    hidden = "token" if ON_CLUSTER else ""  # where the log has several ends, each watcher has its own tokens
    found, told = (
        [(change["source"], {name: change[name] for name in change if name != hidden}) for change in some]
        for some in (parts + last.changes, whole.changes)
    )
    assert comparable_order([source for source, _ in found]) == [str(people.alice + 1 + at) for at in range(200)]
    assert comparable_order([source for source, _ in told]) == comparable_order([source for source, _ in found])
    assert dict(found) == dict(told)


def test_server_sent_events_carry_the_token_as_their_id(server: Server, http: httpx.Client, people: People) -> None:
    before = WatchReader(http)
    resume = {"Last-Event-ID": before.token or ""}  # read now, because it changes with each message
    add_edges(http, "follows", (people.alice, people.bob))
    with http.stream("GET", f"{API}/watch", params={"graphs": "follows"}, headers=resume) as response:
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.iter_lines()
        heard = []
        while len(heard) < 3:
            line = next(lines)
            if line and line != ":" and not heard and not line.startswith("event"):
                token = line.removeprefix("id: ")
            if line.startswith(("event", "data")) or heard:
                heard.append(line)
        change = json.loads(heard[1].removeprefix("data: "))
    assert heard[0] == "event: change"
    assert (change["source"], change["token"]) == (str(people.alice), token)
    before.close()


def test_a_client_that_reconnects_with_its_first_address_resumes_behind_its_last_event(
    http: httpx.Client, people: People
) -> None:
    """So does an EventSource: its address keeps the `after` of the start, and its header has the last id."""
    watching = WatchReader(http, graphs="follows")
    start = watching.token
    tokens = []
    for followed in (people.bob, people.carol):
        add_edges(http, "follows", (people.alice, followed))
        eventually(lambda: len(watching.changes) > len(tokens))
        tokens.append(watching.changes[-1]["token"])
    params, headers = {"graphs": "follows", "after": start or ""}, {**LINES, "Last-Event-ID": tokens[0]}
    with http.stream("GET", f"{API}/watch", params=params, headers=headers) as response:
        lines = map(json.loads, response.iter_lines())
        change = next(line for line in lines if line["kind"] == "edge")
    assert change["destination"] == str(people.carol)
    watching.close()


@pytest.mark.parametrize(
    ("asked", "status", "error"),
    [
        ({"kinds": "likes"}, 400, "INVALID_REQUEST"),
        ({"graphs": "nonsense"}, 404, "GRAPH_NOT_FOUND"),
        ({"nodes": "x"}, 400, "INVALID_ID"),
        ({"nodes": ","}, 400, "INVALID_REQUEST"),
        ({"nodes": ""}, 400, "INVALID_REQUEST"),
        ({"after": "nonsense"}, 400, "TOKEN_INVALID"),
        ({"after": ""}, 400, "TOKEN_INVALID"),
        ({"graphs": ["follows", "blocks"]}, 400, "INVALID_REQUEST"),  # as two parameters
    ],
)
def test_an_invalid_watch_is_refused_at_once(
    http: httpx.Client, asked: dict[str, Any], status: int, error: str
) -> None:
    assert code(http.get(f"{API}/watch", params=asked), status) == error


def test_a_token_of_another_store_or_altered_or_too_old_says_what_to_do(tmp_path: Path, people: People) -> None:
    with serving(tmp_path / "one", KITH_LOG_EVENTS_MAX="200") as one, one.client() as http:
        old = WatchReader(http).token
        with serving(tmp_path / "two") as two, two.client() as other:
            assert code(other.get(f"{API}/watch", params={"after": old}), 400) == "TOKEN_INVALID"
        assert old is not None
        altered = old[:-1] + ("A" if old[-1] != "A" else "B")
        assert code(http.get(f"{API}/watch", params={"after": altered}), 400) == "TOKEN_INVALID"
        for number in range(20):
            add_edges(http, "follows", *((number * 100 + 1_000 + at, 5) for at in range(100)))
        answer = http.get(f"{API}/watch", params={"after": old})
        assert code(answer, 409) == "TOKEN_TOO_OLD"
        assert "export" in answer.json()["error"]["message"]


def test_the_clients_watch_loop_continues_after_a_kill_of_the_server(tmp_path: Path, people: People) -> None:
    heard: list[tuple[int, int]] = []
    begun = threading.Event()
    with serving(tmp_path) as server:
        port = server.port

        def listen() -> None:
            with Kith(server.url, server.key) as kith:
                for change in kith.watch(graphs=["follows"]):
                    assert isinstance(change, EdgeChange)
                    begun.set()
                    if change.destination == 3:
                        heard.append((change.source, change.destination))
                    if len(heard) == 60:
                        return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        with server.client() as http:
            others = itertools.count(1_000)
            eventually(lambda: add_edges(http, "follows", (1, next(others))) and begun.is_set())
            add_edges(http, "follows", *((10 + at, 3) for at in range(30)))
        server.process.kill()
        server.process.wait()
    with serving(tmp_path, port=port) as again, again.client() as http:
        add_edges(http, "follows", *((40 + at, 3) for at in range(30)))
        eventually(lambda: len(heard) == 60, 60)
    assert comparable_order(heard) == [(10 + at, 3) for at in range(60)]


def test_an_export_plus_the_changes_after_its_token_gives_the_current_edges(tmp_path: Path) -> None:
    chosen = random.Random(5)
    with serving(tmp_path) as server, server.client() as http:
        follows: set[tuple[int, int]] = set()

        def write(count: int) -> None:
            for _ in range(count):
                edges = []
                for _ in range(20):
                    pair = (chosen.randrange(1, 40), chosen.randrange(100, 140))
                    op = "remove" if pair in follows else "add"
                    (follows.remove if op == "remove" else follows.add)(pair)
                    edges.append({"op": op, "source": pair[0], "destination": pair[1]})
                ok(http.post(f"{API}/graph/follows/edges", json={"edges": edges}))

        write(50)
        writer = threading.Thread(target=write, args=(150,))
        writer.start()
        file = tmp_path / "follows.csv"
        exporting = [*KITH, "export", "edges", str(file), "--data", str(server.data)]
        said = done(
            subprocess.run(
                exporting,
                capture_output=True,
                text=True,
                env=CLEAN | store_settings(tmp_path),
                timeout=LIMIT_S,
                check=False,
            )
        )
        writer.join()
        (token,) = re.findall(r"after=(\S+)", said)
        rows = [line.split(",")[:2] for line in file.read_text().splitlines()]
        copied = {(int(row[0]), int(row[1])) for row in rows if row[0].isdigit()}
        seen = WatchReader(http, after=token, graphs="follows")
        add_edges(http, "follows", (7_777, 8_888))
        follows.add((7_777, 8_888))

        def as_told() -> set[tuple[int, int]]:
            now = set(copied)
            for change in list(seen.changes):
                pair = (int(change["source"]), int(change["destination"]))
                (now.add if change["state"] == "normal" else now.discard)(pair)
            return now

        assert eventually(lambda: as_told() == follows)
        seen.close()


def test_a_deactivation_is_sent_with_its_archived_edges(
    http: httpx.Client, system: httpx.Client, people: People
) -> None:
    seen = WatchReader(http, nodes=str(people.alice))
    add_edges(http, "follows", (people.alice, people.bob))
    finish(http, system.post(f"{API}/users/{people.alice}/deactivate"))
    eventually(lambda: [one.get("state") for one in seen.changes] == ["normal", "archived", "archived"])
    assert kinds(seen) == ["edge", "node", "edge"]
    seen.close()


def test_a_running_server_learns_the_name_of_a_newly_declared_graph(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.client() as http, server.client(acting="system") as system:
        assert code(http.get(f"{API}/graph/reads/7/8"), 404) == "GRAPH_NOT_FOUND"
        seen = WatchReader(http)
        file = tmp_path / "reads.csv"
        file.write_text("7,8\n7,9\n")
        importing = [*KITH, "import", "edges", "--graph", "reads", str(file), "--data", str(server.data)]
        named = {**CLEAN, "KITH_GRAPHS": "reads"} | store_settings(tmp_path)
        done(subprocess.run(importing, capture_output=True, text=True, env=named, timeout=LIMIT_S, check=False))
        assert eventually(lambda: http.get(f"{API}/graph/reads/7/8").status_code == 200)
        assert ok(http.get(f"{API}/graph/reads/7/8")) == {"exists": True}
        narrow = WatchReader(http, graphs="reads")
        add_edges(http, "reads", (7, 10))
        eventually(lambda: narrow.changes)
        eventually(lambda: len(seen.changes) >= 3)
        assert {change["graph"] for change in (*seen.changes, *narrow.changes)} == {"reads"}
        finish(http, system.delete(f"{API}/users/7"))
        assert ok(http.get(f"{API}/graph/reads/7/8")) == {"exists": False}, (
            "removing an account removes its edges in every graph"
        )
        seen.close()
        narrow.close()
