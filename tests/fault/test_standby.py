"""A primary is killed, paused or fenced, and a standby takes its place. No write that the mode protects may be lost."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from calls import add_edges, code, ok, upload
from machines import WITHIN_S, Machine, Writers, machines
from pictures import photo
from processes import FaultyDisk
from servers import API

_KILLS = int(os.environ.get("TEST_KILLS", "3"))
_MINUTE_S = 60.0


def kill_and_promote(folder: Path, seed: int, times: int, mode: str) -> None:
    """Repeatedly kill the primary under load and promote its standby, which becomes the next primary. Counts lost
    writes.
    """
    chosen, lost_follows = random.Random(seed), 0
    with machines(folder, *map(str, range(times + 1)), KITH_STANDBY_MODE=mode) as all_machines:
        primary = all_machines[0]
        primary.start()
        for number, standby in enumerate(all_machines[1:], 1):
            standby.start(of=primary)
            writers = Writers(primary, 6, number * 100)
            primary.until(lambda writers=writers: writers.count() > 100)
            threading.Event().wait(chosen.uniform(0.05, 0.5))
            primary.kill()
            writers.stop()
            assert standby.promote().returncode == 0
            standby.until(standby.leads)
            missing = writers.lost(standby)
            assert mode == "async" or missing == 0, f"{missing} of {writers.count()} acknowledged writes are lost"
            lost_follows, primary = lost_follows + missing, standby
        old_primary = all_machines[-2]
        old_primary.start(is_up=old_primary.answers)
        old_primary.until(lambda: old_primary.follow(1, 2).json().get("error", {}).get("code") == "NOT_PRIMARY")
    print(f"{mode}: {times} kills, {lost_follows} acknowledged writes lost")


@pytest.mark.short_of("test_nothing_that_a_standby_confirmed_is_lost_however_often_the_primary_is_killed")
def test_nothing_that_a_standby_confirmed_is_lost(tmp_path: Path, seed: int) -> None:
    kill_and_promote(tmp_path, seed, 1, "one")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["one", "async"])
def test_nothing_that_a_standby_confirmed_is_lost_however_often_the_primary_is_killed(
    tmp_path: Path, seed: int, mode: str
) -> None:
    """In mode async the latest writes may be lost, and only these."""
    kill_and_promote(tmp_path, seed, _KILLS, mode)


def test_a_standby_serves_reads_and_takes_over_without_losing_anything(tmp_path: Path) -> None:
    """The life of a pair: snapshot with media, replication, promotion while the old primary runs, and back again."""
    with machines(tmp_path, "first", "second") as (first, second):
        first.start()
        picture = _filled(first)
        second.start(of=first)
        _reads(first, second)
        assert _file_of(second, picture) == _file_of(first, picture)
        later = _uploaded(first)
        second.until(lambda: _file_of(second, later) == _file_of(first, later))
        writers = Writers(first, 4, 100)
        first.until(lambda: writers.count() > 50)
        result = second.promote()
        writers.stop()
        assert result.returncode == 0, result.stderr
        assert "takes no more writes" in result.stdout
        answer = first.follow(1, 3)
        assert (code(answer, 503), answer.json()["error"]["details"]) == ("NOT_PRIMARY", {"primary": second.url})
        assert "primary" in first.readiness()["problems"]
        second.until(second.leads)
        assert writers.lost(second) == 0
        with second.client(2) as http:
            second.until(lambda: len(http.get(f"{API}/feed").json()["posts"]) == 1)
        assert "already" in second.promote().stdout, "promoted twice"
        first.stop()
        first.start(of=second)
        assert ok(second.follow(1, 4))["following"]
        first.until(lambda: first.has(4))
        assert "never awaited" not in first.said() + second.said()


def _filled(machine: Machine) -> str:
    """Let Bob (2) follow Alice (1), who posts a picture. Returns the address of the picture."""
    assert machine.follow(2, 1).status_code == 200
    with machine.client(1) as alice:
        ok(alice.post(f"{API}/posts", json={"content": {"text": "hello"}}), 201)
    return _uploaded(machine)


def _uploaded(machine: Machine) -> str:
    with machine.client(1) as alice:
        return str(upload(alice, photo())["url"])


def _file_of(machine: Machine, address: str) -> bytes | None:
    with machine.client() as http:
        answer = http.get(address)
    return answer.content if answer.status_code == 200 else None


def _reads(first: Machine, second: Machine) -> None:
    """A standby serves reads as of a token, says how far it is behind, and takes no writes."""
    token = first.follow(1, 2).headers["Kith-Token"]
    with second.client(1) as http:
        answer = http.get(f"{API}/graph/follows/1/2", headers={"Kith-Token": token})
        assert ok(answer) == {"exists": True}
        second.until(lambda: http.get(f"{API}/users/1").headers["Kith-Behind"] != "unknown")
        assert code(http.post(f"{API}/users/5/follow"), 503) == "READ_ONLY_STANDBY"
        assert len(http.get(f"{API}/feed", headers={"X-Kith-User": "2"}).json()["posts"]) == 1
    assert f"standby of {first.url}" in second.readiness()["standby"]
    text = httpx.get(f"{second.url}/metrics", trust_env=False).text
    assert "kith_standby_behind_seconds" in text


def test_a_primary_that_was_paused_during_a_promotion_acknowledges_nothing(tmp_path: Path) -> None:
    with machines(tmp_path, "first", "second", KITH_STANDBY_MODE="one", KITH_STANDBY_TIMEOUT_MS="500") as all_machines:
        first, second = all_machines
        first.start()
        second.start(of=first)
        assert ok(first.follow(1, 2))["following"]
        first.signal(signal.SIGSTOP)
        assert second.promote().returncode == 0
        first.signal(signal.SIGCONT)
        statuses = {first.follow(1, 3).status_code}
        first.until(lambda: statuses.add(first.follow(1, 3).status_code) or not first.ready())
        assert statuses == {503}
        assert code(first.follow(1, 3), 503) == "NOT_PRIMARY", "the new primary has fenced it"
        second.until(second.leads)
        assert second.holding([(1, 2), (1, 3)]) == [True, False]


def test_a_primary_with_peers_asks_them_before_it_acknowledges_anything(tmp_path: Path) -> None:
    """This holds in mode async, where no standby has to confirm: after a pause, and at the start."""
    with machines(tmp_path, "first", "second") as (first, second):
        first.environment["KITH_PEERS"] = second.url
        first.start()
        second.start(of=first)
        assert ok(first.follow(1, 2))["following"]
        first.signal(signal.SIGSTOP)
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(first.follow(1, 3, WITHIN_S)))
        thread.start()  # the request waits in the socket, before the fencing call of the new primary
        assert second.promote().returncode == 0
        second.until(second.leads)
        first.signal(signal.SIGCONT)
        thread.join()
        assert code(answers[0], 503) == "NOT_PRIMARY"
    with machines(tmp_path / "again", "first", "second") as (first, second):
        first.environment["KITH_PEERS"] = second.url
        first.start()
        second.start(of=first)
        first.kill()
        assert second.promote().returncode == 0
        second.until(second.leads)
        with pytest.raises(AssertionError):
            first.start()
        assert f"{second.url} was made the primary" in first.said()


def test_two_promoted_standbys_report_each_other_once_the_old_primary_answers(tmp_path: Path) -> None:
    """They report it until one of them restarts as the standby of the other."""
    with machines(tmp_path, "first", "second", "third") as (first, second, third):
        first.start()
        for standby in (second, third):
            standby.start(of=first)
        first.signal(signal.SIGSTOP)
        for promoted in (second, third):
            assert promoted.promote().returncode == 0
            promoted.until(promoted.leads)
            assert "rival" not in promoted.readiness()
        first.signal(signal.SIGCONT)
        for machine, rival in ((second, third), (third, second)):
            machine.until(lambda machine=machine: "rival" in machine.readiness())
            assert machine.readiness()["ready"]
            reported = machine.readiness()["rival"]
            assert f"{rival.url} was made the primary, too" in reported
            assert "kith standby --of" in reported
            assert f"look role: {reported}" in machine.doctor()
        third.stop()
        third.data.rename(third.folder / "kept")
        third.start(of=second)
        second.until(lambda: "rival" not in second.readiness())
        assert "ok role: takes writes" in second.doctor()
        assert "ok role: this is a standby" in third.doctor()


def test_two_primaries_that_are_peers_report_each_other_while_the_old_one_is_down(tmp_path: Path) -> None:
    """And without --force the second promotion is refused."""
    with machines(tmp_path, "first", "second", "third") as (first, second, third):
        first.start()
        for standby, rival in ((second, third), (third, second)):
            standby.environment["KITH_PEERS"] = f"{first.url},{rival.url}"
            standby.start(of=first)
        first.kill()
        assert second.promote().returncode == 0
        second.until(second.leads)
        result = third.promote()
        assert result.returncode != 0
        assert f"{second.url} was made the primary already" in " ".join((result.stdout + result.stderr).split())
        third.until(third.ready)
        assert "rival" not in second.readiness()
        assert third.promote("--force").returncode == 0
        third.until(third.leads)
        for machine, rival in ((second, third), (third, second)):
            machine.until(lambda machine=machine: "rival" in machine.readiness())
            assert rival.url in machine.readiness()["rival"]


def test_a_refused_promotion_fences_no_machine(tmp_path: Path) -> None:
    """When the new primary starts, it asks its peers. The machine whose promotion was refused is one of them."""
    with machines(tmp_path, "first", "second", "third") as (first, second, third):
        second.environment["KITH_PEERS"] = third.url
        first.start()
        for standby in (second, third):
            standby.start(of=first)
        assert second.promote().returncode == 0
        second.until(second.leads)
        assert third.promote().returncode != 0
        third.stop()
        third.start(of=second)
        second.stop()
        second.start()
        assert ok(second.follow(1, 2))["following"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["one", "async"])
def test_a_primary_that_resumes_after_a_minute_acknowledges_nothing(tmp_path: Path, mode: str) -> None:
    """By then its leases and time limits have expired, requests wait in its sockets, and the new primary has new
    writes.
    """
    pairs = [(user, 5_000 + user) for user in range(20)]
    with machines(tmp_path, "first", "second") as (first, second):
        first.environment |= {"KITH_PEERS": second.url, "KITH_STANDBY_MODE": mode}
        first.start()
        second.start(of=first)
        before = Writers(first, 4, 100)
        first.until(lambda: before.count() > 100)
        first.signal(signal.SIGSTOP)
        resumed_s = time.monotonic() + _MINUTE_S
        with ThreadPoolExecutor(len(pairs)) as threads:
            waiting = [threads.submit(first.follow, *pair, 2 * _MINUTE_S) for pair in pairs]
            promoted = second.promote()
            assert promoted.returncode == 0, promoted.stderr
            second.until(second.leads)
            during = Writers(second, 4, 200)
            threading.Event().wait(resumed_s - time.monotonic())
            first.signal(signal.SIGCONT)
            statuses = [answer.result().status_code for answer in waiting]
        before.stop()
        first.until(lambda: statuses.append(first.follow(1, 2).status_code) or not first.ready())
        assert set(statuses) == {503}
        assert code(first.follow(1, 2), 503) == "NOT_PRIMARY"
        during.stop()
        assert not any(second.holding([*pairs, (1, 2)]))
        assert during.count() > 100
        assert during.lost(second) == 0
        lost_follows = before.lost(second)
        assert mode == "async" or lost_follows == 0, f"{lost_follows} of {before.count()} acknowledged writes are lost"


def test_of_two_standbys_one_is_promoted_and_the_other_follows_it(tmp_path: Path) -> None:
    with machines(tmp_path, "first", "second", "third") as (first, second, third):
        first.start()
        assert ok(first.follow(1, 2))["following"]
        second.start(of=first)
        third.start(of=first)
        assert second.promote().returncode == 0
        result = third.promote()
        assert result.returncode == 1
        assert "was made the primary already" in result.stderr
        second.until(second.leads)
        third.stop()
        third.start(of=second)
        assert ok(second.follow(1, 3))["following"]
        third.until(lambda: third.has(3))


def test_a_write_that_no_standby_has_is_not_acknowledged(tmp_path: Path) -> None:
    with machines(tmp_path, "only", KITH_STANDBY_MODE="one", KITH_STANDBY_TIMEOUT_MS="200") as (only,):
        only.start()
        assert code(only.follow(1, 2), 503) == "OUTCOME_UNKNOWN"
        assert code(only.follow(1, 2), 503) == "OUTCOME_UNKNOWN", "although the edge is stored on the primary"


def test_a_standby_with_a_full_disk_keeps_serving_and_catches_up_later(tmp_path: Path, disk: FaultyDisk) -> None:
    with machines(tmp_path / "all", "first", "second") as (first, second):
        first.start()
        second.start(of=first, **disk.environment)
        assert ok(first.follow(1, 2))["following"]
        second.until(lambda: second.has(2))
        disk.order("ENOSPC-ALL")
        assert ok(first.follow(1, 3))["following"]
        second.until(lambda: "room" in second.readiness()["standby"])
        assert second.holding([(1, 2), (1, 3)]) == [True, False]
        disk.heal()
        second.until(lambda: second.has(3))


def test_a_standby_that_was_away_longer_than_the_log_is_kept_restarts_from_a_snapshot(tmp_path: Path) -> None:
    settings = {"KITH_LOG_EVENTS_MAX": "500", "KITH_LOG_LEASED_BYTES_MAX": str(1 << 16)}
    with machines(tmp_path, "first", "second", **settings) as (first, second):
        first.start()
        second.start(of=first)
        second.signal(signal.SIGSTOP)
        with first.client() as http:
            for number in range(12):
                add_edges(http, "follows", *((user, 7) for user in range(number * 1_000 + 10, number * 1_000 + 1_010)))
        second.signal(signal.SIGCONT)
        second.until(lambda: "starts over" in second.said())
        second.until(lambda: second.has(7, 10) and second.has(7, 12_009))
        assert ok(first.follow(1, 3))["following"]
        second.until(lambda: second.has(3))


def test_the_log_is_kept_for_a_standby_that_is_away(tmp_path: Path) -> None:
    with machines(tmp_path, "first", "second", KITH_LOG_EVENTS_MAX="500") as (first, second):
        first.start()
        second.start(of=first)
        first.until(lambda: "kith_log_leases 1" in httpx.get(f"{first.url}/metrics", trust_env=False).text)
        second.signal(signal.SIGSTOP)
        with first.client() as http:
            for number in range(4):
                add_edges(http, "follows", *((user, 7) for user in range(number * 1_000 + 10, number * 1_000 + 1_010)))
        second.signal(signal.SIGCONT)
        second.until(lambda: second.has(7, 10) and second.has(7, 4_009))
        assert "starts over" not in second.said()


def test_the_old_primary_answers_the_address_of_the_new_one(tmp_path: Path) -> None:
    with machines(tmp_path, "first", "second", "third") as (first, second, third):
        first.start()
        second.start(of=first)
        result = second.promote(at=False)
        assert result.returncode == 0, result.stderr
        assert first.follow(1, 3).json()["error"]["details"] == {"primary": second.url}
        second.until(second.leads)
        assert "already" in second.promote(at=False).stdout
        third.start(of=second)
        third.stop()
        second_result = third.promote(at=False)
        assert (second_result.returncode, "--url" in second_result.stderr) == (1, True)
        assert third.promote("--port", "7999", at=False).returncode == 0
        address = second.follow(1, 3).json()["error"]["details"]["primary"]
        assert address == f"http://{socket.gethostname()}:7999"


def test_an_old_primary_that_was_never_fenced_becomes_the_standby_of_the_new_one(tmp_path: Path) -> None:
    with machines(tmp_path, "first", "second") as (first, second):
        first.start()
        second.start(of=first)
        first.kill()  # the standby has all of its writes
        assert second.promote().returncode == 0
        second.until(second.leads)
        first.start(of=second)
        assert second.follow(1, 3).status_code == 200
        first.until(lambda: first.holding([(1, 3)]) == [True])
        assert first.follow(1, 4).json()["error"]["code"] == "READ_ONLY_STANDBY"


def test_a_store_that_takes_writes_becomes_no_standby_and_cannot_be_promoted(tmp_path: Path) -> None:
    with machines(tmp_path, "first", "second") as (first, second):
        first.start()
        second.start()
        second.stop()
        with pytest.raises(AssertionError):
            second.start(of=first)
        assert "takes writes" in second.said()
        assert "already" in second.promote().stdout
