"""The JavaScript client under Node's own test runner: alone, and against a real server. Nothing is installed for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pictures import photo
from servers import serving, sign

CLIENT = Path(__file__).parents[2] / "clients" / "js"
NODE_MIN = 20
LIMIT_S = 120


def node_version() -> int:
    """The major version of the Node that is here; 0 without one."""
    node = shutil.which("node")
    if node is None:
        return 0
    told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout
    found = re.match(r"v(\d+)", told)
    return int(found[1]) if found else 0


needs_node = pytest.mark.skipif(node_version() < NODE_MIN, reason=f"needs Node {NODE_MIN} or newer on the PATH")


@needs_node
def test_the_javascript_client_passes_its_tests_and_calls_every_operation_of_a_server(tmp_path: Path) -> None:
    picture = tmp_path / "fox.jpg"
    picture.write_bytes(photo())
    with serving(tmp_path, KITH_GRAPHS="badges") as server:
        given = {
            "KITH_URL": server.url,
            "KITH_KEY": server.key,
            "KITH_TOKENS": f"{sign(1, ttl_s=-3600)},{sign(1)}",
            "KITH_PICTURE": str(picture),
        }
        run = subprocess.run(
            ["node", "--test", "--test-reporter=tap"],
            cwd=CLIENT,
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert re.search(r"^# skipped 0$", run.stdout, re.MULTILINE), run.stdout[-2_000:]
