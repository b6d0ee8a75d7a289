"""The disk fills, fails or is slow: writes are refused with a reason, reads continue, no acknowledged write is lost.

`faulty_disk.c`, preloaded into the process under test, makes the disk fail.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from engine import HUB
from ledger import check_audit, opened
from processes import EngineProcess, FaultyDisk, ServerGroup, engine_over, serving

from kith.core.errors import StoreFull
from kith.engines.embedded.store_file import STORE_FILE

BATCH = 500


# --- full ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["ENOSPC", "ENOSPC {room}", "ENOSPC-ALL"], ids=["at-once", "cut-short", "in-place"])
def test_a_full_disk_refuses_writes_as_full_and_recovers_without_a_restart(
    tmp_path: Path, disk: FaultyDisk, order: str
) -> None:
    folder = tmp_path / "data"
    with engine_over(folder, environment=disk.environment) as engine:
        assert "sequence" in engine("write", 0, BATCH)
        room = (folder / STORE_FILE).stat().st_size + 50_001  # not a whole number of pages
        disk.order(order.format(room=room))
        rows_kept = fill(engine, BATCH)
        for _ in range(3):
            assert engine("write", rows_kept, BATCH)["error"] == "STORE_FULL"
        assert engine("read", 0) == {"exists": True}
        assert engine("read", rows_kept) == {"exists": False}
        assert engine("count") == {"count": rows_kept}
        disk.heal()
        assert "sequence" in engine("write", rows_kept, BATCH)
        assert engine("count") == {"count": rows_kept + BATCH}
    check_stored(folder, rows_kept + BATCH)


def fill(engine: EngineProcess, written: int) -> int:
    """Write batches until one is refused as full. Returns the number of stored edges."""
    for _ in range(200):
        answer = engine("write", written, BATCH)
        if "error" in answer:
            assert answer["error"] == "STORE_FULL", answer
            return written
        written += BATCH
    raise AssertionError("the disk never filled")


def check_stored(folder: Path, edges: int, **settings: Any) -> None:
    """Check that the store is whole and has exactly the edges 0 to `edges` - 1 to the hub."""
    with opened(folder, **settings) as (environment, store):
        assert check_audit(environment, store) == edges


def test_a_full_disk_answers_503_store_full_over_http_and_reads_continue(tmp_path: Path, disk: FaultyDisk) -> None:
    with serving(tmp_path / "data", environment=disk.environment) as server, server.client() as client:
        assert post_edges(client, 0).status_code == 200
        disk.order("ENOSPC")
        rows_kept = BATCH
        for _ in range(50):
            answer = post_edges(client, rows_kept)
            if answer.status_code != 200:
                break
            rows_kept += BATCH
        assert code_of(answer) == (503, "STORE_FULL")
        assert "retry-after" in answer.headers
        assert code_of(follow(client, 7, 8)) == (503, "STORE_FULL")
        assert exists(client, 0, HUB)
        assert in_count(client) == rows_kept
        assert client.get("/readyz").status_code == 200, "a full disk is not a reason to restart the process"
        disk.heal()
        assert post_edges(client, rows_kept).status_code == 200
        assert follow(client, 7, 8).status_code == 200
        assert in_count(client) == rows_kept + BATCH
    check_stored(tmp_path / "data", rows_kept + BATCH + 1)


def test_a_full_map_is_store_full_until_the_bound_is_raised(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "data", 2 << 20, 8 << 20
    with engine_over(folder, small) as engine:
        rows_kept = fill(engine, 0)
        assert rows_kept > 0
        assert engine("count") == {"count": rows_kept}
        assert engine("read", rows_kept - 1) == {"exists": True}
        assert engine("failed") == {"failed": False}
    with engine_over(folder, large) as engine:
        assert "sequence" in engine("write", rows_kept, BATCH)
        assert engine("count") == {"count": rows_kept + BATCH}
    check_stored(folder, rows_kept + BATCH, bytes_max=large)


def test_a_full_map_still_opens_and_reads_with_the_same_bound(tmp_path: Path) -> None:
    folder, small = tmp_path / "data", 2 << 20
    with engine_over(folder, small) as engine:
        rows_kept = fill(engine, 0)
    check_stored(folder, rows_kept, bytes_max=small)
    with engine_over(folder, small) as engine:
        assert engine("read", 0) == {"exists": True}
        assert engine("write", rows_kept, BATCH)["error"] == StoreFull.code


# --- failing -------------------------------------------------------------------------------------------


def test_a_failed_sync_is_not_acknowledged_and_loses_no_acknowledged_write(tmp_path: Path, disk: FaultyDisk) -> None:
    folder = tmp_path / "data"
    with engine_over(folder, environment=disk.environment) as engine:
        assert "sequence" in engine("write", 0, BATCH)
        engine("sync")  # or else a checkpoint may hit the fault
        disk.order("EIO-JOURNAL once")
        assert engine("write", BATCH, BATCH)["error"] == "STORE_UNAVAILABLE"
        assert not disk.pending
        second_answer = engine(
            "write", BATCH, BATCH
        )  # either it recovers, or it answers that the process must be replaced
        assert "sequence" in second_answer or (second_answer["error"], engine("failed")) == (
            "STORE_UNAVAILABLE",
            {"failed": True},
        )
        rows_read = engine("read", 0)
        assert rows_read == {"exists": True} or rows_read["error"] == "STORE_UNAVAILABLE"
    with engine_over(folder) as engine:
        assert "sequence" in engine("write", BATCH, BATCH)
        assert engine("count") == {"count": 2 * BATCH}
    check_stored(folder, 2 * BATCH)


def test_after_a_failed_checkpoint_a_new_process_has_every_acknowledged_write(tmp_path: Path, disk: FaultyDisk) -> None:
    folder = tmp_path / "data"
    with engine_over(folder, environment=disk.environment) as engine:
        assert "sequence" in engine("write", 0, BATCH)
        written = BATCH
        disk.order("EIO-STORE once")
        while "sequence" in (answer := engine("write", written, BATCH)):
            written += BATCH
        assert (answer["error"], engine("failed")) == ("STORE_UNAVAILABLE", {"failed": True})
        assert not disk.pending
        assert engine("read", 0) == {"exists": True}
        assert engine("write", written, BATCH)["error"] == "STORE_UNAVAILABLE"
    with engine_over(folder) as engine:
        assert engine("count") == {"count": written}
        assert "sequence" in engine("write", written, BATCH)
    check_stored(folder, written + BATCH)


@pytest.mark.parametrize("order", ["EIO-JOURNAL once", "EIO-STORE once"])
def test_a_failed_sync_answers_503_over_http_and_the_service_recovers(
    tmp_path: Path, disk: FaultyDisk, order: str
) -> None:
    """Whether the process recovers or is replaced, nobody has to restart it by hand."""
    with serving(tmp_path / "data", workers=2, environment=disk.environment) as server, server.client() as client:
        assert post_edges(client, 0).status_code == 200
        disk.order(order)
        server.wait_until("a sync has failed", lambda: post_edges(client, BATCH) is not None and not disk.pending)
        server.wait_until("every worker takes writes again", lambda: writes_work(server), 15)
        for _ in range(20):  # each on a new connection, so that both workers answer
            assert exists(client, 0, HUB)
            assert post_edges(client, BATCH).status_code == 200
            assert client.get("/readyz").status_code == 200
        assert in_count(client) == 2 * BATCH
    check_stored(tmp_path / "data", 2 * BATCH)


def writes_work(server: ServerGroup) -> bool:
    """Whether 20 writes in a row succeed, each on its own connection."""
    try:
        with server.client() as client:
            return all(post_edges(client, BATCH).status_code == 200 for _ in range(20))
    except httpx.TransportError:
        return False


def answered(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer of a request, repeated while a process is being replaced."""
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            return ask()
        time.sleep(0.05)
    raise AssertionError("no process answers")


def test_while_every_sync_fails_writes_are_refused_as_unavailable_without_driver_errors(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    with serving(tmp_path / "data", environment=disk.environment) as server, server.client() as client:
        assert post_edges(client, 0).status_code == 200
        disk.order("EIO-SYNC")
        answers = [answered(lambda step=step: post_edges(client, BATCH + step)) for step in range(5)]
        reads = [answered(lambda: client.get(f"/api/v1/graph/follows/0/{HUB}")) for _ in range(5)]
        disk.heal()
        assert {code_of(answer) for answer in answers} == {(503, "STORE_UNAVAILABLE")}
        assert all(
            read_answer.status_code == 200 or code_of(read_answer) == (503, "STORE_UNAVAILABLE")
            for read_answer in reads
        ), reads
        server.wait_until("writes work again", lambda: writes_work(server), 15)
        assert exists(client, 0, HUB)
        assert "Traceback" not in server.log()
    with opened(tmp_path / "data") as (environment, store):
        check_audit(environment, store)


# --- slow ----------------------------------------------------------------------------------------------


def test_a_slow_disk_times_out_and_repeating_the_write_is_safe(tmp_path: Path, disk: FaultyDisk) -> None:
    variables = {**disk.environment, "KITH_REQUEST_TIMEOUT_MS": "300"}
    with serving(tmp_path / "data", environment=variables) as server, server.client() as client:
        disk.order("SLOW 700")
        assert code_of(post_edges(client, 0)) == (503, "TIMEOUT")
        assert code_of(follow(client, 7, 8)) == (503, "TIMEOUT")
        assert client.get("/healthz").status_code == 200, "a slow sync delays only requests that wait for it"
        assert client.get(f"/api/v1/graph/follows/0/{HUB}").status_code == 200
        disk.heal()
        server.wait_until("the queue is empty", lambda: post_edges(client, 0).status_code == 200)
        assert follow(client, 7, 8).json()["following"] is True
        assert in_count(client) == BATCH, "each edge is stored once"
    check_stored(tmp_path / "data", BATCH + 1)


def test_a_full_queue_is_refused_at_once_as_overloaded_and_then_drains(tmp_path: Path, disk: FaultyDisk) -> None:
    folder, queue_max, calls = tmp_path / "data", 50, 400
    with engine_over(folder, 1 << 30, queue_max, environment=disk.environment) as engine:
        disk.order("SLOW 300")
        answer = engine("many", calls)
        assert set(answer["refused"]) == {"OVERLOADED"}
        assert queue_max <= answer["done"] < calls
        assert answer["done"] + answer["refused"]["OVERLOADED"] == calls
        disk.heal()
        assert engine("many", queue_max) == {"done": queue_max, "refused": {}}
    with opened(folder) as (environment, store):
        assert check_audit(environment, store) == answer["done"]


def test_a_full_queue_answers_503_overloaded_over_http(tmp_path: Path, disk: FaultyDisk) -> None:
    variables = {**disk.environment, "KITH_COMMIT_QUEUE_MAX": "10", "KITH_REQUEST_TIMEOUT_MS": "400"}
    with serving(tmp_path / "data", environment=variables) as server, server.client() as client:
        disk.order("SLOW 1500")
        waiting = [code_of(post_edges(client, 1_000 * step, count=6)) for step in range(3)]
        assert waiting[0] == (503, "TIMEOUT")
        assert waiting[-1] == (503, "OVERLOADED")
        disk.heal()
        server.wait_until("the queue is empty", lambda: post_edges(client, 0, count=6).status_code == 200)


# --- requests to the server ---------------------------------------------------------------------------------


def post_edges(client: httpx.Client, first: int, count: int = BATCH) -> httpx.Response:
    """Write `count` edges to the hub, from source `first` on, in one request."""
    edges = [{"op": "add", "source": first + step, "destination": HUB} for step in range(count)]
    return client.post("/api/v1/graph/follows/edges", json={"edges": edges})


def follow(client: httpx.Client, actor: int, target: int) -> httpx.Response:
    """Let `actor` follow `target`."""
    return client.post(f"/api/v1/users/{target}/follow", headers={"x-kith-user": str(actor)})


def exists(client: httpx.Client, source: int, destination: int) -> bool:
    """Check one follow."""
    return bool(client.get(f"/api/v1/graph/follows/{source}/{destination}").json()["exists"])


def in_count(client: httpx.Client) -> int:
    """The number of edges to the hub."""
    return int(client.get(f"/api/v1/graph/follows/{HUB}/in/count").json()["count"])


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and error code."""
    return answer.status_code, answer.json().get("error", {}).get("code", "")
