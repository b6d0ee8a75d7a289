"""Backups that a server makes on its own, and the answers to its clients after a restore to an earlier moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from calls import code, ok
from servers import API, Server, eventually, serving

from kith.engines.blobs.archives import FolderArchive
from kith.run.backups.parts import read_parts


def run_kith(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "kith", *arguments], capture_output=True, timeout=60, check=True)
    return done.stdout.decode()


def follow(http: httpx.Client, destination: int) -> str:
    answer = http.post(f"{API}/users/{destination}/follow")
    ok(answer, answer.status_code)
    return str(answer.headers["Kith-Token"])


def gauge(server: Server, name: str) -> float | None:
    with server.client() as http:
        for line in http.get("/metrics").text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    return None


def test_a_server_backs_itself_up_and_can_be_restored_to_the_moment_of_a_token(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with serving(tmp_path, KITH_BACKUP_TO=str(kept)) as server, server.client(acting=1) as http:
        eventually(lambda: (gauge(server, "kith_backup_age_seconds") or 1e9) < 60)
        assert gauge(server, "kith_backup_failing") == 0
        (whole,) = read_parts(FolderArchive(kept)).whole
        assert whole.kind == "whole"
        held = follow(http, 2)
        lost = follow(http, 3)
        assert "events" in run_kith("backup", str(kept), "--increment", "--data", str(tmp_path / "data"))
        follow(http, 4)
    (tmp_path / "data").rename(tmp_path / "old")
    assert "is good" in run_kith("restore", str(kept), "--drill", "--data", str(tmp_path / "data"))
    said = run_kith("restore", str(kept), "--data", str(tmp_path / "data"), "--at", held)
    assert "after event" in said
    with serving(tmp_path) as server, server.client(acting=1) as http:
        path = f"{API}/users/1/following"
        assert [user["id"] for user in ok(http.get(path, headers={"Kith-Token": held}))["items"]] == ["2"]
        assert code(http.get(path, headers={"Kith-Token": lost}), 409) == "CONFLICT"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_drill_that_is_stopped_leaves_no_copy_of_the_store(tmp_path: Path, number: signal.Signals) -> None:
    """As by `timeout`, or when the machine shuts down."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup")
    kept, temporary = tmp_path / "kept", tmp_path / "temporary"
    temporary.mkdir()
    run_kith("token", "--server", "--data", str(tmp_path / "data"))
    run_kith("backup", str(kept), "--data", str(tmp_path / "data"))
    (copy,) = kept.glob("files/*/store.mdb")
    copy.unlink()
    os.mkfifo(copy)  # nobody writes to it, so the drill waits
    command = [sys.executable, "-m", "kith", "restore", str(kept), "--drill"]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)}) as drill:
        try:
            eventually(lambda: any(temporary.glob("kith-drill-*/restoring")))
            drill.send_signal(number)
            assert drill.wait(timeout=60) == 130
        finally:
            drill.kill()
    assert list(temporary.iterdir()) == []
