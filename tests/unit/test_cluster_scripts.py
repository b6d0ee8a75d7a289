"""The scripts in cluster/ start servers with the right settings. Another program stands in for Java here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

CLUSTER = Path(__file__).parents[2] / "cluster"
SLACK = Path("/proc/self/timerslack_ns")


def may_set_slack() -> bool:
    """Whether a process may write its timer slack on this machine. Writes the present value."""
    try:
        SLACK.write_text(SLACK.read_text())
    except OSError:
        return False
    return True


@pytest.mark.skipif(not may_set_slack(), reason="the timer slack cannot be changed here")
def test_cassandra_runs_with_a_timer_slack_of_500_us(tmp_path: Path) -> None:
    for script in ("cassandra.sh", "servers.sh"):
        shutil.copy(CLUSTER / script, tmp_path)
    java = tmp_path / "java"
    java.write_text(f"#!{sys.executable}\nprint(open('/proc/self/timerslack_ns').read(), flush=True)\n")
    java.chmod(0o755)
    log = tmp_path / "run" / "cassandra-19042" / "1" / "log"
    log.parent.mkdir(parents=True)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KITH_CASSANDRA_PORT": "19042"}
    subprocess.run([tmp_path / "cassandra.sh", "start", "1"], env=environment, check=True, timeout=30)
    deadline = time.monotonic() + 30
    while (
        not (log.exists() and log.read_text()) and time.monotonic() < deadline
    ):  # the script starts it in the background
        time.sleep(0.01)
    assert log.read_text().strip() == "500000"
