"""What docs/webhooks.md shows works: its checks of signatures, in Python and in Node, take ours and nothing else."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from javascript import needs_node, node

from kith.webhooks.signature import sign

GUIDE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
SECRET, BODY = "whsec_of-this-test", '{"changes": ["ü"]}'.encode()
NOW = int(time.time())
OURS = sign(SECRET, BODY, NOW)
CASES: list[tuple[str, str, bytes, bool]] = [
    (SECRET, OURS, BODY, True),
    (SECRET, sign(SECRET, BODY, NOW - 200), BODY, True),
    (SECRET + "x", OURS, BODY, False),
    (SECRET, OURS, BODY + b" ", False),
    (SECRET, sign(SECRET, BODY, NOW - 400), BODY, False),
    (SECRET, sign(SECRET, BODY, NOW + 400), BODY, False),
    (SECRET, OURS.replace(f"t={NOW}", f"t={NOW + 1}"), BODY, False),
    (SECRET, OURS[:-1], BODY, False),
    (SECRET, OURS.partition(",")[0], BODY, False),
    (SECRET, OURS.partition(",")[2], BODY, False),
    (SECRET, f"t={NOW},v1=é", BODY, False),
    (SECRET, "", BODY, False),
]


def block(language: str, says: str) -> str:
    """The example in this language that has these words."""
    (found,) = (code for code in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if says in code)
    return str(found)


@pytest.mark.parametrize(("secret", "signature", "body", "taken"), CASES)
def test_the_check_in_python_takes_ours_and_nothing_else(secret: str, signature: str, body: bytes, taken: bool) -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python", "def is_ours"), "docs/webhooks.md", "exec"), names)
    assert names["is_ours"](secret, signature, body) is taken


@needs_node
def test_the_check_in_node_takes_ours_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "check.mjs"
    asked = json.dumps([[secret, signature, body.decode()] for secret, signature, body, _ in CASES])
    script.write_text(
        block("javascript", "function isOurs")
        + f"\nconst asked = {asked};"
        + "\nconsole.log(JSON.stringify(asked.map(([s, given, body]) => isOurs(s, given, Buffer.from(body)))));"
    )
    run = node(str(script), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [taken for *_, taken in CASES]
