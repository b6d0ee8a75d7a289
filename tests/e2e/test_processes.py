"""Several processes on one folder, and a folder over several restarts: nothing is lost or seen partially."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from calls import add_edges, check, code, ids, ok
from cast import People
from servers import (
    API,
    DEFAULT_SETTINGS,
    WITHOUT_KEYS,
    Server,
    alive,
    eventually,
    free_port,
    launch,
    named,
    printed_key,
    refused,
    serving,
    sign,
)

from kith.core.events import LogPosition
from kith.core.tokens import WriteMark, WriteTokens
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.formats import FORMAT
from kith.run.config import Settings
from kith.run.consumers import processes_of_workers

PAIR = ("--workers", "2")


def metric(text: str, start: str) -> float:
    """The sum of all samples whose line begins with `start`."""
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(start))


def worker_pids(server: Server) -> set[str]:
    """Ids of the API processes that have written metrics."""
    return {file.stem.removeprefix("api-") for file in (server.data / "metrics").glob("api-*.json")}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two processes on one folder, shared by tests that do not kill them."""
    with serving(tmp_path_factory.mktemp("pair"), *PAIR) as running:
        yield running


@pytest.fixture
def own_pair(tmp_path: Path) -> Iterator[Server]:
    """Two processes on one folder, for one test."""
    with serving(tmp_path, *PAIR) as running:
        yield running


def test_a_write_is_visible_at_once_in_every_process(pair: Server, people: People) -> None:
    for target in people.crowd(25):
        with pair.client(acting=people.alice) as writer:
            token = ok(writer.post(f"{API}/users/{target}/follow"))["token"]
        for headers in ({}, {"Kith-Token": token}):
            for _ in range(4):
                with pair.client(headers=headers) as reader:
                    assert check(reader, "follows", people.alice, target)
                    assert ids(ok(reader.get(f"{API}/users/{target}/followers"))) == [people.alice]
    eventually(lambda: len(worker_pids(pair)) == 2)  # metrics are written now and then


def test_metrics_of_any_process_are_the_sum_of_all(pair: Server, people: People) -> None:
    name = 'kith_responses_total{operation="check_many",status="200"}'  # an operation that no other test here calls
    eventually(lambda: len(worker_pids(pair)) == 2)
    for _ in range(60):
        with pair.client() as http:
            ok(http.post(f"{API}/graph/follows/check", json={"pairs": [[people.alice, people.bob]]}))
    for _ in range(6):
        eventually(lambda: metric(pair.get("/metrics").text, name) == 60, seconds=3)


def test_cursors_jobs_and_user_tokens_work_in_every_process(pair: Server, people: People) -> None:
    with pair.client() as http:
        add_edges(http, "follows", *((other, people.bob) for other in people.crowd(40)))
        cursor = None
        started = ok(http.post(f"{API}/users/{people.carol}/reactivate"), 202)["job"]["id"]
    seen: list[int] = []
    for _ in range(20):
        with pair.client(sign(people.alice)) as alice:
            params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = ok(alice.get(f"{API}/users/{people.bob}/followers", params=params))
        seen, cursor = seen + ids(page), page["pagination"]["nextCursor"]
        with pair.client() as http:
            assert ok(http.get(f"{API}/jobs/{started}"))["id"] == started
    assert seen == people.crowd(40)[::-1]
    assert cursor is None


@pytest.mark.parametrize("processes", [1, 2])
def test_after_sigterm_and_a_restart_every_write_answered_200_is_there(
    tmp_path: Path, people: People, processes: int
) -> None:
    answered: list[int] = []
    odd: list[str] = []
    with serving(tmp_path, "--workers", str(processes), KITH_FOLLOWS_MAX="1000000") as server:
        stop, under_way = threading.Event(), threading.Semaphore(0)

        def write(first: int) -> None:
            with server.client(acting=people.alice) as http:
                for target in range(first, first + 100_000):
                    if stop.is_set():
                        return
                    try:
                        answer = http.post(f"{API}/users/{target}/follow")
                    except httpx.TransportError:
                        return
                    if answer.status_code == 200:
                        answered.append(target)
                        under_way.release()
                    elif answer.status_code != 503:
                        odd.append(answer.text)

        with ThreadPoolExecutor(12) as pool:
            writers = [pool.submit(write, 10**12 + number * 1_000_000) for number in range(12)]  # ids outside the cast
            for _ in range(200):
                assert under_way.acquire(timeout=10)
            status = server.terminate()
            stop.set()
            for writer in writers:
                writer.result()
    assert odd == []
    assert status == 0
    with serving(tmp_path, KITH_FOLLOWS_MAX="1000000") as again, again.client() as http:
        found: set[int] = set()
        cursor = None
        while True:
            params = {"limit": 1_000, **({"cursor": cursor} if cursor else {})}
            page = ok(http.get(f"{API}/users/{people.alice}/following", params=params))
            found |= set(ids(page))
            cursor = page["pagination"]["nextCursor"]
            if cursor is None:
                break
        assert set(answered) <= found
        assert len(found) - len(answered) <= 12, "only writes in flight may be stored without an answer"
        assert ok(http.get(f"{API}/graph/follows/{people.alice}/out/count")) == {"count": len(found)}


@pytest.mark.parametrize("forked_s", [0.0, 0.05, 0.2, 0.5, 0.9])
def test_a_server_stopped_while_it_starts_ends(tmp_path: Path, forked_s: float) -> None:
    """`forked_s`: seconds between the fork of the API process and the signal, which the process must not miss."""
    process = launch(tmp_path, port=free_port(), output=tmp_path / "log", **DEFAULT_SETTINGS)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        processes = len(processes_of_workers(Settings())) + 1  # the workers, and the forked API process
        eventually(lambda: len(children.read_text().split()) == processes, 20)
        time.sleep(forked_s)
        process.terminate()
        assert process.wait(10) == 0, "long before `drain_timeout_s`"
    finally:
        process.kill()


def test_sigkill_loses_no_answered_write(tmp_path: Path, people: People) -> None:
    with serving(tmp_path, *PAIR) as server:
        with server.client(acting=people.alice) as http:
            for target in people.crowd(20):
                ok(http.post(f"{API}/users/{target}/follow"))
        for pid in worker_pids(server):
            kill(pid)
        eventually(lambda: server.process.poll() is not None or server.ready())
    with serving(tmp_path) as again, again.client() as http:
        assert sorted(ids(ok(http.get(f"{API}/users/{people.alice}/following")))) == people.crowd(20)


def kill(pid: str) -> None:
    """Send SIGKILL to an API process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)


def test_a_worker_that_dies_is_replaced(own_pair: Server, people: People) -> None:
    eventually(lambda: len(worker_pids(own_pair)) == 2)
    before = worker_pids(own_pair)
    kill(min(before))
    eventually(lambda: len(worker_pids(own_pair) - before) == 1)
    (said,) = [line for line in own_pair.output().splitlines() if "a process ended" in line]
    assert json.loads(said)["how"] == "signal 9 (Killed)"
    for _ in range(20):
        with own_pair.client(acting=people.alice) as http:
            assert ok(http.post(f"{API}/users/{people.bob}/follow"))["following"]


ALIKE = {("mentions-day",), ("mentions-month",)}
"""Kinds that behave like another kind below, so they are not tested."""


@pytest.mark.parametrize("kind", [("api",), *(kind for kind in processes_of_workers(Settings()) if kind not in ALIKE)])
def test_a_process_that_hangs_is_replaced(tmp_path: Path, people: People, kind: tuple[str, ...]) -> None:
    with serving(tmp_path, KITH_HANG_TIMEOUT_S="2") as server:
        eventually(lambda: follow_is_handled(server, people.bob, people.alice), 60)
        eventually(lambda: kind == ("api",) or json.dumps(kind) in server.output(), 60)  # the supervisor knows it
        (hung,) = named(kind[0], server.process.pid)
        os.kill(hung, signal.SIGSTOP)
        eventually(lambda: not alive(hung), 60)
        eventually(server.ready, 60)
        eventually(lambda: follow_is_handled(server, people.carol, people.alice), 60)
        assert "a process hangs" in server.output()


def follow_is_handled(server: Server, follower: int, followed: int) -> bool:
    """Send a follow. Whether the worker has handled all events."""
    with server.client(acting=follower) as http:
        ok(http.post(f"{API}/users/{followed}/follow"))
        return "kith_fanout_lag_events 0.0" in http.get("/metrics").text


def test_all_processes_end_with_the_one_that_holds_the_folder(own_pair: Server) -> None:
    eventually(lambda: len(worker_pids(own_pair)) == 2)
    pids = worker_pids(own_pair)
    own_pair.process.kill()
    own_pair.process.wait()
    try:
        eventually(lambda: not any(alive(pid) for pid in pids))
    finally:
        for pid in pids:
            kill(pid)


def test_a_restart_keeps_everything(tmp_path: Path, people: People) -> None:
    alice, bob, carol, dana = people
    with serving(tmp_path, settings=WITHOUT_KEYS) as server:
        key = server.key
        with server.client(acting="system") as http, server.client(acting=bob) as bobs:
            add_edges(http, "follows", (alice, bob), (carol, bob), position=7)
            ok(http.put(f"{API}/users/{carol}", json={"private": True}))
            ok(bobs.post(f"{API}/users/{carol}/follow"))
            token = ok(bobs.post(f"{API}/users/{dana}/block"))["token"]
            cursor = ok(http.get(f"{API}/users/{bob}/followers", params={"limit": 1}))["pagination"]["nextCursor"]
            job = ok(http.post(f"{API}/users/{alice}/deactivate"), 202)["job"]["id"]
            eventually(lambda: ok(http.get(f"{API}/jobs/{job}"))["done"])
            before = [ok(http.get(API + path)) for path in (f"/users/{bob}", f"/users/{bob}/followers", f"/jobs/{job}")]
        assert server.terminate() == 0
    with serving(tmp_path, settings=WITHOUT_KEYS) as server:
        assert printed_key(server) is None
        server.key = key
        with (
            server.client(acting="system") as http,
            server.client(acting=carol, headers={"Kith-Token": token}) as carols,
        ):
            after = [ok(http.get(API + path)) for path in (f"/users/{bob}", f"/users/{bob}/followers", f"/jobs/{job}")]
            assert after == before
            page = ok(http.get(f"{API}/users/{bob}/followers", params={"limit": 1, "cursor": cursor}))
            assert page["items"] == []
            assert ids(ok(carols.get(f"{API}/follow-requests"))) == [bob]
            assert check(http, "blocks", bob, dana)
            assert ok(http.get(f"{API}/users/{alice}"))["state"] == "archived"


def test_a_second_server_with_other_store_settings_is_refused_and_names_them(pair: Server) -> None:
    for changed in ({"KITH_DURABILITY": "full"}, {"KITH_STORE_BYTES_MAX": "999999999"}, {"KITH_TIMELINES_FOLDER": "x"}):
        output = refused(pair.data.parent, **{**DEFAULT_SETTINGS, **changed})
        (name,) = changed
        assert name.removeprefix("KITH_").lower() in output
        assert "Traceback" not in output
    assert pair.ready()


def test_two_servers_with_the_same_settings_can_share_a_folder(
    own_pair: Server, tmp_path: Path, people: People
) -> None:
    with serving(tmp_path) as second:
        assert second.port != own_pair.port
        for number, target in enumerate(people.crowd(20)):
            writer, reader = (own_pair, second) if number % 2 else (second, own_pair)
            with writer.client(acting=people.alice) as http:
                token = ok(http.post(f"{API}/users/{target}/follow"))["token"]
            with reader.client(headers={"Kith-Token": token}) as http:
                assert check(http, "follows", people.alice, target)
        with own_pair.client() as http:
            name = 'kith_responses_total{operation="follow",status="200"}'
            eventually(lambda: metric(http.get("/metrics").text, name) == 20)
    assert own_pair.ready()


def test_a_port_in_use_is_refused_clearly(pair: Server, tmp_path: Path) -> None:
    output = refused(tmp_path / "another", port=pair.port, **DEFAULT_SETTINGS)
    assert str(pair.port) in output
    assert "Traceback" not in output
    assert pair.ready()


def test_a_folder_of_a_newer_format_is_refused_clearly(tmp_path: Path) -> None:
    with Environment(tmp_path / "data", durability="relaxed") as environment:
        environment.put_note("format", str(FORMAT + 1).encode())
    output = refused(tmp_path, **DEFAULT_SETTINGS)
    assert "newer Kith" in output
    assert "upgrade" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KITH_WORKERS", "65"),
        ("KITH_FOLLOWS_MAX", "x"),
        ("KITH_DURABILITY", "none"),
        ("KITH_GRAPHS", "Bad Name"),
        ("KITH_API_KEYS", "[broken"),
        ("KITH_JWT_SECRET", "short"),
        ("KITH_JWT_ALGORITHMS", "none"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_clearly(tmp_path: Path, name: str, value: str) -> None:
    output = refused(tmp_path, **{**DEFAULT_SETTINGS, name: value})
    assert "Traceback" not in output
    assert name.removeprefix("KITH_").lower().rstrip("s") in output.lower()


def test_a_folder_that_is_no_store_is_refused_clearly(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "store.mdb").write_bytes(b"no store " * 2_000)
    assert "Traceback" not in refused(tmp_path, **DEFAULT_SETTINGS)


def test_a_write_token_from_the_future_is_refused_clearly(tmp_path: Path, people: People) -> None:
    with serving(tmp_path) as server, server.client(acting=people.alice) as http:
        now = ok(http.post(f"{API}/users/{people.bob}/follow"))["token"]
        with Environment(tmp_path / "data", durability="relaxed", create=False) as environment:
            tokens = WriteTokens(environment.secret("signing"))
        assert tokens.issue(tokens.read(now)) == now
        at, updated_at = tokens.read(now)
        later = (int.from_bytes(at, "big") + 1_000).to_bytes(len(at), "big")
        future = tokens.issue(WriteMark(LogPosition(later), updated_at))
        altered = now[:-1] + ("A" if now[-1] != "A" else "E")
        for path in (f"/graph/follows/{people.alice}/{people.bob}", f"/users/{people.alice}"):
            answer = http.get(API + path, headers={"Kith-Token": future})
            assert code(answer, 409) == "CONFLICT"
            assert "Kith-Token" in answer.json()["error"]["message"]
            assert code(http.get(API + path, headers={"Kith-Token": altered}), 400) == "TOKEN_INVALID"
            assert ok(http.get(API + path, headers={"Kith-Token": now}))
        refused_write = http.post(f"{API}/users/{people.carol}/follow", headers={"Kith-Token": future})
        assert code(refused_write, 409) == "CONFLICT"
        assert not check(http, "follows", people.alice, people.carol)
