"""The JavaScript client under Node's own test runner: alone, and against a real server."""

from __future__ import annotations

import re
from pathlib import Path

from javascript import needs_node, node
from pictures import photo
from servers import serving, sign

CLIENT = Path(__file__).parents[2] / "clients" / "js"


@needs_node
def test_the_javascript_client_passes_its_tests_and_calls_every_operation_of_a_server(tmp_path: Path) -> None:
    picture = tmp_path / "fox.jpg"
    picture.write_bytes(photo())
    with serving(tmp_path, KITH_GRAPHS="badges") as server:
        run = node(
            "--test",
            "--test-reporter=tap",
            cwd=CLIENT,
            KITH_URL=server.url,
            KITH_KEY=server.key,
            KITH_TOKENS=f"{sign(1, ttl_s=-3600)},{sign(1)}",
            KITH_PICTURE=str(picture),
        )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert re.search(r"^# skipped 0$", run.stdout, re.MULTILINE), run.stdout[-2_000:]
