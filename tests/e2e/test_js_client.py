"""The JavaScript client under Node's own test runner: alone, and against a real server."""

from __future__ import annotations

import re
from pathlib import Path

from javascript import deno, needs_deno, needs_node, node
from pictures import photo
from servers import Server, serving, sign

CLIENT = Path(__file__).parents[2] / "clients" / "js"


def variables_of(server: Server, folder: Path) -> dict[str, str]:
    """The environment variables that `live.test.js` reads."""
    picture = folder / "fox.jpg"
    picture.write_bytes(photo())
    tokens = f"{sign(1, ttl_s=-3600)},{sign(1)}"
    return {"KITH_URL": server.url, "KITH_KEY": server.key, "KITH_TOKENS": tokens, "KITH_PICTURE": str(picture)}


@needs_node
def test_the_javascript_client_passes_its_tests_and_calls_every_operation_of_a_server(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_GRAPHS="badges") as server:
        run = node("--test", "--test-reporter=tap", cwd=CLIENT, **variables_of(server, tmp_path))
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert re.search(r"^# skipped 0$", run.stdout, re.MULTILINE), run.stdout[-2_000:]


@needs_deno
def test_the_javascript_client_calls_every_operation_from_deno(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_GRAPHS="badges") as server:
        told = variables_of(server, tmp_path)
        run = deno(
            "test", "--no-check", "-A", "tests/live.test.js", cwd=CLIENT, DENO_DIR=str(tmp_path / "deno"), **told
        )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert "0 failed" in run.stdout
